"""Held-out tasks in the texts of other episodes: quoted, as a line, in other words, and what only looks like one."""

from __future__ import annotations

import json

import pytest

from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.recipe import KINDS
from exports.rules.held_out import HeldOutTasks
from tests.exports.records import ADVICE, STEPS, ground, record
from tests.exports.rules.test_leakage import mark_of

LONG = "Merge the two newest duplicate tickets of the customer Dockside and close the older one with a note for Ruben."
SHORT = "Refund the grinder of Mina Park."
CHINESE = "把多克赛德客户最新的两张重复工单合并然后关闭旧的那张"
TASKS = HeldOutTasks({"desk_2/1": LONG, "desk_2/2": SHORT, "desk_2/3": CHINESE, "desk_2/4": "Close it."})
TOLD = {
    "quoted": (f"Before this I had another: {LONG.upper()}", "desk_2/1"),
    "half of it": ("I was told: customer Dockside, and close the older one with a note for Ruben!", "desk_2/1"),
    "in JSON": (json.dumps({"mail": [LONG.replace(" and ", "\n\tand\n")]}), "desk_2/1"),
    "in other words": (
        "Once Dockside's newest tickets, which are duplicates of one customer, have been merged, please do close "
        "whichever is older; Ruben gets notes.",
        "desk_2/1",
    ),
    "as a line": (f"Tasks:\n- {SHORT}\n- others", "desk_2/2"),
    "as a quoted part": (f'They said "{SHORT}" to me', "desk_2/2"),
    "without spaces": (f"另外:{CHINESE}。", "desk_2/3"),
}
OTHER = {
    "a part": "Merge the two newest duplicate tickets, then stop.",
    "rows of a database": json.dumps([
        {"customer": "Dockside", "duplicate": "newest", "ticket": one, "note": "older", "mechanic": "Ruben"}
        for one in ("merge", "close")
    ]),
    "inside a sentence": "Should I refund the grinder of Mina Park today or wait?",
    "words far apart": " and so on with other things. ".join(LONG.split()),
    "shorter than four words": "Close it.",
    "": "",
}  # fmt: skip


@pytest.mark.parametrize(("said", "key"), TOLD.values(), ids=TOLD)
def test_task_is_found_in_a_text(said, key):
    told = TASKS.told_in(["Nothing here.", said], "Merge all.")
    assert told is not None and told.key == key and HeldOutTasks({}).told_in([said], "") is None


@pytest.mark.parametrize("said", OTHER.values(), ids=OTHER)
def test_text_that_is_only_like_a_task_is_none(said):
    assert TASKS.told_in([said], "Merge all.") is None


@pytest.mark.parametrize("said", [said for said, _ in TOLD.values()], ids=TOLD)
def test_words_of_the_episode_s_own_task_tell_none(said):
    assert TASKS.told_in([said], f"{LONG}\n{SHORT}\n{CHINESE}") is None


def test_task_that_differs_in_a_number_is_told_by_its_words():
    task = "Raise the priority of ticket {} to high and tag it warranty for the customer Dockside."
    tasks = HeldOutTasks({f"desk_2/{number}": task.format(number) for number in range(1000, 2000)})
    own = task.format(7)
    assert tasks.told_in([f"I did: {own}", "Ticket 1012 has priority high and the tag warranty, too."], own) is None
    told = tasks.told_in([f"Or is it to {task.format(1012)}"], own)
    assert told is not None and told.key == "desk_2/1012"


def with_text(part, text):
    steps = {step["seq"]: step for step in STEPS}
    more = {
        "user": {2: {"content": text}}, "said": {3: {"content": text}}, "result": {4: {"result": {"mail": [text]}}},
        "arguments": {8: {"arguments": {"into": text}}}, "error": {5: {"error": text}}, "nudge": {9: {"content": text}},
        "advice": {7: {"advice": {**ADVICE, "text": text}}}, "question": {7: {"question": text}},
        "reasoning": {3: {"reasoning": {"text": text, "form": "field"}}}, "note": {6: {"content": text}},
    }[part]  # fmt: skip
    return [*({**step, **more.get(seq, {})} for seq, step in steps.items())]


def walked(shape, one, **options):
    known = ground(shape, **options)
    known.tasks = TASKS
    walking = Walk(FORMATS[shape], known)
    return [row.value for row in walking.rows([one])], walking.counts.left_out


PARTS = ("user", "said", "result", "arguments", "error", "nudge", "advice", "question", "reasoning")


@pytest.mark.parametrize("kind", ["quoted", "in other words"])
@pytest.mark.parametrize("part", PARTS)
def test_row_that_tells_a_held_out_task_is_left_out(part, kind):
    assert walked("sft", record(steps=with_text(part, TOLD[kind][0]))) == ([], {"held_out_text": 1})


def test_text_that_no_row_has_leaves_out_nothing():
    assert len(walked("sft", record(steps=with_text("note", LONG)))[0]) == 1
    assert len(walked("sft", record(steps=with_text("reasoning", LONG)), reasoning="drop")[0]) == 1
    assert len(walked("sft", record(steps=with_text("advice", LONG)), advice="distil", include=["ungrounded"])[0]) == 1
    assert len(walked("prompts", record(steps=with_text("said", LONG)))[0]) == 1
    assert walked("prompts", record(steps=with_text("user", LONG)))[1] == {"held_out_text": 1}


@pytest.mark.parametrize("part", [*PARTS, "note"])
@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if not one.trains])
def test_report_marks_what_tells_a_held_out_task(shape, part):
    (row,), left_out = walked(shape, record(steps=with_text(part, LONG)))
    assert mark_of(shape, row) == "held_out_text" and not left_out
    (row,), _ = walked(shape, record(steps=with_text(part, "Nothing.")))
    assert not mark_of(shape, row)
