def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The answer names E-21 with 2 spaces and 1,150 kg left and does not hedge, and the database is untouched."""
    import re

    from database_changes import changes

    answer = str(final_answer or "")
    tours = re.findall(r"\btour\W*[=:]\W*([A-Z]-\d+)", answer, re.IGNORECASE)
    pallets = re.findall(r"\bpallets_left\W*[=:]\W*(\d+)", answer, re.IGNORECASE)
    kilos = re.findall(r"\bkg_left\W*[=:]\W*(\d+(?:[., ]\d{3})*)", answer, re.IGNORECASE)
    said = {tour.upper() for tour in tours}, set(pallets), {re.sub(r"\D", "", number) for number in kilos}
    done = said == ({"E-21"}, {"2"}, {"1150"}) and changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if done else "others"}
