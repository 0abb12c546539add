def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Ticket 1012 has high priority and the tag 'warranty', and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    tagged = found.get("ticket_tags", {"added": [], "removed": [], "changed": {}})
    done = (
        set(found) == {"tickets", "ticket_tags"}
        and found["tickets"] == {"added": [], "removed": [], "changed": {1012: {"priority": ["normal", "high"]}}}
        and [(row["ticket_id"], row["tag_id"]) for row in tagged["added"]] == [(1012, 1)]
        and not tagged["removed"]
        and not tagged["changed"]
    )
    return {"result": "complete" if done else "others"}
