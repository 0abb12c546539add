def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Ticket 1025 belongs to Priya (2), Nadia has the exact public answer, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    comments = found.get("ticket_comments", {"added": [], "removed": [], "changed": {}})
    answers = [(row["ticket_id"], row["body"].strip(), row["is_public"]) for row in comments["added"]]
    done = (
        set(found) == {"tickets", "ticket_comments"}
        and found["tickets"] == {"added": [], "removed": [], "changed": {1025: {"assignee_id": [None, 2]}}}
        and answers == [(1025, "Thank you, Nadia. Your usual contact is on it and will call you today.", 1)]
        and not comments["removed"]
        and not comments["changed"]
    )
    return {"result": "complete" if done else "others"}
