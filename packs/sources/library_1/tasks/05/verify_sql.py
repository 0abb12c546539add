def verify_task(initial_db_path, final_db_path):
    """The branch, the holds that were picked up there with their readers' categories, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    there = [row["id"] for row in read_tables(initial_db_path)["holds"].values() if row["branch_id"] == 2]
    holds = [tables["holds"][hold_id] for hold_id in there if hold_id in tables["holds"]]
    return {
        "riverside": tables["branches"].get(2),
        "holds": [{**row, "category": tables["readers"][row["reader_id"]]["category"]} for row in holds],
        "transfers": list(tables["transfers"].values()),
        "changes": changes(initial_db_path, final_db_path),
    }
