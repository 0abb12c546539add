def verify_task(initial_db_path, final_db_path):
    """The loan, its copy, all fines of the reader with their payments, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    fines = [row for row in tables["fines"].values() if row["reader_id"] == 10]
    numbers = {row["id"] for row in fines}
    return {
        "loan": tables["loans"].get(210),
        "copy": tables["copies"].get(112),
        "fines_of_oscar_lund": fines,
        "payments": [row for row in tables["payments"].values() if row["fine_id"] in numbers],
        "changes": changes(initial_db_path, final_db_path),
    }
