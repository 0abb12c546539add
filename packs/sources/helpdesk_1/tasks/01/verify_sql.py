def verify_task(initial_db_path, final_db_path):
    """The ticket, who looks after it, its conversation, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    ticket = tables["tickets"].get(1025, {})
    return {
        "ticket": ticket,
        "assignee": tables["agents"].get(ticket.get("assignee_id")),
        "comments": [row for row in tables["ticket_comments"].values() if row["ticket_id"] == 1025],
        "changes": changes(initial_db_path, final_db_path),
    }
