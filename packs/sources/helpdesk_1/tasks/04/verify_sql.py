def verify_task(initial_db_path, final_db_path):
    """Every ticket of the customer, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    return {
        "tickets_of_greta_lindqvist": [row for row in tables["tickets"].values() if row["customer_id"] == 1],
        "changes": changes(initial_db_path, final_db_path),
    }
