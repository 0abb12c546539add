def verify_task(initial_db_path, final_db_path):
    """What was low and what was on its way at the start, the new orders and lines, and everything that changed."""
    from database_changes import changes, read_tables

    tables, found = read_tables(initial_db_path), changes(initial_db_path, final_db_path)
    low = [row for row in tables["parts"].values() if row["supplier_id"] == 1 and row["stock"] <= row["min_stock"]]
    placed = {row["id"] for row in tables["supplier_orders"].values() if row["status"] == "placed"}
    return {
        "low_parts_at_the_start": low,
        "placed_lines_at_the_start": [r for r in tables["supplier_order_lines"].values() if r["order_id"] in placed],
        "new_orders": found.get("supplier_orders", {"added": []})["added"],
        "new_lines": found.get("supplier_order_lines", {"added": []})["added"],
        "changes": found,
    }
