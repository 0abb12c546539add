def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Consignment 3017 is on tour N-14 (5) with the exact note for the driver, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    notes = found.pop("notes", {"added": [], "removed": [], "changed": {}})
    written = [(row["consignment_id"], row["kind"], row["text"].strip().rstrip(".")) for row in notes["added"]]
    planned = {"status": ["open", "planned"], "tour_id": [None, 5]}
    done = (
        found == {"consignments": {"added": [], "removed": [], "changed": {3017: planned}}}
        and written == [(3017, "driver", "Fragile: do not stack")]
        and not notes["removed"]
        and not notes["changed"]
    )
    return {"result": "complete" if done else "others"}
