"""Gates: which calls wait, what runs of what was proposed, and what the agent reads of it; also after a crash."""

from __future__ import annotations

import pytest

from awmclient.asking.gates import is_gated, place_in_turn, proposed, reached_world
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.schema import STEP, Advice
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.conversation import EDITED, conversation, messages
from awmclient.words.toolcalls import Call

DISCOUNT = Call("set_price", {"item": "mug", "price": 8.0}, "call_a")
LOOK = Call("get_item", {"item": "mug"}, "call_b")
RAISE = Call("set_price", {"item": "pen", "price": 9.0}, "call_c")


class Once:
    """Makes its calls in one turn, then says that it is done."""

    def __init__(self, *calls):
        self.calls = list(calls)

    async def act(self, view):
        calls, self.calls = self.calls, []
        return Turn(content="Discount the mug.", calls=calls) if calls else Turn(answer="done")


def deciding(*verdicts):
    """An expert who decides the calls of an ask in order."""
    return lambda question: Advice.model_validate(
        {
            "text": "", "source": "human", "by": "person",
            "decision": {"calls": [{"id": str(number), **one} for number, one in verdicts]},
        }
    )  # fmt: skip


async def played(expert, *calls, approve=("set_*",)):
    dash = MemoryDashboard(expert=expert)
    env = FakeEnv()
    result = await rollout(Once(*calls), env, dash, task="t", expert="plain", approve=approve, ask_deadline_s=1)
    assert result.stop_reason == "done", result.detail
    return dash.steps(result.episode), env


@pytest.mark.parametrize(
    ("name", "patterns", "gated"),
    [
        ("create_refund", ["create_*"], True), ("create_refund", ["refund"], False), ("get_order", ["*"], True),
        ("get_order", ["writes"], False), ("gettysburg", ["writes"], True), ("list", ["writes"], False),
        ("ask_expert", ["*"], False), ("verify", ["*"], False), ("close", [], False),
    ],
)  # fmt: skip
def test_calls_wait_by_pattern_or_as_writes(name, patterns, gated):
    assert is_gated(name, patterns) is gated


async def test_approved_edited_and_rejected_calls_run_as_decided():
    edited = {"verdict": "edit", "arguments": {"item": "mug", "price": 9.5}}
    refused = {"verdict": "reject", "arguments": RAISE.arguments, "reason": "Pens stay."}
    steps, env = await played(deciding((1, edited), (3, refused)), DISCOUNT, LOOK, RAISE)
    ask = next(step for step in steps if step["kind"] == "ask")
    assert [call["id"] for call in ask["typed"]["calls"]] == ["1", "3"]
    assert ask["typed"]["calls"][0]["reason"] == "Discount the mug."
    first, look, last = [step for step in steps if step["kind"] == "tool_call"]
    assert first["arguments"] == {"item": "mug", "price": 9.5} and first["approval"]["proposed"] == DISCOUNT.arguments
    assert "approval" not in look and look["result"]["price"] == 9.5
    assert last["approval"]["verdict"] == "reject" and "Pens stay." in last["error"]
    assert env.prices == {"mug": 9.5, "pen": 2.0}
    for step in steps:
        STEP.validate_python(step)


async def test_the_agent_reads_its_own_call_and_what_ran_instead():
    edited = {"verdict": "edit", "arguments": {"item": "mug", "price": 9.5}}
    steps, _ = await played(deciding((1, edited)), DISCOUNT)
    said = messages(steps)
    calls = [call for message in said for call in message.get("tool_calls", ())]
    assert [call["function"]["name"] for call in calls] == ["set_price"]
    assert '"price": 8.0' in calls[0]["function"]["arguments"]
    (result,) = [message["content"] for message in said if message["role"] == "tool"]
    assert result.startswith(EDITED) and '"price": 9.5' in result.splitlines()[0]
    assert all("May the agent" not in str(one.message) for one in conversation(steps))


async def test_silence_rejects_and_never_approves():
    steps, env = await played(None, DISCOUNT)
    (call,) = [step for step in steps if step["kind"] == "tool_call"]
    assert call["approval"] == {"by": "timeout", "verdict": "reject", "reason": "no decision before the deadline"}
    assert "No one approved it" in call["error"]


async def test_an_approval_is_no_question_of_the_agent():
    approve = {"verdict": "approve", "arguments": DISCOUNT.arguments}
    dash = MemoryDashboard(expert=deciding((1, approve)))
    result = await rollout(Once(DISCOUNT), FakeEnv(), dash, task="t", expert="plain", approve=["*"], max_asks=0)
    assert result.asks == 0 and result.stop_reason == "done"


def nest(levels):
    return 1 if levels == 0 else [nest(levels - 1)]


@pytest.mark.parametrize(
    "call",
    [
        Call("set_" + "x" * 300, {}), Call("set_\x00", {}), Call("set_\ud800", {}), Call("", {}),
        Call("set_price", {"note": "x" * 150_000}), Call("set_price", {"items": [1] * 30_000}),
        Call("set_price", {"deep": nest(60)}), Call("set_price", {"price": 10**5000}),
        Call("set_price", {"price": 10**400}),
    ],
    ids=["long", "NUL", "half", "empty", "text", "values", "deep", "digits", "number"],
)  # fmt: skip
async def test_a_call_that_no_one_can_be_shown_is_refused_to_its_agent(call):
    steps, env = await played(None, call, RAISE, approve=["*"])
    first, second = [step for step in steps if step["kind"] == "tool_call"]
    assert "cannot be shown to anyone" in first["error"] and first["approval"]["verdict"] == "reject"
    assert "no decision" in second["error"] and not reached_world(first)
    (ask,) = [step for step in steps if step["kind"] == "ask"]
    assert [one["name"] for one in ask["typed"]["calls"]] == ["set_price"]


async def test_calls_that_are_too_large_together_are_asked_apart():
    calls = [Call("set_price", {"item": "mug", "note": f"{number}" + "x" * 60_000}) for number in range(3)]
    steps, _ = await played(None, *calls, *[DISCOUNT] * 25, approve=["*"])
    asks = [step["typed"]["calls"] for step in steps if step["kind"] == "ask"]
    assert [[one["id"] for one in ask] for ask in asks][:3] == [["1"], ["2"], ["3", *map(str, range(4, 23))]]
    assert len([step for step in steps if step["kind"] == "tool_call"]) == 28


def test_a_call_keeps_its_number_after_a_crash():
    before = [
        {"kind": "message", "role": "assistant", "content": "", "turn": 1},
        {"kind": "ask", "typed": {"kind": "approval", "calls": []}, "turn": 1},
        {"kind": "tool_call", "name": "set_price", "turn": 1},
    ]
    assert place_in_turn(before, 1) == 2
    assert [call["id"] for call in proposed([LOOK, RAISE], 2, ["set_*"], "")] == ["3"]
