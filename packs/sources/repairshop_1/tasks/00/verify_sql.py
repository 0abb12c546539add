def verify_task(initial_db_path, final_db_path):
    """The job, its part lines, both chains in stock, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    return {
        "job": tables["jobs"].get(5),
        "parts_on_the_job": [row for row in tables["job_parts"].values() if row["job_id"] == 5],
        "chains_in_stock": {
            row["sku"]: row["stock"] for row in tables["parts"].values() if row["sku"].startswith("CH-")
        },
        "changes": changes(initial_db_path, final_db_path),
    }
