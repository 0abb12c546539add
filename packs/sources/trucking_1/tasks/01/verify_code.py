def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Consignment 3018 is with Kestrel (1) and has the exact office note, and nothing else is different."""
    from database_changes import changes

    found = changes(initial_db_path, final_db_path)
    notes = found.pop("notes", {"added": [], "removed": [], "changed": {}})
    written = [(row["consignment_id"], row["kind"], row["text"].strip().rstrip(".")) for row in notes["added"]]
    given = {"partner_id": [None, 1], "status": ["open", "subcontracted"]}
    done = (
        found == {"consignments": {"added": [], "removed": [], "changed": {3018: given}}}
        and written == [(3018, "office", "Handed over to partner")]
        and not notes["removed"]
        and not notes["changed"]
    )
    return {"result": "complete" if done else "others"}
