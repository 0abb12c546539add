def verify_task(initial_db_path, final_db_path):
    """Lena, the tickets she had at the start, the notes written since, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    hers = {row["id"] for row in read_tables(initial_db_path)["tickets"].values() if row["assignee_id"] == 7}
    found = changes(initial_db_path, final_db_path)
    return {
        "lena": tables["agents"].get(7),
        "tickets_lena_had": [row for row in tables["tickets"].values() if row["id"] in hers],
        "new_comments": found.get("ticket_comments", {}).get("added", []),
        "changes": found,
    }
