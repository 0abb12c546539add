def verify_task(initial_db_path, final_db_path):
    """Hanna Okafor's card and running loans, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    return {
        "reader": tables["readers"].get(3),
        "running_loans": [r for r in tables["loans"].values() if r["reader_id"] == 3 and r["ended_on"] is None],
        "changes": changes(initial_db_path, final_db_path),
    }
