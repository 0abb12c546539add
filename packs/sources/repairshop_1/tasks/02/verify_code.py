def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """The answer states what is left to pay on Femke Jansen's open invoices, 123.95 euro; no row changed."""
    import re

    from database_changes import changes, read_tables

    tables = read_tables(initial_db_path)
    cents = 0
    for invoice in tables["invoices"].values():
        if invoice["customer_id"] == 1 and invoice["status"] == "open":
            paid = [row["amount"] for row in tables["payments"].values() if row["invoice_id"] == invoice["id"]]
            cents += round(invoice["total"] * 100) - round(sum(paid) * 100)
    euros, rest = str(cents // 100), f"{cents % 100:02d}"

    text = str(final_answer or "").replace("\u00a0", " ").replace("\u202f", " ").lower()
    currency = r"(?:€|euros?|eur)"
    stated = rf"(?<![\d.,]){euros}(?:[.,]{rest}|\s*{currency}\s*(?:and\s*|,\s*)?{rest})(?!\d|[.,]\d)"
    amounts = re.findall(r"(?<![\d.,])\d+(?:[.,]\d{3})*[.,]\d{2}(?!\d)", text)
    hedged = re.search(rf"\d\s*{currency}?\s*\bor\s*{currency}?\s*\d", text)
    answered = bool(re.search(stated, text)) and not hedged and len(set(amounts)) <= 12
    right = answered and changes(initial_db_path, final_db_path) == {}
    return {"result": "complete" if right else "others"}
