def verify_task(initial_db_path, final_db_path):
    """Those who wait for the book, in order, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    waiting = [row for row in tables["holds"].values() if row["title_id"] == 3 and row["status"] == "waiting"]
    readers = [tables["readers"][row["reader_id"]]["name"] for row in sorted(waiting, key=lambda row: row["placed_at"])]
    return {
        "queue_for_the_book": readers,
        "expected_answer": f"waiting={len(readers)}, place={readers.index('Mateo Rossi') + 1}",
        "changes": changes(initial_db_path, final_db_path),
    }
