"""A trajectory in ATIF, step by step: the same steps as an import of the whole file has."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from awmclient.adapters import harbor
from awmclient.adapters.atif_steps import AtifSteps, asked_in, asks, identity_of, main_steps, settled
from imports import readers
from tests.imports.files import ATIF

ASKS = {
    "source": "agent",
    "message": "Let me ask.",
    "tool_calls": [
        {"tool_call_id": "c1", "function_name": "mcp__awmweb__ask_expert", "arguments": {"question": "Which one?"}},
        {"tool_call_id": "c2", "function_name": "Bash", "arguments": {"command": "ls"}},
    ],
    "observation": {
        "results": [
            {"source_call_id": "c1", "content": "The oldest."},
            {"source_call_id": "c2", "content": "a b"},
        ]
    },
}

WHICH = asked_in([{"kind": "ask", "question": "Which one?"}])
REMOVE = [{"name": "Bash", "arguments": {"command": "rm a"}}]
APPROVAL = {"kind": "approval", "calls": [{"id": "1", **REMOVE[0]}], "on_timeout": "reject"}
FORM = {"kind": "form", "response_schema": {"type": "object", "properties": {}}}


def calling(name, arguments, **more):
    return {
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c", "function_name": name, "arguments": arguments}],
        **more,
    }


def of_file(row, tmp_path):
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(row))
    (imported,) = readers.read(path)
    assert not imported.refusal
    steps = [step.model_dump(exclude_unset=True, mode="json") for step in imported.trajectory.steps]
    return [{name: value for name, value in step.items() if name != "seq"} for step in steps]


def step_by_step(row):
    atif = AtifSteps()
    atif.model = row["agent"].get("model_name")
    return [one for step in row["steps"] for one in atif.steps_of(step)]


def without_pictures(row):
    text = json.dumps(row).replace(', {"type": "image"}', "")
    return json.loads(text)


LONG = {
    **ATIF,
    "steps": [
        {"source": "system", "message": "Be short."},
        {"source": "user", "message": "Old.", "is_copied_context": True, "timestamp": "2026-11-30T10:00:00Z"},
        {"source": "agent", "message": "", "model_name": "m-2", "metrics": {"prompt_tokens": 7, "cached_tokens": 3,
         "cost_usd": 0.01, "prompt_token_ids": [1]}, "tool_calls": ASKS["tool_calls"],
         "observation": ASKS["observation"], "timestamp": "2026-11-30T10:00:01Z"},
        {"source": "agent", "message": "", "tool_calls": ASKS["tool_calls"][1:]},
        {"source": "agent", "message": "Seen.", "observation": {"results": [{"content": "It rains."}]}},
        {"source": "agent", "message": "Done.", "reasoning_content": "All is well.", "reasoning_effort": "low"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("row", [without_pictures(ATIF), LONG], ids=["readers", "long"])
def test_steps_are_those_of_an_import(tmp_path, row):
    steps = step_by_step(row)
    assert steps == of_file(
        {**row, "steps": [{"step_id": at, **one} for at, one in enumerate(row["steps"], 1)]}, tmp_path
    )
    assert len(steps) >= 4


def test_question_that_was_asked_is_left_out():
    atif = AtifSteps()
    assert asks(ASKS) and not asks({**ASKS, "tool_calls": ASKS["tool_calls"][1:]})
    message, call = atif.steps_of(ASKS, WHICH)
    assert (message["content"], call["name"], call["result"]) == ("Let me ask.", "Bash", "a b")


def test_question_that_was_refused_stays_a_call():
    message, question, _ = AtifSteps().steps_of(ASKS, asked_in([{"kind": "ask", "question": "Another one?"}]))
    assert (question["name"], question["result"]) == ("mcp__awmweb__ask_expert", "The oldest.")


def test_answer_is_the_last_message_without_a_call():
    atif = AtifSteps()
    atif.steps_of({"source": "agent", "message": "Done."})
    assert atif.answer == "Done."
    atif.steps_of(ASKS, WHICH)
    assert atif.answer is None


def test_parts_without_text_are_named():
    [message] = AtifSteps().steps_of(
        {"source": "user", "message": [{"type": "text", "text": "See "}, {"type": "image"}]}
    )
    assert message["content"] == "See [image]"


@pytest.mark.parametrize(
    ("recorded", "name", "arguments"),
    [
        ({"question": "May the agent make these calls?", "typed": APPROVAL}, "request_approval", {"calls": REMOVE}),
        ({"question": "Where to?", "typed": FORM}, "answer_elicitation", {"message": "Where to?"}),
    ],
)
def test_approval_or_form_that_was_asked_is_left_out(recorded, name, arguments):
    step, asked = calling(f"mcp__awmweb__{name}", arguments), asked_in([{"kind": "ask", **recorded}])
    assert asks(step) and AtifSteps().steps_of(step, asked) == []
    assert len(AtifSteps().steps_of(step, WHICH)) == 1


@pytest.mark.parametrize("value", [["a"], {"a": 1}, None, 7, ""])
@pytest.mark.parametrize(
    ("name", "argument"),
    [("ask_expert", "question"), ("request_approval", "calls"), ("answer_elicitation", "message")],
)
def test_question_of_another_type_stays_a_call(name, argument, value):
    asked = asked_in([{"kind": "ask", "question": ["a"]}]) | WHICH
    [call] = AtifSteps().steps_of(calling(name, {argument: value}), asked)
    assert call["arguments"] == {argument: value}


def test_step_that_waits_holds_back_all_behind_it():
    said, waits = {"source": "agent", "message": "Hm."}, calling("Bash", {})
    done = {**waits, "observation": {"results": [{"source_call_id": "c", "content": "a"}]}}
    whole = {**waits, "observation": {"results": [{"content": "a"}]}}
    assert settled([]) == settled([said]) == settled([waits, said, said]) == []
    assert settled([said, waits, said, said]) == [said]
    assert settled([said, done, whole, said]) == [said, done, whole]


def test_steps_of_subagents_and_other_types_are_left_out():
    steps = [{"source": "user", "extra": {"is_sidechain": value}} for value in (False, True)]
    assert main_steps({"steps": [*steps, "x", None]}) == steps[:1]
    assert main_steps({"steps": 7}) == main_steps(None) == main_steps("x") == []


def test_step_is_the_same_behind_others_and_with_a_result():
    step = {**calling("Bash", {}), "step_id": 2, "timestamp": "2026-11-30T10:00:00Z"}
    later = {**step, "step_id": 3, "message": "[redacted]", "observation": {"results": []}}
    assert identity_of(step) == identity_of(later) != identity_of({**step, "timestamp": "2026-11-30T10:00:01Z"})
    untimed = [{"source": "user", "message": "Go on.", "step_id": at} for at in (1, 2)]
    assert identity_of(untimed[0]) != identity_of(untimed[1])


def test_time_that_no_calendar_has_is_left_out():
    [message] = AtifSteps().steps_of({"source": "user", "message": "a", "timestamp": "0001-01-01T00:00:00+10:00"})
    assert "at" not in message


def documents_in(folder):
    """The trajectories that a trial's folder has, and what is noted."""
    notes = []
    trial = SimpleNamespace(_trial=SimpleNamespace(paths=SimpleNamespace(agent_dir=folder)), _note=notes.append)
    return list(harbor.RecordedTrial._documents(trial, SimpleNamespace(step_results=None))), notes


def test_trajectory_that_a_sandbox_wrote_is_bounded(tmp_path, monkeypatch):
    file = tmp_path / harbor.TRAJECTORY
    file.write_text('{"steps": []}')
    assert documents_in(tmp_path) == ([{"steps": []}], [])
    file.write_text("[" * 200_000)
    read, [note] = documents_in(tmp_path)
    assert read == [] and "cannot be read" in note
    monkeypatch.setattr(harbor, "TRAJECTORY_BYTES", 10)
    read, [note] = documents_in(tmp_path)
    assert read == [] and "200,000 bytes, more than 10" in note


def test_link_out_of_a_sandbox_is_not_followed(tmp_path):
    (tmp_path / "of_the_host.json").write_text('{"steps": [{"message": "secret"}]}')
    (tmp_path / harbor.TRAJECTORY).symlink_to(tmp_path / "of_the_host.json")
    assert documents_in(tmp_path) == ([], [])
