def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """One quote for job 7 with 15 % off labour and nothing off parts was sent; nothing else changed."""
    from database_changes import changes, read_tables

    tables = read_tables(initial_db_path)
    labour = sum(row["price"] for row in tables["job_services"].values() if row["job_id"] == 7)
    parts = sum(row["unit_price"] * row["quantity"] for row in tables["job_parts"].values() if row["job_id"] == 7)
    numbers = {
        "labour_total": labour,
        "parts_total": parts,
        "labour_discount_percent": 15,
        "parts_discount_percent": 0,
        "total": labour * 0.85 + parts,
    }

    found = changes(initial_db_path, final_db_path)
    quotes = found.pop("quotes", {"added": [], "removed": [], "changed": {}})
    right = (
        not found
        and not quotes["removed"]
        and not quotes["changed"]
        and len(quotes["added"]) == 1
        and quotes["added"][0]["job_id"] == 7
        and quotes["added"][0]["status"] == "sent"
        and quotes["added"][0]["sent_at"] is not None
        and all(abs(quotes["added"][0][name] - value) < 0.005 for name, value in numbers.items())
    )
    return {"result": "complete" if right else "others"}
