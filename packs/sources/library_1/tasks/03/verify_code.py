def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The answer says waiting=5 and place=3 and nothing that contradicts it, and the database is untouched."""
    import re

    from database_changes import changes

    answer = str(final_answer or "")
    waiting = re.findall(r"\bwaiting\W*[=:]\W*(\d+)", answer, re.IGNORECASE)
    place = re.findall(r"\bplace\W*[=:]\W*(\d+)", answer, re.IGNORECASE)
    done = set(waiting) == {"5"} and set(place) == {"3"} and changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if done else "others"}
