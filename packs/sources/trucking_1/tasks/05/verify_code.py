def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Every delivered consignment of customer 2 has its freight charge by the rate card, and nothing else changed."""
    from database_changes import changes, read_tables

    tables = read_tables(initial_db_path)
    percents = {row["cooling"]: row["percent"] for row in tables["surcharges"].values()}
    billed = {row["consignment_id"] for row in tables["charges"].values() if row["kind"] == "freight"}
    wanted = []
    for load in tables["consignments"].values():
        if load["customer_id"] == 2 and load["status"] == "delivered" and load["id"] not in billed:
            zone = tables["zones"][tables["places"][load["place_id"]]["zone_id"]]
            freight = max(load["pallets"] * zone["price_per_pallet"], zone["minimum_charge"])
            wanted.append((load["id"], "freight", round(freight * (100 + percents[load["cooling"]]) / 100, 2)))

    found = changes(initial_db_path, final_db_path)
    charges = found.get("charges", {"added": [], "removed": [], "changed": {}})
    written = sorted((row["consignment_id"], row["kind"], round(row["amount"], 2)) for row in charges["added"])
    done = set(found) == {"charges"} and written == wanted and not charges["removed"] and not charges["changed"]
    return {"result": "complete" if done else "others"}
