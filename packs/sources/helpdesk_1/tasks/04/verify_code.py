def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """1003 is open again, 1017 and 1021 are merged into it, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    changed = {table: part["changed"] for table, part in found.items()}
    solved_at = changed.get("tickets", {}).get(1003, {}).get("solved_at", [None, None])
    done = changed == {
        "tickets": {
            1003: {"solved_at": [solved_at[0], None], "status": ["solved", "open"]},
            1017: {"merged_into_id": [None, 1003], "status": ["open", "closed"]},
            1021: {"merged_into_id": [None, 1003], "status": ["open", "closed"]},
        }
    } and not any(part["added"] or part["removed"] for part in found.values())
    return {"result": "complete" if done else "others"}
