"""Result files of tau2-bench: what the agent did and read, what only the user did, and how it ended."""

from __future__ import annotations

import json

import pytest

from awmclient.words.conversation import conversation
from imports import readers
from imports.readers import tau2
from imports.readers.tau2 import ENDS
from imports.readers.unpacking import BadFile
from tests.imports.files import TASK, TAU2, TAU2_INFO, TAU2_SIMULATION, TAU2_TASK


@pytest.fixture
def read(tmp_path):
    def inner(value):
        path = tmp_path / "results.json"
        path.write_text(json.dumps(value))
        return list(readers.read(path))

    return inner


@pytest.fixture
def one(read):
    def inner(value):
        (found,) = read(value)
        assert not found.refusal, found.refusal
        return found

    return inner


def simulation(**more):
    return {**TAU2, "simulations": [{**TAU2_SIMULATION, **more}]}


def steps_of(found):
    return [step.model_dump(exclude_unset=True) for step in found.trajectory.steps]


def test_simulation_is_an_episode(one):
    found = one(TAU2)
    assert (found.format, found.place) == ("tau2", "simulation 1")
    about = found.trajectory
    assert (about.episode, about.environment, about.scenario) == ("0b1c 7.1", "tau2-bench", "telecom")
    assert (about.task, about.task_idx, about.seed) == (TASK, 7, 2**40 + 1)
    assert about.policy == {"name": "llm_agent", "model": "m-1"}
    assert [(tool.name, tool.description) for tool in about.tools] == [("get_ticket", "One ticket.")]
    assert (about.outcome.reward, about.outcome.source, about.stop_reason) == (1.0, "reported", "done")
    assert about.outcome.details == {"reward_basis": ["DB"], "reward_breakdown": {"DB": 1.0}}
    assert about.started_at.isoformat() == "2026-03-01T12:00:00"
    assert found.lost == {
        **{"the grader's details": 1, "costs": 1, "settings of the file": 1},
        "field generation_time_seconds of messages": 2,
    }


def test_agent_reads_nothing_of_what_the_user_does(one):
    steps = steps_of(one(TAU2))
    assert [(said.message["role"], said.message["content"]) for said in conversation(steps)] == [
        ("assistant", "Hi! How can I help you today?"),
        ("user", TASK),
        ("assistant", ""),
        ("tool", '{"open": true}'),
        ("assistant", "Please restart your phone."),
        ("user", "It works. ###STOP###"),
    ]
    notes = [(step["content"], step.get("meta")) for step in steps if step["kind"] == "note"]
    assert notes == [
        ("Policy of the domain:\nNever merge closed tickets.", None),
        ('The user called restart_phone: {"id": 2}', {"requestor": "user", "call_id": "c2"}),
        ("The user's call returned: It is on.", {"requestor": "user", "call_id": "c2"}),
    ]


def test_usage_and_times_are_those_of_messages(one):
    steps = steps_of(one(TAU2))
    used = {"prompt_tokens": 90, "completion_tokens": 9, "cost_usd": 0.002}
    assert [step.get("usage") for step in steps if step.get("role") == "assistant"] == [None, used, used]
    assert [step["at"].second for step in steps if step["kind"] == "tool_call"] == [2]


def test_solution_stays_out(one):
    found = one(TAU2)
    assert "the_solution" not in found.trajectory.model_dump_json()


def test_failed_call_and_results_of_several_tools(one):
    calls = [{"id": f"d{number}", "name": "get_ticket", "arguments": {}} for number in (1, 2)]
    results = [{"role": "tool", "id": f"d{number}", "content": f"r{number}", "error": number == 2} for number in (1, 2)]
    messages = [
        *TAU2_SIMULATION["messages"][:2],
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_messages": results},
    ]
    made = [step for step in steps_of(one(simulation(messages=messages))) if step["kind"] == "tool_call"]
    assert [(step.get("result"), step.get("error")) for step in made] == [("r1", None), (None, "r2")]


def test_each_simulation_has_its_own_task(read):
    told = {"domain": "telecom", "reason_for_call": "No signal.", "known_info": None, "task_instructions": "Be brief."}
    other = {**TAU2_TASK, "id": "[mobile]x", "user_scenario": {"instructions": told}}
    second = {**TAU2_SIMULATION, "id": "2", "task_id": "[mobile]x", "trial": None, "reward_info": None}
    first, after = read({**TAU2, "tasks": [TAU2_TASK, other], "simulations": [TAU2_SIMULATION, second]})
    assert first.trajectory.task == TASK
    assert after.trajectory.task == "Reason for call: No signal.\nInstructions: Be brief."
    about = after.trajectory
    assert (about.task_idx, about.outcome, about.episode) == (None, None, "2 [mobile]x.0")


def test_file_of_one_simulation_is_read(one):
    found = one({**TAU2_SIMULATION, "policy": "Be kind."})
    assert (found.format, found.trajectory.task, found.trajectory.scenario) == ("tau2", TASK, None)
    assert steps_of(found)[0]["content"] == "Policy of the domain:\nBe kind."


@pytest.mark.parametrize("reason", ENDS)
def test_every_reason_of_an_end_is_one_of_ours(one, reason):
    about = one(simulation(termination_reason=reason)).trajectory
    assert about.stop_reason == ENDS[reason]["stop_reason"]
    assert (about.state, about.fault) == (ENDS[reason].get("state", "finished"), ENDS[reason].get("fault"))


def test_unknown_reason_is_counted(one):
    assert one(simulation(termination_reason="moon")).lost["reason of the end"] == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"messages": None, "ticks": [{"tick_id": 0}]}, "simulation of speech without messages"),
        ({"messages": [5]}, "Message 1 is not of role"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "tool calls that are not a list"),
        ({"messages": [{"role": "user", "tool_calls": [5]}]}, "A tool call is not an object"),
        ({"messages": None}, "not a list of messages"),
    ],
)
def test_other_simulation_is_refused(read, more, why):
    (found,) = read({"info": TAU2_INFO, "simulations": [{**TAU2_SIMULATION, **more}]})
    assert why in found.refusal


def test_further_simulations_leave_earlier_ones_the_same(read):
    """A run that goes on appends to its file: what was imported is known."""
    (before,) = read(TAU2)
    again = read({**TAU2, "timestamp": "later", "simulations": [TAU2_SIMULATION, {**TAU2_SIMULATION, "id": "2"}]})
    assert again[0].digest == before.digest != again[1].digest


@pytest.mark.parametrize("large", ["info", "tasks"])
def test_head_of_many_simulations_is_bounded(read, monkeypatch, large):
    """A file of 24 MB whose head is half of it would be read for 25 minutes."""
    monkeypatch.setattr(tau2, "UNPACKED_MAX", 1_000_000)
    more = {"info": {**TAU2_INFO, "x": "a" * 20_000}, "tasks": [{**TAU2_TASK, "x": "a" * 20_000}]}[large]
    read({**TAU2, large: more, "simulations": [TAU2_SIMULATION] * 20})
    with pytest.raises(BadFile, match="4 GB"):
        read({**TAU2, large: more, "simulations": [TAU2_SIMULATION] * 60})
