def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """One placed order to supplier 1 holds exactly the packs that the stock called for; nothing else changed."""
    from database_changes import changes, read_tables

    tables = read_tables(initial_db_path)
    placed = {row["id"] for row in tables["supplier_orders"].values() if row["status"] == "placed"}
    coming = {row["part_id"] for row in tables["supplier_order_lines"].values() if row["order_id"] in placed}
    wanted = []
    for part in tables["parts"].values():
        low = part["supplier_id"] == 1 and part["stock"] <= part["min_stock"]
        if low and not part["discontinued"] and part["id"] not in coming:
            packs = -(-(part["target_stock"] - part["stock"]) // part["pack_size"])
            wanted.append((part["id"], packs, packs * part["pack_size"]))

    found = changes(initial_db_path, final_db_path)
    orders = found.get("supplier_orders", {"added": []})["added"]
    lines = found.get("supplier_order_lines", {"added": []})["added"]
    right = (
        set(found) == {"supplier_orders", "supplier_order_lines"}
        and not any(table["removed"] or table["changed"] for table in found.values())
        and len(orders) == 1
        and orders[0]["supplier_id"] == 1
        and orders[0]["status"] == "placed"
        and orders[0]["placed_at"] is not None
        and all(line["order_id"] == orders[0]["id"] for line in lines)
        and sorted((line["part_id"], line["packs"], line["units"]) for line in lines) == sorted(wanted)
    )
    return {"result": "complete" if right else "others"}
