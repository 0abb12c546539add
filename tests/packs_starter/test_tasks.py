"""Every task of the starter pack can be solved, can be failed, and forgives no stray change."""

import json
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest


def test_the_oracle_completes_the_task_without_an_error(task):
    oracle = task.played["oracle"]
    assert oracle.errors == []
    assert task.verify(oracle.final, oracle.answer) == "complete"


def test_the_negative_script_is_refused(task):
    negative = task.played["negative"]
    assert task.verify(negative.final, negative.answer) == "others"


def test_doing_nothing_passes_only_where_the_task_says_so(task):
    expected = "complete" if task.about["kind"] == "passes_untouched" else "others"
    assert task.verify(task.initial) == expected
    assert task.verify(task.initial, "I did nothing.") == expected


def test_an_answer_alone_passes_only_where_the_task_says_so(task):
    expected = "others" if task.about["kind"] == "normal" else "complete"
    assert task.verify(task.initial, task.played["oracle"].answer) == expected


def test_a_row_that_vanishes_from_any_table_is_noticed(task, tmp_path):
    oracle = task.played["oracle"]
    for table in table_names(task.initial):
        final = tmp_path / "final.db"
        shutil.copy(oracle.final, final)
        with sqlite3.connect(final) as database:
            database.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})")
        database.close()
        assert task.verify(final, oracle.answer) == "others", table


def test_a_row_too_many_in_any_table_is_noticed(task, tmp_path):
    oracle = task.played["oracle"]
    for table in table_names(task.initial):
        final = tmp_path / "final.db"
        shutil.copy(oracle.final, final)
        double_a_row(final, table)
        assert task.verify(final, oracle.answer) == "others", table


def test_a_verifier_leaves_both_databases_as_they_are(task):
    oracle = task.played["oracle"]
    before = task.initial.read_bytes(), oracle.final.read_bytes()
    task.verify(oracle.final, oracle.answer)
    task.evidence(oracle.final)
    assert (task.initial.read_bytes(), oracle.final.read_bytes()) == before


def test_judge_evidence_is_json_with_the_changes(task):
    untouched, done = task.evidence(task.initial), task.evidence(task.played["oracle"].final)
    json.dumps(done)
    assert (untouched == done) == (task.about["kind"] != "normal")


def test_a_missing_database_is_an_error_and_never_a_new_file(task, tmp_path):
    absent = tmp_path / "absent.db"
    try:
        result = task.verify(absent)
    except sqlite3.OperationalError:
        result = "others"
    assert result == "others"
    assert not absent.exists()


def test_each_scenario_has_special_tasks_and_two_for_experts(tasks, scenario):
    own = [task for task in tasks.values() if task.scenario == scenario]
    kinds = Counter(task.about["kind"] for task in own)
    assert (kinds["passes_untouched"], kinds["answer_only"]) == (1, 1)
    assert sum(task.about["needs_expert"] for task in own) >= 2
    levels = [("easy", "medium", "hard").index(task.about["level"]) for task in own]
    assert levels == sorted(levels)


def table_names(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    database.close()
    return [name for name in names if not name.startswith("sqlite_")]


def double_a_row(path: Path, table: str) -> None:
    """A copy of the first row under a new id; other unique columns get a value of their own."""
    database = sqlite3.connect(path)
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    row = dict(zip(columns, database.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchone(), strict=True))
    row["id"] = 999_999
    for index in [entry[1] for entry in database.execute(f"PRAGMA index_list({table})") if entry[2]]:
        for column in [entry[2] for entry in database.execute(f"PRAGMA index_info({index})")]:
            row[column] = f"{row[column]} too" if isinstance(row[column], str) else 999_999
    marks = ", ".join("?" for _ in columns)
    with database:
        database.execute(f"INSERT INTO {table} VALUES ({marks})", [row[column] for column in columns])
    database.close()


@pytest.mark.parametrize(
    ("key", "answer", "result"),
    [
        (("helpdesk_1", 3), "count=4, oldest=1006", "complete"),
        (("helpdesk_1", 3), "There are four.\n**Count** = 4, **oldest** = #1006.", "complete"),
        (("helpdesk_1", 3), "count=4", "others"),
        (("helpdesk_1", 3), "count=5, oldest=1006", "others"),
        (("helpdesk_1", 3), "count=4, oldest=1006, or perhaps oldest=1028", "others"),
        (("helpdesk_1", 3), "", "others"),
        (("helpdesk_1", 3), None, "others"),
        (("library_1", 3), "He is third of five: **Waiting** = 5, **place**: 3.", "complete"),
        (("library_1", 3), "waiting=8, place=3", "others"),
        (("library_1", 3), "waiting=5, place=3 or place=2", "others"),
        (("library_1", 3), "waiting=5", "others"),
        (("trucking_1", 3), "tour = e-21, pallets_left = 2, kg_left = 1,150 kg", "complete"),
        (("trucking_1", 3), "tour=E-21, pallets_left=8, kg_left=5350", "others"),
        (("trucking_1", 3), "tour=N-15 or tour=E-21, pallets_left=2, kg_left=1150", "others"),
        (("trucking_1", 3), "tour=E-21", "others"),
    ],
)
def test_an_answer_may_be_dressed_but_not_hedged(tasks, key, answer, result):
    assert tasks[key].verify(tasks[key].initial, answer) == result
