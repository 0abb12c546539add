def verify_task(initial_db_path, final_db_path):
    """All planned dangerous goods with their tours' drivers, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    seen = []
    for load in tables["consignments"].values():
        if load["status"] == "planned" and load["adr_class"]:
            tour = tables["tours"][load["tour_id"]]
            seen.append({"consignment": load, "tour": tour, "driver": tables["drivers"][tour["driver_id"]]})
    return {"dangerous_goods": seen, "changes": changes(initial_db_path, final_db_path)}
