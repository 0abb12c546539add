def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """C-07 has the spare, BW24 KLD is in the workshop, 3022 waits with a note, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    changed = {table: part["changed"] for table, part in found.items()}
    notes = found.get("notes", {"added": []})["added"]
    done = (
        changed
        == {
            "consignments": {3022: {"status": ["planned", "open"], "tour_id": [7, None]}},
            "notes": {},
            "tours": {7: {"vehicle_id": [2, 3]}},
            "vehicles": {2: {"status": ["ready", "workshop"]}},
        }
        and [(row["consignment_id"], row["kind"]) for row in notes] == [(3022, "call_customer")]
        and not any(part["removed"] for part in found.values())
        and not any(part["added"] for table, part in found.items() if table != "notes")
    )
    return {"result": "complete" if done else "others"}
