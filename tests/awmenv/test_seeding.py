"""Building databases: verbatim first, repaired only where SQLite cannot parse, and every failure told."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from awmenv.models import MAX_NOTE, MAX_NOTES, BuildReport
from awmenv.server.world import seeding
from awmenv.server.world.seeding import repair_quotes

pytestmark = pytest.mark.attack("pack rows")

Built = Callable[..., tuple[list[tuple[str, ...]], list[str], list[str]]]
TABLE = ("t", "CREATE TABLE t (a TEXT, b TEXT)")


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Build the table with these inserts: (rows, repaired, failed)."""

    def build(*inserts: str) -> tuple[list[tuple[str, ...]], list[str], list[str]]:
        report = seeding.build(str(tmp_path / "x.db"), [TABLE, *(("t", insert) for insert in inserts)])
        connection = sqlite3.connect(tmp_path / "x.db")
        rows = connection.execute("SELECT * FROM t").fetchall()
        connection.close()
        return rows, report.repaired, report.failed

    return build


def test_a_valid_literal_that_ends_in_a_backslash_is_left_alone(built: Built) -> None:
    rows, repaired, failed = built(r"INSERT INTO t VALUES ('C:\exports\', 'x')")
    assert rows == [("C:\\exports\\", "x")]
    assert (repaired, failed) == ([], [])


def test_a_backslash_escaped_quote_is_repaired_and_told(built: Built) -> None:
    rows, repaired, failed = built(r"INSERT INTO t VALUES ('Ada\'s', 'it\'s Edo\'s')")
    assert rows == [("Ada's", "it's Edo's")]
    assert len(repaired) == 1 and failed == []


def test_statement_failing_for_another_reason_is_unchanged(built: Built) -> None:
    rows, repaired, failed = built("INSERT INTO t VALUES ('a')", "INSERT INTO t VALUES ('a', 'b')")
    assert rows == [("a", "b")]
    assert repaired == [] and len(failed) == 1 and "t: " in failed[0]


def test_unfixable_statement_is_a_failure_not_a_skipped_row(built: Built) -> None:
    _rows, repaired, failed = built(r"INSERT INTO t VALUES ('Ada\'s, 'b'")
    assert repaired == [] and len(failed) == 1


def test_two_statements_in_one_string_are_a_failure(built: Built) -> None:
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


@pytest.mark.parametrize("insert", ["INSERT INTO t VALUES ('\0', '')", "INSERT INTO t VALUES ('\ud800', '')"])
def test_statement_no_text_of_sqlite_is_a_failure(built: Built, insert: str) -> None:
    rows, _repaired, failed = built(insert, "INSERT INTO t VALUES ('a', 'b')")
    assert rows == [("a", "b")] and len(failed) == 1


def test_statement_over_the_length_limit_is_a_failure(built: Built) -> None:
    rows, _repaired, failed = built(f"INSERT INTO t VALUES ('{'x' * seeding.MAX_STATEMENT}', '')")
    assert rows == [] and "too large" in failed[0]


def test_quotes_of_a_long_statement_are_repaired_in_linear_time() -> None:
    def seconds(quotes: int) -> float:
        started = time.process_time()
        assert repair_quotes("('" + "a\\'" * quotes + "')").count("''") == quotes
        return time.process_time() - started

    short = min(seconds(30_000) for _ in range(3))
    assert seconds(300_000) < 40 * short, "a copy of the rest at each quote takes a hundred times as long"


def test_build_leaves_one_file_whatever_journal_rows_choose(tmp_path: Path) -> None:
    chosen = [("t", statement) for statement in ("COMMIT", "PRAGMA journal_mode=WAL", "INSERT INTO t VALUES (1, 2)")]
    assert seeding.build(str(tmp_path / "x.db"), [TABLE, *chosen]).ok
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]
    assert (tmp_path / "x.db").read_bytes()[18:20] == b"\1\1", "1 is a rollback journal, 2 a write-ahead log"


def test_statements_that_fail_are_left_out_of_a_partial_database(tmp_path: Path) -> None:
    inserts = ["INSERT INTO nowhere VALUES (1)", "INSERT INTO t VALUES (1, 2)", "CREATE TABLE t (x)"]
    report = seeding.build(str(tmp_path / "x.db"), [TABLE, *(("t", insert) for insert in inserts)])
    assert (report.statements, report.failures, report.tables) == (4, 2, 1)
    assert report.is_playable(True) and not report.is_playable(False)


def test_database_that_a_failure_rolled_back_is_not_partial(tmp_path: Path) -> None:
    """As SQLite does by itself where memory or disk runs out; here the row asks for it."""
    lost = ["INSERT INTO t VALUES (1, 2)", "INSERT OR ROLLBACK INTO t VALUES (1, 3)", "INSERT INTO t VALUES (4, 5)"]
    unique = ("t", "CREATE UNIQUE INDEX i ON t (a)")
    report = seeding.build(str(tmp_path / "x.db"), [TABLE, unique, *(("t", insert) for insert in lost)])
    assert (report.statements, report.failures, report.tables) == (4, 2, 0)
    assert "is lost" in report.failed[1] and not report.is_playable(True)


def test_report_is_bounded_printable_and_survives_the_wire() -> None:
    report = BuildReport(statements=200)
    for _ in range(200):
        report.fail("\x1b[31m\n" + "x" * 10_000 + "\u202e")
    assert (report.failures, len(report.failed)) == (200, MAX_NOTES)
    assert all(len(note) <= MAX_NOTE and note.isprintable() for note in report.failed)
    assert BuildReport.from_wire(report.wire()) == report


@pytest.mark.parametrize(
    "wire",
    [
        None, 5, {}, {"statements": True, "repairs": 0, "failures": 0, "tables": 0, "repaired": [], "failed": []},
        {"statements": 1, "repairs": 0, "failures": 1, "tables": 0, "repaired": [], "failed": []},
        {"statements": 1, "repairs": 0, "failures": 0, "tables": 0, "repaired": [], "failed": ["x"]},
        {"statements": 1, "repairs": 0, "failures": -1, "tables": 0, "repaired": [], "failed": [5]},
    ],
)  # fmt: skip
def test_report_of_another_shape_is_none(wire: object) -> None:
    assert BuildReport.from_wire(wire) is None
