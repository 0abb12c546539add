def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Bike 5 has a new job of Noor's with diagnosis, sensor, unsent quote and call_first note; nothing else changed."""
    from database_changes import changes

    wanted = {
        "jobs": {"bike_id": 5, "mechanic_id": 2, "status": "open"},
        "job_services": {"service_id": 8},
        "job_parts": {"part_id": 10, "quantity": 1},
        "quotes": {
            "labour_total": 49.0,
            "parts_total": 38.5,
            "labour_discount_percent": 0,
            "parts_discount_percent": 0,
            "total": 87.5,
            "status": "draft",
            "sent_at": None,
        },
        "notes": {"kind": "call_first"},
    }
    found = changes(initial_db_path, final_db_path)
    sensor = found.pop("parts", None)
    right = set(found) == set(wanted) and sensor == {"added": [], "removed": [], "changed": {10: {"stock": [3, 2]}}}
    right = right and all(len(t["added"]) == 1 and not t["removed"] and not t["changed"] for t in found.values())
    if right:
        job_id = found["jobs"]["added"][0]["id"]
        for table, values in wanted.items():
            row = found[table]["added"][0]
            right = right and row.get("job_id", job_id) == job_id
            right = right and all(row[name] == value for name, value in values.items())
    return {"result": "complete" if right else "others"}
