def verify_task(initial_db_path, final_db_path):
    """The tour and what was on it at the start, the reefers, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    loads = [row["id"] for row in read_tables(initial_db_path)["consignments"].values() if row["tour_id"] == 7]
    return {
        "tour": tables["tours"].get(7),
        "loads_at_the_start": [tables["consignments"].get(load) for load in loads],
        "notes_on_them": [row for row in tables["notes"].values() if row["consignment_id"] in loads],
        "reefers": [row for row in tables["vehicles"].values() if row["kind"] == "reefer"],
        "changes": changes(initial_db_path, final_db_path),
    }
