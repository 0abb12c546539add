def verify_task(initial_db_path, final_db_path):
    """The job's quotes, labour and part lines at the end, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    evidence = {"changes": changes(initial_db_path, final_db_path)}
    for table in ("quotes", "job_services", "job_parts"):
        evidence[f"{table}_of_job_7"] = [row for row in tables[table].values() if row["job_id"] == 7]
    return evidence
