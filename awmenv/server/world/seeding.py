"""Opens a scenario's SQLite file for writing: builds it from a pack's rows, and recovers its last commit.

The rows are untrusted code, and so is what a scenario's app left in its file: SQLite itself can be attacked through
what it reads. Both functions therefore run in sandboxed children only (`host`), and no module of the server may import
this one (`tests/test_layers.py`).
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable

from awmenv.models import BuildReport, one_line

MAX_STATEMENT = 1_000_000
"""Characters. SQLite takes a hundred times the memory of a statement to read it; those of real packs have thousands."""
_CLOSES = re.compile(r"\s*(?:\Z|[,);]|\|\|)")
_FAULTS = (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError)


def build(path: str, statements: Iterable[tuple[str, str]]) -> BuildReport:
    """Build a new database from (table, statement) pairs, in one transaction and without foreign key checks.

    Statements run unchanged; only what SQLite cannot parse is repaired, and what fails is left out. The caller decides
    whether a report with failures is good enough.
    """
    report = BuildReport()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT)
        # A build that is cut off is discarded, so nothing has to reach the disk.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table, statement in statements:
            report.statements += 1
            held, failures = connection.in_transaction, report.failures
            _run(connection, table, statement, report)
            if report.failures > failures and held and not connection.in_transaction:
                report.fail(f"{table}: the database built so far is lost")  # as SQLite does when memory runs out
                return report
        _finish(connection, report)
    finally:
        connection.close()
    return report


def _finish(connection: sqlite3.Connection, report: BuildReport) -> None:
    """Commit, and leave one file: a statement may have set a write-ahead log, which readers of a copy cannot open."""
    try:
        if connection.in_transaction:
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        (report.tables,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    except _FAULTS as error:
        report.fail(f"COMMIT: {_words(error)}")


def recover(path: str) -> None:
    """Recover a database whose process has ended to its last commit, in one file, as SQLite itself does.

    A leftover journal is rolled back, a write-ahead log merged. Raises sqlite3.Error if that fails.
    """
    connection = sqlite3.connect(path, timeout=2)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        if mode != "delete":
            raise sqlite3.OperationalError(f"the journal stays in mode {mode}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}-journal")  # emptied and kept by its app; SQLite found nothing in it to roll back


def _run(connection: sqlite3.Connection, table: str, statement: str, report: BuildReport) -> None:
    try:
        connection.execute(statement)
        return
    except _FAULTS as error:
        first = error
    repaired = repair_quotes(statement) if _is_syntax_error(first) else statement
    if repaired == statement:
        report.fail(f"{table}: {_words(first)}: {one_line(statement)}")
        return
    try:
        connection.execute(repaired)
    except _FAULTS as error:
        report.fail(f"{table}: {_words(first)}, and after repairing its quotes {_words(error)}: {one_line(statement)}")
    else:
        report.repair(f"{table}: backslash-escaped quotes: {one_line(statement)}")


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _is_syntax_error(error: BaseException) -> bool:
    """Return whether an error is about syntax, by its text.

    SQLite has no finer code than SQLITE_ERROR for what it cannot tokenize or parse.
    """
    text = str(error)
    return "syntax error" in text or "unrecognized token" in text or "incomplete input" in text


def repair_quotes(statement: str) -> str:
    """Double backslash-escaped quotes, inside string literals only.

    A backslash before a quote that ends a literal stays: the token after the quote (comma, bracket, operator, end)
    distinguishes the two.
    """
    out: list[str] = []
    inside = False
    index = 0
    while index < len(statement):
        char = statement[index]
        escaped = inside and statement.startswith("\\'", index)
        if escaped and not _CLOSES.match(statement, index + 2):
            out.append("''")
            index += 2
            continue
        if char == "'":
            inside = not inside
        out.append(char)
        index += 1
    return "".join(out)
