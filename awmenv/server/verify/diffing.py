"""The changes between two SQLite files: rows added, removed and changed, by table, bounded.

Pure reading of databases that dataset code wrote, so it runs behind the sandbox only (`runner`, work `diff`). The shape
is described in docs/environment-protocol.md: {"table": {"added": [row], "removed": [row], "changed": [{"key", "before",
"after"}], "more": n}}.
"""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

MAX_ROWS = 200
MAX_SHOWN = 120_000  # characters of JSON, all rows together: the server reads it, and sends it on, in a millisecond
MAX_TABLES = 200
MAX_SCANNED = 200_000
MAX_TEXT = 2_000


def diff(before: str, after: str) -> dict[str, Any]:
    """Compare two databases by table; tables without a change are left out."""
    connection = sqlite3.connect(f"file:{after}?mode=ro", uri=True)
    # Dataset code can store bytes in a text column that are no UTF-8.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.execute("ATTACH DATABASE ? AS old", (f"file:{before}?mode=ro",))
        changes: dict[str, Any] = {}
        room = _Room(MAX_SHOWN)
        tables = sorted(set(_tables(connection, "old")) | set(_tables(connection, "main")))
        for table in tables[:MAX_TABLES]:
            change = _table(connection, table, room)
            if any(change.values()):
                changes[table] = change
        return changes
    finally:
        connection.close()


def _tables(connection: sqlite3.Connection, schema: str) -> list[str]:
    query = f"SELECT name FROM {schema}.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return [name for (name,) in connection.execute(query)]


class _Room:
    """The remaining room for shown rows."""

    def __init__(self, characters: int) -> None:
        self.left = characters

    def fitting(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the first of these rows that fit."""
        shown = []
        for row in rows[:MAX_ROWS]:
            self.left -= len(json.dumps(row))
            if self.left < 0:
                break
            shown.append(row)
        return shown


def _table(connection: sqlite3.Connection, table: str, room: _Room) -> dict[str, Any]:
    old_columns, new_columns = _columns(connection, "old", table), _columns(connection, "main", table)
    key = _key(connection, table, new_columns or old_columns)
    shared = old_columns == new_columns
    removed = list(_only_in(connection, "old", "main", table, old_columns, shared))
    added = list(_only_in(connection, "main", "old", table, new_columns, shared))
    return _pair(removed, added, key, room)


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA {schema}.table_info({_name(table)})")]


def _key(connection: sqlite3.Connection, table: str, columns: list[str]) -> list[str]:
    for schema in ("main", "old"):
        info = list(connection.execute(f"PRAGMA {schema}.table_info({_name(table)})"))
        names = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
        if names:
            return names
    return ["id"] if "id" in columns else []


def _only_in(
    connection: sqlite3.Connection, here: str, there: str, table: str, columns: list[str], shared: bool
) -> Iterator[dict[str, Any]]:
    """Yield rows of one side that the other side does not have, with their multiplicity."""
    if not columns:
        return
    names = ", ".join(_name(column) for column in columns)
    query = f"SELECT {names} FROM {here}.{_name(table)}"
    if shared:
        query += f" EXCEPT SELECT {names} FROM {there}.{_name(table)}"
    for row in connection.execute(f"{query} LIMIT {MAX_SCANNED}"):
        yield dict(zip(columns, (_shown(value) for value in row), strict=True))


def _pair(removed: list[dict[str, Any]], added: list[dict[str, Any]], key: list[str], room: _Room) -> dict[str, Any]:
    """Join a removed and an added row with the same key into one changed row."""
    before = {_identity(row, key): row for row in removed} if key else {}
    after = {_identity(row, key): row for row in added} if key else {}
    changed = [_change(key, before[identity], after[identity]) for identity in after if identity in before]
    only_added = [row for identity, row in after.items() if identity not in before] if key else added
    only_removed = [row for identity, row in before.items() if identity not in after] if key else removed
    lists = {"added": only_added, "removed": only_removed, "changed": changed}
    result: dict[str, Any] = {name: room.fitting(rows) for name, rows in lists.items()}
    result["more"] = sum(len(rows) - len(result[name]) for name, rows in lists.items())
    return result


def _identity(row: dict[str, Any], key: list[str]) -> str:
    return repr([row.get(column) for column in key])


def _change(key: list[str], old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    columns = [column for column in {**old, **new} if old.get(column) != new.get(column)]
    return {
        "key": {column: new.get(column) for column in key},
        "before": {column: old.get(column) for column in columns},
        "after": {column: new.get(column) for column in columns},
    }


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] + f"… ({len(value)} characters)"
    return value


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
