def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The loss is recorded, 28.40 charged and paid by card, the overdue fine of that loan waived, nothing else."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    changed = {table: part["changed"] for table, part in found.items()}
    ended = changed.get("loans", {}).get(210, {}).get("ended_on", [None, None])[1]
    reason = changed.get("fines", {}).get(409, {}).get("waived_because", [None, None])[1]
    fines, payments = (found.get(table, {"added": []})["added"] for table in ("fines", "payments"))
    wanted = {"reader_id": 10, "loan_id": 210, "kind": "lost", "amount": 28.4, "status": "paid", "waived_because": None}
    done = (
        changed
        == {
            "copies": {112: {"status": ["on_loan", "lost"]}},
            "fines": {409: {"status": ["open", "waived"], "waived_because": [None, reason]}},
            "loans": {210: {"ended_as": [None, "lost"], "ended_on": [None, ended]}},
            "payments": {},
        }
        and len(fines) == 1
        and all(fines[0][name] == value for name, value in wanted.items())
        and all(row["fine_id"] == fines[0]["id"] and row["method"] == "card" for row in payments)
        and round(sum(row["amount"] for row in payments), 2) == 28.4
        and not any(part["removed"] for part in found.values())
        and not any(part["added"] for table, part in found.items() if table not in ("fines", "payments"))
    )
    return {"result": "complete" if done else "others"}
