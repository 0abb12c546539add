def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The three copies that lay ready are lent to reader 8 for ten weeks, and nothing else is different."""
    from datetime import date

    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    loans = found.get("loans", {"added": [], "removed": [], "changed": {}})
    lent = []
    for row in loans["added"]:
        days = (date.fromisoformat(row["due_on"]) - date.fromisoformat(row["loaned_on"])).days
        lent.append((row["copy_id"], row["reader_id"], days, row["renewals"], row["ended_on"]))
    changed = {table: part["changed"] for table, part in found.items()}
    done = (
        sorted(lent) == [(copy_id, 8, 70, 0, None) for copy_id in (108, 109, 110)]
        and changed
        == {
            "copies": {copy_id: {"status": ["hold_shelf", "on_loan"]} for copy_id in (108, 109, 110)},
            "holds": {hold_id: {"status": ["ready", "collected"]} for hold_id in (312, 313, 314)},
            "loans": {},
        }
        and not any(part["removed"] for part in found.values())
        and not any(part["added"] for table, part in found.items() if table != "loans")
    )
    return {"result": "complete" if done else "others"}
