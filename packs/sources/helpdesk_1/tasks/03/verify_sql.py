def verify_task(initial_db_path, final_db_path):
    """The warranty tickets that are open or pending, oldest first, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    warranty = {row["ticket_id"] for row in tables["ticket_tags"].values() if row["tag_id"] == 1}
    live = [row for row in tables["tickets"].values() if row["id"] in warranty and row["status"] in ("open", "pending")]
    return {
        "live_warranty_tickets": sorted(live, key=lambda row: row["created_at"]),
        "changes": changes(initial_db_path, final_db_path),
    }
