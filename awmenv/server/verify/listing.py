"""The tables of a SQLite file and the first rows of one of them, bounded.

Pure reading of databases that dataset code wrote, so it runs behind the sandbox only (`runner`, work `tables`). The
shape is described in docs/environment-protocol.md: {"tables": [{"name", "rows"}], "more": n}, and of the table that is
asked for {"columns", "key", "offset", "rows": [[value]]}.
"""

import json
import sqlite3
from typing import Any

MAX_TABLES = 200
MAX_COLUMNS = 64
MAX_ROWS = 200
MAX_CELLS = 8_000
MAX_SHOWN = 120_000  # characters of JSON, all rows together
MAX_TEXT = 1_000
MAX_NAME = 200
MAX_COUNTED = 1_000_000


def listed(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the tables, and the rows of the `request` table from `offset` on, in the order of the file."""
    # `immutable`: SQLite then takes no locks, and looks for no journal.
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        names = _tables(connection)
        listing: dict[str, Any] = {
            "tables": [{"name": name, "rows": _count(connection, name)} for name in names[:MAX_TABLES]],
            "more": max(0, len(names) - MAX_TABLES),
        }
        if request["table"] in names:
            listing |= _rows(connection, request["table"], request["offset"])
        return listing
    finally:
        connection.close()


def _tables(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
    return [name for (name,) in connection.execute(query) if len(name) <= MAX_NAME]


def _count(connection: sqlite3.Connection, name: str) -> int:
    counted = f"SELECT count(*) FROM (SELECT 1 FROM {_quoted(name)} LIMIT {MAX_COUNTED})"
    (rows,) = connection.execute(counted).fetchone()
    return int(rows)


def _rows(connection: sqlite3.Connection, name: str, offset: int) -> dict[str, Any]:
    info = list(connection.execute(f"PRAGMA table_info({_quoted(name)})"))
    columns = [row[1] for row in info][:MAX_COLUMNS]
    key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]][:MAX_COLUMNS]
    most = min(MAX_ROWS, MAX_CELLS // max(1, len(columns)))
    chosen = ", ".join(_quoted(column) for column in columns)
    query = f"SELECT {chosen} FROM {_quoted(name)} LIMIT {most} OFFSET {int(offset)}"
    rows: list[list[Any]] = []
    room = MAX_SHOWN
    for row in connection.execute(query):
        shown = [_shown(value) for value in row]
        room -= len(json.dumps(shown))
        # One row at least, or a reader could never get past it.
        if room < 0 and rows:
            break
        rows.append(shown)
    shown_names = [[column[:MAX_NAME] for column in names] for names in (columns, key)]
    return {"columns": shown_names[0], "key": shown_names[1], "offset": offset, "rows": rows}


def _shown(value: Any) -> Any:
    """Return a value, but a blob as its size, a long text shortened, and a number that JSON lacks as text."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] + f"… ({len(value)} characters)"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
