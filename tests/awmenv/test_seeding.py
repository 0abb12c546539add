"""Building databases: verbatim first, repaired only where SQLite cannot parse, and every failure told."""

import sqlite3

import pytest

from awmenv.seeding import build, repair_quotes

TABLE = ("t", "CREATE TABLE t (a TEXT, b TEXT)")


def built(*inserts: str) -> tuple[list[tuple[str, ...]], list[str], list[str]]:
    connection = sqlite3.connect(":memory:")
    report = build(connection, [TABLE, *(("t", insert) for insert in inserts)])
    return connection.execute("SELECT * FROM t").fetchall(), report.repaired, report.failed


def test_a_valid_literal_that_ends_in_a_backslash_is_left_alone() -> None:
    rows, repaired, failed = built(r"INSERT INTO t VALUES ('C:\exports\', 'x')")
    assert rows == [("C:\\exports\\", "x")]
    assert (repaired, failed) == ([], [])


def test_a_backslash_escaped_quote_is_repaired_and_told() -> None:
    rows, repaired, failed = built(r"INSERT INTO t VALUES ('Ada\'s', 'it\'s Edo\'s')")
    assert rows == [("Ada's", "it's Edo's")]
    assert len(repaired) == 1 and failed == []


def test_a_statement_that_fails_for_another_reason_is_not_rewritten() -> None:
    rows, repaired, failed = built("INSERT INTO t VALUES ('a')", "INSERT INTO t VALUES ('a', 'b')")
    assert rows == [("a", "b")]
    assert repaired == [] and len(failed) == 1 and "t: " in failed[0]


def test_a_statement_that_stays_broken_is_a_failure_and_not_a_dropped_row() -> None:
    _rows, repaired, failed = built(r"INSERT INTO t VALUES ('Ada\'s, 'b'")
    assert repaired == [] and len(failed) == 1


def test_two_statements_in_one_string_are_a_failure() -> None:
    _rows, _repaired, failed = built("INSERT INTO t VALUES ('a', 'b'); DROP TABLE t")
    assert len(failed) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"('it\'s')", "('it''s')"),
        (r"('a\', 'b')", r"('a\', 'b')"),
        (r"('a\')", r"('a\')"),
        ("('it''s')", "('it''s')"),
        ("no literal \\' here", "no literal \\' here"),
    ],
)
def test_only_quotes_inside_a_literal_are_rewritten(before: str, after: str) -> None:
    assert repair_quotes(before) == after
