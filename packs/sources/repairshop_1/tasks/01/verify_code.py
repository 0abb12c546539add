def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Job 9 is with Ruben and waits for parts, as it did at the start; no row changed at all."""
    from database_changes import changes, read_tables

    job = read_tables(final_db_path)["jobs"].get(9, {})
    untouched = changes(initial_db_path, final_db_path) == {}
    right = untouched and job.get("mechanic_id") == 1 and job.get("status") == "waiting_parts"
    return {"result": "complete" if right else "others"}
