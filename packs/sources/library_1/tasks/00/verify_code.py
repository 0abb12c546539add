def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Loan 204 runs three weeks longer, reader 3 has the new number, and nothing else is different."""
    import re
    from datetime import date, timedelta

    from database_changes import changes, read_tables

    loan, reader = read_tables(initial_db_path)["loans"][204], read_tables(initial_db_path)["readers"][3]
    due = date.fromisoformat(loan["due_on"]) + timedelta(weeks=3)
    found = changes(initial_db_path, final_db_path)
    phone = found.get("readers", {}).get("changed", {}).get(3, {}).get("phone", [None, None])[1]
    done = re.sub(r"\D", "", str(phone)) == "01632960188" and found == {
        "loans": {
            "added": [],
            "removed": [],
            "changed": {204: {"due_on": [loan["due_on"], due.isoformat()], "renewals": [0, 1]}},
        },
        "readers": {"added": [], "removed": [], "changed": {3: {"phone": [reader["phone"], phone]}}},
    }
    return {"result": "complete" if done else "others"}
