"""Registries of blockers: what the loader refuses with its line, and which questions match."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from awmenv import blockers
from awmenv.blockers import BadRegistry, matched, read_blockers
from awmenv.packs import load_pack
from tests.awmenv.conftest import ROOT
from tests.awmenv.test_packs import write

PHONE = {
    "id": "phone",
    "missing": "Hanna's new telephone number.",
    "holder": "The front desk",
    "terms": [["phone", "telephone", "number"], ["Hanna", "Okafor", "reader"]],
    "questions": ["What is the new number for her card?"],
    "answer": "It is 01632 960 188.",
    "fact": "01632 960 188",
}
WEEKS = {**PHONE, "id": "weeks", "terms": [["how many", "loan"], ["weeks"]], "questions": [], "fact": "ten weeks"}


def registry(*rows):
    lines = [json.dumps(row) + "\n" for row in rows]
    return {"blockers.jsonl": lines}


def row(idx=0, blockers=(PHONE,), scenario="shop_1"):
    return {"scenario": scenario, "task_idx": idx, "blockers": list(blockers)}


def test_registry_is_read_with_its_task_and_kept_in_the_index(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    folder.mkdir()
    bare = load_pack(write(folder)).digests["shop_1"]
    write(folder, **registry(row(1, [PHONE, WEEKS])))
    for _ in range(2):  # the second time from the index
        pack = load_pack(folder, cache=tmp_path / "cache")
        assert not [one for one in pack.report.findings if one.file == "blockers.jsonl"]
        assert [one.id for one in pack.blockers("Shop 1", 1)] == ["phone", "weeks"]
        assert pack.blockers("shop_1", 0) == [] and pack.digests["shop_1"] != bare


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (row(0), "a second registry for task 0 is refused"),
        (row(2), "task_idx is not the number of a task"),
        (row(0, scenario="nowhere"), "task_idx is not the number of a task"),
        (row(1, [{**PHONE, "fact": "Sell  MILK"}]), "task 1: blocker 'phone': the task's text still holds its fact"),
        (row(1, [{**PHONE, "questions": ["Sell milk"]}]), "task 1: blocker 'phone': the task's own text asks for it"),
        (row(1, [PHONE, PHONE]), "two blockers have the id 'phone'"),
        (row(1, []), "'blockers' is not a list of 1 to 20"),
        (row(1, [{**PHONE, "id": "No!"}]), "'id' has 1 to 60"),
        (row(1, [{**PHONE, "answer": "x" * 4001}]), "'answer' is not a text of at most 4000"),
        (row(1, [{**PHONE, "terms": [["x"]] * 21}]), "'terms' is not a list of at most 20"),
        (row(1, [{**PHONE, "terms": [["?!"]]}]), "'terms' has a text without a word"),
        (row(1, [{**PHONE, "terms": [], "questions": []}]), "no question can match it"),
        (row(1, [{**PHONE, "answer": "Call\x00 me"}]), "'answer' has U+0000 or half of a surrogate pair"),
        (row(1, [{**PHONE, "holder": "\ud800"}]), "'holder' has U+0000 or half of a surrogate pair"),
    ],
)
def test_registry_row_is_refused_with_its_line(tmp_path: Path, second, reason: str) -> None:
    pack = load_pack(write(tmp_path, **registry(row(0), second)))
    (found,) = [one for one in pack.report.errors if one.file == "blockers.jsonl"]
    assert (found.line, reason in found.message) == (2, True), found.message
    assert len(pack.blockers("shop_1", 0)) == 1 and pack.blockers("shop_1", 1) == []


def test_registry_at_its_limits_is_taken(tmp_path: Path) -> None:
    at_most = {**PHONE, "answer": "x" * 4000, "terms": [["x"] * 20] * 20, "questions": ["y"] * 20, "id": "a" * 60}
    many = [{**at_most, "id": f"b{number}"} for number in range(19)]
    pack = load_pack(write(tmp_path, **registry(row(0, [at_most, *many]))))
    assert not pack.report.errors and len(pack.blockers("shop_1", 0)) == 20


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Which PHONE number does Ms Okafor have?", "phone"),
        ("What is the new number for the card?", "phone"),
        ("How many weeks may the reader have it?", "weeks"),
        ("Okaforian phones?", None),
        ("Is there anything I should know?", None),
        ("", None),
        ("?!", None),
    ],
)
def test_question_matches_by_whole_words_or_an_example(question: str, wanted: str | None) -> None:
    found = matched(question, read_blockers([PHONE, WEEKS], ""))
    assert (found.id if found else None) == wanted


def test_question_that_fits_two_blockers_gets_the_more_specific() -> None:
    third = {**WEEKS, "id": "exact", "terms": [["weeks"], ["how many"], ["reader"]]}
    assert matched("How many weeks for this reader?", read_blockers([WEEKS, third], "")).id == "exact"


HER_NEW = "Hanna has a new phone. Write it on the card of that reader, and then send her the letter for new numbers."


@pytest.mark.parametrize(
    ("question", "blocker"),
    [
        (HER_NEW, None),
        (f"Please help me with this task: {HER_NEW} What should I do?", None),
        ("the phone of that reader, and Hanna", None),  # the task says all of it itself
        ("the mobile phone of that reader", None),
        ("the telephone of that reader", "phone"),
        ("What about the phone of that reader?", "phone"),
        ("What is the telephone of that reader?", "phone"),
        (f"{HER_NEW} What is the telephone of Hanna?", "phone"),
    ],
)
def test_copy_of_the_task_asks_for_nothing(question: str, blocker: str | None) -> None:
    hit = matched(question, read_blockers([{**PHONE, "questions": []}], HER_NEW))
    assert (hit.id if hit else None) == blocker


def test_terms_are_words_and_never_patterns() -> None:
    registered = read_blockers([{**PHONE, "terms": [["(ab+)+$", "[a-z]+ ab"]], "questions": ["(.+)*x"]}], "")
    assert matched("abbbbbbbbbb! xyz", registered) is None
    assert matched("Is it (AB+)?", registered) is not None


def test_words_behind_the_limit_of_a_question_match_nothing() -> None:
    registered, asked = read_blockers([PHONE], ""), "phone of Hanna"
    room = blockers.QUESTION_CHARS - len(asked)
    assert matched("." * room + asked, registered) and not matched("." * (room + 1) + asked, registered)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("Call (01632) 960-188 today.", "01632 960 188", True),
        ("Call 01632960188.", "01632 960 188", True),
        ("Call 101632 960 188.", "01632 960 188", False),
        ("Reader 12: 01632 960188.", "01632 960 188", True),
        ("Reader 12: 101632 960188.", "01632 960 188", False),
        ("Bay 12 34.", "1234", True),
        ("Bays 5, 12, 34.", "1234", False),
        ("Notes: 'Fragile:  do not\nSTACK'.", "fragile: do not stack", True),
        ("fragile", "fragile: do not stack", False),
        ("anything", "", False),
    ],
)
def test_text_holds_a_value_however_it_is_spaced(text: str, value: str, held: bool) -> None:
    assert blockers.holds(text, value) is held


def test_long_row_of_numbers_is_read_in_linear_memory() -> None:
    text = "5 " * 100_000
    tracemalloc.start()
    assert not blockers.holds(text, "5" * 40 + "1") and blockers.holds(text, "5" * 40)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50_000_000


def test_registry_of_any_shape_is_refused_with_a_reason() -> None:
    for given in (None, {}, [None], [{}], [{"id": 1}], [{**PHONE, "terms": {}}], [{**PHONE, "terms": ["x"]}]):
        with pytest.raises(BadRegistry):
            read_blockers(given, "")


def test_starter_tasks_that_need_an_expert_have_a_registry() -> None:
    pack = load_pack(ROOT / "packs" / "starter")
    assert not pack.report.errors
    tasks = [(name, idx) for name, known in pack.scenarios.items() for idx in range(known.task_count)]
    lacking = {task for task in tasks if pack.about(*task)["needs_expert"] != bool(pack.blockers(*task))}
    asked = {task: [turn["ask"] for turn in pack.scripts(*task).get("demo", []) if "ask" in turn] for task in tasks}
    unmatched = {
        task for task, asks in asked.items() for ask in asks if not matched(ask["question"], pack.blockers(*task))
    }
    loose = {task for task in tasks if matched("Can you help me? What should I do next?", pack.blockers(*task))}
    assert (lacking, unmatched, loose) == (set(), set(), set())
