def verify_task(initial_db_path, final_db_path):
    """What would be left on each planned tour to Aldport with the six pallets, and everything that changed."""
    from database_changes import changes, read_tables

    tables, left = read_tables(final_db_path), {}
    calling = {row["route_id"] for row in tables["route_stops"].values() if row["place_id"] == 5}
    for tour in tables["tours"].values():
        if tour["status"] == "planned" and tour["route_id"] in calling:
            vehicle = tables["vehicles"][tour["vehicle_id"]]
            loads = [row for row in tables["consignments"].values() if row["tour_id"] == tour["id"]]
            left[tour["code"]] = {
                "pallets_left": vehicle["pallet_spaces"] - sum(row["pallets"] for row in loads) - 6,
                "kg_left": vehicle["max_kg"] - sum(row["kg"] for row in loads) - 4200,
            }
    return {"left_with_the_six_pallets": left, "changes": changes(initial_db_path, final_db_path)}
