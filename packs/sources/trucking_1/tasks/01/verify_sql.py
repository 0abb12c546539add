def verify_task(initial_db_path, final_db_path):
    """The consignment, the partner it went to, its notes, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    consignment = tables["consignments"].get(3018, {})
    return {
        "consignment": consignment,
        "partner": tables["partners"].get(consignment.get("partner_id")),
        "notes": [row for row in tables["notes"].values() if row["consignment_id"] == 3018],
        "changes": changes(initial_db_path, final_db_path),
    }
