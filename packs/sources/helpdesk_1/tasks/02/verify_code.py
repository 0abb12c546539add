def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """All live water leaks are urgent and assigned, as they were from the start, and nothing is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    done = found == {}
    return {"result": "complete" if done else "others"}
