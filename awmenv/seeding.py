"""Turns a scenario's DDL and sample rows into a SQLite database, verbatim, and says exactly what it had to repair or
could not run.

Pure: works on a connection it is given. Called by `packs` (a bounded in-memory check of rows at load) and by
`awmenv.server.database` (the real build, inside the sandbox). It never decides that a broken database is good enough:
that is the caller's to refuse.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BuildReport:
    """What happened while building: statements run, repaired and failed, each with its table and the reason."""

    statements: int = 0
    repaired: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failed


def schema_statements(db_schema: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """(table, statement) pairs of a gen_db row: tables in order, each followed by its indexes."""
    for table in _dicts(db_schema.get("tables")):
        name = str(table.get("name", "?"))
        if isinstance(table.get("ddl"), str):
            yield name, table["ddl"]
        for statement in table.get("indexes") or []:
            if isinstance(statement, str):
                yield name, statement


def sample_statements(sample_data: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """(table, statement) pairs of a gen_sample row."""
    for table in _dicts(sample_data.get("tables")):
        for statement in table.get("insert_statements") or []:
            if isinstance(statement, str):
                yield str(table.get("table_name", "?")), statement


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def build(connection: sqlite3.Connection, statements: Iterable[tuple[str, str]]) -> BuildReport:
    """Run every statement as written.

    Repair only what SQLite cannot parse. One transaction, foreign keys unenforced as in the data.
    """
    report = BuildReport()
    connection.isolation_level = None
    connection.execute("BEGIN")
    for table, statement in statements:
        report.statements += 1
        _run(connection, table, statement, report)
    if connection.in_transaction:
        connection.execute("COMMIT")
    return report


def _run(connection: sqlite3.Connection, table: str, statement: str, report: BuildReport) -> None:
    try:
        connection.execute(statement)
        return
    except (sqlite3.Error, sqlite3.Warning) as error:
        first = error
    repaired = repair_quotes(statement) if _is_syntax_error(first) else statement
    if repaired == statement:
        report.failed.append(f"{table}: {first}: {_short(statement)}")
        return
    try:
        connection.execute(repaired)
    except (sqlite3.Error, sqlite3.Warning) as error:
        report.failed.append(f"{table}: {first}, and after repairing its quotes {error}: {_short(statement)}")
    else:
        report.repaired.append(f"{table}: backslash-escaped quotes: {_short(statement)}")


def _is_syntax_error(error: Exception) -> bool:
    """SQLite has no finer code than SQLITE_ERROR for statements it cannot tokenise or parse."""
    text = str(error)
    return "syntax error" in text or "unrecognized token" in text or "incomplete input" in text


def repair_quotes(statement: str) -> str:
    """Backslash-escaped quotes become doubled ones, inside string literals only.

    A backslash before a quote that ends a literal stays: what follows the quote (comma, bracket, operator, end) tells
    the two apart.
    """
    out: list[str] = []
    inside = False
    index = 0
    while index < len(statement):
        char = statement[index]
        if inside and char == "\\" and statement[index + 1 : index + 2] == "'" and not _closes(statement, index + 2):
            out.append("''")
            index += 2
            continue
        if char == "'":
            inside = not inside
        out.append(char)
        index += 1
    return "".join(out)


def _closes(statement: str, after: int) -> bool:
    """True if a quote just before `after` ends its literal: the rest reads as SQL again."""
    rest = statement[after:].lstrip()
    return rest == "" or rest[0] in ",);" or rest.startswith("||")


def _short(statement: str) -> str:
    flat = " ".join(statement.split())
    return flat if len(flat) <= 120 else flat[:117] + "..."
