"""ATIF files of continued sessions: history that is not the agent's own here, and what turns used."""

from __future__ import annotations

import json

import pytest

from episodes.show.step_cards import card_of
from exports.rules.shaping import shape
from imports import readers
from imports.record import importing
from runs.plan import spending
from tests.exports.records import record, walk
from tests.imports.files import ATIF, TASK

COUNTS = {"prompt_tokens": 100, "completion_tokens": 10}
METRICS = {**COUNTS, "cached_tokens": 60, "cost_usd": 0.01}
IDS = {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}
CALL = {"tool_call_id": "c1", "function_name": "get_ticket", "arguments": {"id": 7}}
SEEN = {"results": [{"source_call_id": "c1", "content": "ticket 7"}]}
OLD = [
    {"source": "user", "message": TASK, "is_copied_context": True},
    {"source": "agent", "message": "Old.", "tool_calls": [CALL], "observation": SEEN, "is_copied_context": True,
     "metrics": METRICS},
]  # fmt: skip
NEW = [
    {"source": "user", "message": "Go on."},
    {"source": "agent", "message": "", "tool_calls": [CALL], "observation": SEEN, "metrics": {**METRICS, **IDS}},
    {"source": "agent", "message": "New.", "metrics": METRICS},
]


def document(*steps, **more):
    return {**ATIF, "steps": [{"step_id": number, **one} for number, one in enumerate(steps, 1)], **more}


@pytest.fixture
def found(tmp_path):
    def read(row):
        path = tmp_path / "file.json"
        path.write_text(json.dumps(row))
        (one,) = readers.read(path)
        assert not one.refusal
        return one

    return read


def steps_of(found):
    return [step.model_dump(exclude_unset=True) for step in found.trajectory.steps]


def test_copied_steps_are_marked_and_used_nothing(found):
    read = found(document(*OLD, *NEW))
    steps = steps_of(read)
    marked = [(step["kind"], step.get("meta", {}).get("is_copied_context")) for step in steps]
    assert marked == [
        *(("message", True), ("message", True), ("tool_call", True)),
        *(("message", None), ("message", None), ("tool_call", None), ("message", None)),
    ]
    assert not any("usage" in step for step in steps[:3])
    assert read.lost["metrics of copied steps"] == 1
    assert [card_of(step).copied for step in steps] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("mode", ["keep", "keep_masked", "drop", "distil"])
def test_copied_steps_carry_no_loss(found, mode):
    shaped = shape(record(steps=steps_of(found(document(*OLD, *NEW))), expert="off"), mode)
    losses = [(line.message["content"], line.loss) for line in shaped.lines if line.said.part == "assistant"]
    assert losses == [("Old.", 0), ("", 1), ("New.", 1)]
    # they stay in the prompt of what follows
    assert [line.message["role"] for line in shaped.lines[:3]] == ["user", "assistant", "tool"]


def test_copied_steps_alone_are_nothing_to_learn(found):
    shaped = shape(record(steps=steps_of(found(document(*OLD))), expert="off"), "keep")
    assert shaped.reason == "no_turn_left"


def test_copied_steps_leave_as_copied(found):
    ((row,), _) = walk("atif", record(steps=steps_of(found(document(*OLD, *NEW))), expert="off"))
    assert [step.get("is_copied_context") for step in row["steps"]] == [True, True, None, None, None]
    again = steps_of(found(row))
    assert [step.get("meta", {}).get("is_copied_context") for step in again][:3] == [True, True, True]


def test_metrics_are_the_usage_of_their_turn(found):
    steps = steps_of(found(document(*NEW)))
    usage = {**COUNTS, "prompt_tokens_details": {"cached_tokens": 60}, "reported": METRICS}
    # a turn of calls alone has an empty message, where usage is looked for
    assert [(step["kind"], step.get("usage")) for step in steps[1:]] == [
        ("message", usage),
        ("tool_call", None),
        ("message", usage),
    ]
    assert steps[1]["meta"] == {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5]}


def test_metrics_that_only_add_up_are_no_note(found):
    sums = {"total_prompt_tokens": 200, "total_completion_tokens": 20, "total_cached_tokens": 120, "total_steps": 3}
    assert [step["kind"] for step in steps_of(found(document(*NEW, final_metrics=sums)))][-1] == "message"
    further = found(document(*NEW, final_metrics={**sums, "total_cost_usd": 0.5}))
    note = steps_of(further)[-1]
    assert (note["kind"], note["content"], note.get("usage")) == (
        *("note", 'Metrics of the whole file: {"total_cost_usd": 0.5}'),
        None,
    )
    assert further.trajectory.final_answer == "New."


@pytest.mark.django_db
@pytest.mark.parametrize("by_step", [True, False])
def test_tokens_of_a_file_are_counted_once(ada, settings, tmp_path, by_step):
    settings.VAR = tmp_path
    totals = {"total_prompt_tokens": 200, "total_completion_tokens": 20}
    new = NEW if by_step else [{name: one for name, one in step.items() if name != "metrics"} for step in NEW]
    path = tmp_path / "file.json"
    path.write_text(json.dumps(document(*OLD, *new, final_metrics=totals)))
    given = importing.take(ada, path)
    (episode,) = [one.episode_id for one in given.made.all()]
    # of the old turn, which is counted in no metrics of this episode, nothing
    assert spending.tokens_in(ada, [episode]) == {episode: "220"}
