def verify_task(initial_db_path, final_db_path):
    """The ticket about the grinder with its tags, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    names = {row["id"]: row["name"] for row in tables["tags"].values()}
    links = [row["tag_id"] for row in tables["ticket_tags"].values() if row["ticket_id"] == 1012]
    return {
        "ticket": tables["tickets"].get(1012),
        "tags": [names[tag_id] for tag_id in links],
        "changes": changes(initial_db_path, final_db_path),
    }
