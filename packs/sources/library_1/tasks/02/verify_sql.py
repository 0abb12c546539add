def verify_task(initial_db_path, final_db_path):
    """Every reader who owes something or is blocked, with what is left to pay, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    left = {}
    for fine in tables["fines"].values():
        if fine["status"] == "open":
            paid = sum(row["amount"] for row in tables["payments"].values() if row["fine_id"] == fine["id"])
            left[fine["reader_id"]] = round(left.get(fine["reader_id"], 0) + fine["amount"] - paid, 2)
    readers = [row for row in tables["readers"].values() if row["id"] in left or row["status"] == "blocked"]
    return {
        "cards": [{**{k: row[k] for k in ("id", "name", "status")}, "left": left.get(row["id"], 0)} for row in readers],
        "changes": changes(initial_db_path, final_db_path),
    }
