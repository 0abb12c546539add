def verify_task(initial_db_path, final_db_path):
    """Femke Jansen's invoices with what was paid and what is left, and everything that changed."""
    from database_changes import changes, read_tables

    tables = read_tables(final_db_path)
    invoices = []
    for invoice in tables["invoices"].values():
        if invoice["customer_id"] == 1:
            paid = sum(row["amount"] for row in tables["payments"].values() if row["invoice_id"] == invoice["id"])
            invoices.append({**invoice, "paid": round(paid, 2), "left": round(invoice["total"] - paid, 2)})
    still_open = [invoice for invoice in invoices if invoice["status"] == "open"]
    return {
        "invoices_of_femke_jansen": invoices,
        "expected_answer_in_euros": round(sum(invoice["left"] for invoice in still_open), 2),
        "wrong_if_payments_are_forgotten": round(sum(invoice["total"] for invoice in still_open), 2),
        "changes": changes(initial_db_path, final_db_path),
    }
