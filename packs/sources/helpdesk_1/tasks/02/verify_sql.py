def verify_task(initial_db_path, final_db_path):
    """All tickets tagged 'water-leak', and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    leaks = {row["ticket_id"] for row in tables["ticket_tags"].values() if row["tag_id"] == 2}
    return {
        "water_leaks": [tables["tickets"][ticket_id] for ticket_id in sorted(leaks)],
        "changes": changes(initial_db_path, final_db_path),
    }
