def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Every card had the right status from the start, and nothing is different."""
    from database_changes import changes

    done = changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if done else "others"}
