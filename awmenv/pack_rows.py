"""What a row of a pack holds: its parts, its SQL statements, and why it cannot be used. Pure.

Rows are untrusted, so each part is read as what it may be. Called by `packs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awmenv.models import MAX_TASKS


def schema_statements(db_schema: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Return (table, statement) pairs of a gen_db row: tables in order, each followed by its indexes."""
    for table in dicts_in(db_schema.get("tables")):
        name = text_or_empty(table.get("name")) or "?"
        if isinstance(table.get("ddl"), str):
            yield name, table["ddl"]
        indexes_of_it = table.get("indexes")
        for statement in indexes_of_it if isinstance(indexes_of_it, list) else []:
            if isinstance(statement, str):
                yield name, statement


def sample_statements(sample_data: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Return (table, statement) pairs of a gen_sample row."""
    for table in dicts_in(sample_data.get("tables")):
        inserts = table.get("insert_statements")
        for statement in inserts if isinstance(inserts, list) else []:
            if isinstance(statement, str):
                yield text_or_empty(table.get("table_name")) or "?", statement


def dicts_in(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def part_of(row: dict[str, Any] | None, key: str) -> dict[str, Any]:
    part = row.get(key) if row else None
    return part if isinstance(part, dict) else {}


def shape_problem(kind: str, row: dict[str, Any]) -> str | None:
    """Return why a row of this kind cannot be used, or None."""
    if kind == "tasks":
        tasks = row.get("tasks")
        if not isinstance(tasks, list) or not tasks or not all(text_or_empty(task).strip() for task in tasks):
            return "'tasks' is not a list of texts"
        return f"'tasks' lists {len(tasks)} tasks; {MAX_TASKS} is the most" if len(tasks) > MAX_TASKS else None
    if kind == "db":
        return None if isinstance(part_of(row, "db_schema").get("tables"), list) else "'db_schema.tables' is not a list"
    if kind == "sample":
        return (
            None
            if isinstance(part_of(row, "sample_data").get("tables"), list)
            else "'sample_data.tables' is not a list"
        )
    if kind == "envs":
        code = row.get("full_code")
        return None if isinstance(code, str) and code.strip() else "'full_code' is empty"
    return None
