def verify_task(initial_db_path, final_db_path):
    """Iris Kaplan's loans and holds, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    return {
        "loans": [row for row in tables["loans"].values() if row["reader_id"] == 8],
        "holds": [row for row in tables["holds"].values() if row["reader_id"] == 8],
        "changes": changes(initial_db_path, final_db_path),
    }
