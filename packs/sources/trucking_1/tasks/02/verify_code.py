def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """All dangerous goods had a certified driver from the start, and nothing is different."""
    from database_changes import changes

    done = changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if done else "others"}
