"""LangGraph's own interrupts: as approvals, and answered in their own form by what their config allows."""

from __future__ import annotations

import pytest

from awmclient.adapters.human_interrupt import answers_to, pause_of, requests_of
from awmclient.adapters.pausing import PauseDecision
from awmclient.nouns.interrupts import ResumeEntry

ALL = ("accept", "edit", "respond", "ignore")
PAY = {"action": "pay", "args": {"item": "tea", "count": 1}}


def request(*allowed, action=PAY):
    config = {f"allow_{name}": name in allowed for name in ALL}
    return {"action_request": action, "config": config, "description": "May I pay?"}


def answered(requests, *verdicts, text=None):
    pause = pause_of("i1", requests)
    calls = [{"id": str(place), **verdict} for place, verdict in enumerate(verdicts, 1)]
    if text is not None:
        entry = ResumeEntry(interrupt_id="i1", status="resolved", payload=text)
    elif verdicts:
        entry = ResumeEntry(interrupt_id="i1", status="resolved", metadata={"awmweb": {"decision": {"calls": calls}}})
    else:
        entry = ResumeEntry(interrupt_id="i1", status="cancelled")
    return answers_to(requests, PauseDecision(pause, entry))


def test_list_of_interrupts_is_one_approval():
    requests = requests_of([request(*ALL), request("accept", action={"action": "close", "args": {}})])
    pause = pause_of("i1", requests)
    pay, close = pause.typed["calls"]
    assert pause.message == "May I pay?\n\nMay I pay?" and pause.typed["kind"] == "approval"
    assert (pay["name"], pay["arguments"], "schema" in pay) == ("pay", PAY["args"], False)
    assert close["schema"] == {"const": {}}, "no edit is taken"


@pytest.mark.parametrize(
    "value", ["text", [], {}, [1], {"action_request": 1}, [request(*ALL), {"question": "x"}], {"kind": "choice"}]
)
def test_other_values_are_no_human_interrupt(value):
    assert requests_of(value) == []


@pytest.mark.parametrize(
    ("allowed", "verdict", "response"),
    [
        (ALL, {"verdict": "approve"}, {"type": "accept", "args": None}),
        (("edit",), {"verdict": "approve"}, {"type": "edit", "args": PAY}),
        (
            ALL,
            {"verdict": "edit", "arguments": {"item": "milk"}},
            {"type": "edit", "args": {"action": "pay", "args": {"item": "milk"}}},
        ),
        (ALL, {"verdict": "reject", "reason": "No."}, {"type": "response", "args": "No."}),
        (("accept", "ignore"), {"verdict": "reject", "reason": "No."}, {"type": "ignore", "args": None}),
        (("accept",), {"verdict": "reject", "reason": "No."}, {"type": "response", "args": "No."}),
    ],
)
def test_decision_is_answered_in_the_form_of_the_graph(allowed, verdict, response):
    assert answered(requests_of(request(*allowed)), verdict) == [response]


@pytest.mark.parametrize("allowed", [ALL, ("accept",), ("respond",), ("ignore",), ()])
def test_silence_accepts_nothing(allowed):
    [response] = answered([request(*allowed)])
    assert response["type"] == ("ignore" if "ignore" in allowed else "response")
    assert response["args"] is None or "deadline" in response["args"]


def test_call_that_takes_words_only_is_a_question():
    requests = [request("respond")]
    pause = pause_of("i1", requests)
    assert not pause.typed and pause.message == 'May I pay?\n\npay {"item": "tea", "count": 1}'
    assert answered(requests, text="Ask Ann first.") == [{"type": "response", "args": "Ask Ann first."}]
