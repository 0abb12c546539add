def verify_task(initial_db_path, final_db_path):
    """The job, who has it, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    job = tables["jobs"].get(9, {})
    return {
        "job": job,
        "mechanic": tables["mechanics"].get(job.get("mechanic_id")),
        "changes": changes(initial_db_path, final_db_path),
    }
