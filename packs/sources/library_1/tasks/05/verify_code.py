def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Five holds moved, two copies on their way, Riverside closed, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    changed = {table: part["changed"] for table, part in found.items()}
    columns = ("copy_id", "from_branch_id", "to_branch_id", "hold_id", "status", "arrived_at")
    sent = [tuple(row[name] for name in columns) for row in found.get("transfers", {"added": []})["added"]]
    done = (
        changed
        == {
            "branches": {2: {"status": ["open", "closed"]}},
            "copies": {copy_id: {"status": ["hold_shelf", "in_transit"]} for copy_id in (115, 118)},
            "holds": {
                306: {"branch_id": [2, 1]},
                319: {"branch_id": [2, 3], "status": ["ready", "in_transit"]},
                320: {"branch_id": [2, 3]},
                321: {"branch_id": [2, 1], "status": ["ready", "in_transit"]},
                322: {"branch_id": [2, 1]},
            },
            "transfers": {},
        }
        and sorted(sent) == [(115, 2, 3, 319, "sent", None), (118, 2, 1, 321, "sent", None)]
        and not any(part["removed"] for part in found.values())
        and not any(part["added"] for table, part in found.items() if table != "transfers")
    )
    return {"result": "complete" if done else "others"}
