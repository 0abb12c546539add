def verify_task(initial_db_path, final_db_path):
    """Every new job with its mechanic, lines, quotes and notes, and everything that changed."""
    from database_changes import changes, read_tables

    tables, found = read_tables(final_db_path), changes(initial_db_path, final_db_path)
    evidence = {"new_jobs": [], "changes": found}
    for job in found.get("jobs", {"added": []})["added"]:
        seen = {"job": job, "mechanic": tables["mechanics"].get(job["mechanic_id"])}
        for table in ("job_services", "job_parts", "quotes", "notes"):
            seen[table] = [row for row in tables[table].values() if row["job_id"] == job["id"]]
        evidence["new_jobs"].append(seen)
    return evidence
