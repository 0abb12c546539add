def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Job 5 got one 9-speed chain (part 1) from stock and is in progress; nothing else changed."""
    from database_changes import changes, read_tables

    price = read_tables(initial_db_path)["parts"][1]["price"]
    found = changes(initial_db_path, final_db_path)
    lines = found.pop("job_parts", {"added": [], "removed": [], "changed": {}})
    line = {"job_id": 5, "part_id": 1, "quantity": 1, "unit_price": price}
    right = (
        len(lines["added"]) == 1
        and {name: lines["added"][0][name] for name in line} == line
        and not lines["removed"]
        and not lines["changed"]
        and found
        == {
            "jobs": {"added": [], "removed": [], "changed": {5: {"status": ["open", "in_progress"]}}},
            "parts": {"added": [], "removed": [], "changed": {1: {"stock": [8, 7]}}},
        }
    )
    return {"result": "complete" if right else "others"}
