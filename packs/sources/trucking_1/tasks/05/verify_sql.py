def verify_task(initial_db_path, final_db_path):
    """The rate card, what was delivered for the customer with all charges on it, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    delivered = []
    for load in tables["consignments"].values():
        if load["customer_id"] == 2 and load["status"] == "delivered":
            zone = tables["zones"][tables["places"][load["place_id"]]["zone_id"]]
            charges = [row for row in tables["charges"].values() if row["consignment_id"] == load["id"]]
            delivered.append({**load, "zone": zone["name"], "charges": charges})
    return {
        "rate_card": [list(tables["zones"].values()), list(tables["surcharges"].values())],
        "delivered_for_fennimore_foods": delivered,
        "changes": changes(initial_db_path, final_db_path),
    }
