def verify_task(initial_db_path, final_db_path):
    """The tableware, its notes, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    consignment = tables["consignments"].get(3017, {})
    return {
        "consignment": consignment,
        "tour": tables["tours"].get(consignment.get("tour_id")),
        "notes": [row for row in tables["notes"].values() if row["consignment_id"] == 3017],
        "changes": changes(initial_db_path, final_db_path),
    }
