def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The answer says count=4 and oldest=1006 and nothing that contradicts it, and the database is untouched."""
    import re

    from database_changes import changes

    answer = str(final_answer or "")
    counts = re.findall(r"\bcount\W*[=:]\W*(\d+)", answer, re.IGNORECASE)
    oldest = re.findall(r"\boldest\W*[=:]\W*(\d+)", answer, re.IGNORECASE)
    done = set(counts) == {"4"} and set(oldest) == {"1006"} and changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if done else "others"}
