def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Four tickets handed over with one note each, Lena on leave, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    notes = found.get("ticket_comments", {"added": [], "removed": [], "changed": {}})
    written = sorted((row["ticket_id"], row["body"].strip().rstrip("."), row["is_public"]) for row in notes["added"])
    changed = {table: part["changed"] for table, part in found.items()}
    done = (
        changed
        == {
            "agents": {7: {"availability": ["available", "on_leave"]}},
            "ticket_comments": {},
            "tickets": {
                1007: {"assignee_id": [7, 9]},
                1008: {"assignee_id": [7, 8]},
                1013: {"assignee_id": [7, 9]},
                1014: {"assignee_id": [7, 8]},
            },
        }
        and written == [(ticket_id, "Handed over from Lena", 0) for ticket_id in (1007, 1008, 1013, 1014)]
        and not any(part["removed"] for part in found.values())
        and not any(part["added"] for table, part in found.items() if table != "ticket_comments")
    )
    return {"result": "complete" if done else "others"}
