"""A call without a result and a call that returned null: two things, in every format and in everything that reads."""

from __future__ import annotations

import json

import pytest

from awmclient.errors import EnvironmentFault
from awmclient.loop.restoring import restore
from awmclient.testing import FakeEnv, FakeResult
from awmclient.words.conversation import conversation
from episodes.show.alignment import acts_of
from episodes.show.step_cards import card_of
from episodes.stored import entries
from exports.formats import FORMATS
from imports import readers
from tests.exports.records import record, walk

TASK = {"seq": 1, "kind": "message", "role": "user", "content": "Merge the duplicates."}
CALL = {"seq": 2, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "turn": 1}
END = {"seq": 3, "kind": "message", "role": "assistant", "content": "Done.", "turn": 2}
CAME = {"without": CALL, "null": {**CALL, "result": None}, "text": {**CALL, "result": "null"}}
SEEN = {"without": [], "null": ["null"], "text": ["null"]}
ACTION = {"seq": 2, "kind": "action", "action": {"command": "ls"}, "turn": 1}


def record_of(call, expert="off"):
    return record(steps=[TASK, call, END], expert=expert)


@pytest.mark.parametrize("name", CAME)
def test_conversation_has_a_result_only_if_one_came(name):
    said = conversation([TASK, CAME[name], END])
    assert [one.message["content"] for one in said if one.message["role"] == "tool"] == SEEN[name]
    assert [one.message["role"] for one in said if one.message["role"] != "tool"] == ["user", "assistant", "assistant"]
    assert len(said[1].message["tool_calls"]) == 1


@pytest.mark.parametrize(("more", "seen"), [({}, []), ({"observation": None}, ["null"]), ({"observation": {}}, ["{}"])])
def test_action_without_an_observation_has_no_answer(more, seen):
    said = conversation([TASK, {**ACTION, **more}, END])
    assert [one.message["content"] for one in said if one.part == "result"] == seen


@pytest.mark.parametrize(
    "shape", ["sft", "steps", "openai", "inspect", "openenv", "dpo", "kto", "prompts", "ask_decision"]
)
@pytest.mark.parametrize("name", CAME)
def test_messages_of_a_row_have_a_result_only_if_one_came(shape, name):
    rows, _ = walk(shape, record_of(CAME[name], "plain" if shape == "ask_decision" else "off"))
    said = [one for row in rows for part in ("messages", "prompt", "completion") for one in _list(row.get(part))]
    found = {json.dumps(one["content"]) for one in said if one["role"] == "tool"}
    assert found == ({'"null"'} if SEEN[name] and any(one["role"] == "assistant" for one in said) else set())


def _list(value):
    return value if isinstance(value, list) else []


def test_atif_has_an_observation_only_if_one_came():
    for name, call in CAME.items():
        ((row,), _) = walk("atif", record_of(call))
        results = [one.get("observation", {}).get("results") for one in row["steps"]]
        assert results[1] == ([{"source_call_id": "call00001", "content": "null"}] if SEEN[name] else None)


def test_trace_of_openenv_says_that_no_result_came():
    results = {name: walk("openenv", record_of(call))[0][0]["tool_trace"][0]["result"] for name, call in CAME.items()}
    null = {"data": None, "done": False, "metadata": {"seq": 2}, "error": None}
    assert results["null"] == null
    assert results["without"] == {**null, "metadata": {"seq": 2, "has_result": False}}
    assert results["text"]["data"] == "null"


def test_raw_comes_back_as_it_was(tmp_path):
    for name, call in CAME.items():
        ((row,), _) = walk("raw", record_of(call))
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(row))
        (found,) = readers.read(path)
        (entry,) = [one for one in entries.entries_of_read(found.trajectory.steps) if one.kind == "tool_call"]
        assert entries.read(entry.text) == call


def test_vendor_that_needs_results_gets_no_row():
    rows, counts = walk("openai", record_of(CALL))
    assert (rows, dict(counts.left_out)) == ([], {"no_row: a call without its result": 1})


@pytest.mark.parametrize("shape", ["sft", "inspect", "openenv", "atif"])
def test_call_without_a_result_stays_one(shape, tmp_path):
    """Out and in again: no format makes a result of it."""
    rows, _ = walk(shape, record_of(CALL))
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"eval": {"task": "awmweb"}, "samples": rows} if shape == "inspect" else rows[0]))
    (found,) = readers.read(path)
    (call,) = [step for step in found.trajectory.steps if step.kind == "tool_call"]
    assert "result" not in call.model_fields_set and "error" not in call.model_fields_set


def test_every_format_is_looked_at():
    by_messages = {"sft", "steps", "openai", "inspect", "openenv", "dpo", "kto", "prompts", "ask_decision"}
    # `tokens` are those of the messages, or of a capture; a curriculum has no steps
    assert set(FORMATS) == by_messages | {"atif", "raw", "tokens", "curriculum"}


def test_pages_tell_both_apart():
    cards = {name: card_of(call).result for name, call in CAME.items()}
    assert (cards["without"].words, cards["null"].words, cards["text"].words) == ("no result", "null", "null")
    acts = {name: acts_of([call])[0].came for name, call in CAME.items()}
    assert acts == {"without": "no result", "null": "null", "text": "null"}


async def test_world_is_restored_by_results_alone():
    class World(FakeEnv):
        async def call_tool(self, name, arguments):
            return FakeResult(None)

    assert await restore(World(), [CAME["null"]]) == 1
    for name in ("without", "text"):
        with pytest.raises(EnvironmentFault):
            await restore(World(), [CAME[name]])


AWM = {"action": {"tool_name": "x"}, "observation": {"done": False}}


@pytest.mark.parametrize(
    ("seen", "came"), [({}, "nothing"), ({"tool_result": None}, None), ({"result": None, "data": 0}, 0)]
)
def test_reader_tells_both_apart(tmp_path, seen, came):
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"task": "t", "steps": [{**AWM, "observation": seen}]}))
    (found,) = readers.read(path)
    step = found.trajectory.steps[0].model_dump(exclude_unset=True)
    assert step.get("result", "nothing") == came
