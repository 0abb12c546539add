"""Rules of when an agent is offered help: what they read, what they decide, and what the loop makes of it."""

import json

import pytest
from pydantic import ValidationError

from awmclient.asking.rules import (
    CARD_MAX,
    FEATURES,
    NOT_NOW,
    AskGate,
    AskRule,
    Seen,
    Side,
    asking_rule,
    is_drawn,
    row_of,
)
from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.record.progress import LoopProgress
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.prompts import OFFERED
from awmclient.words.toolcalls import Call
from tests.awmclient.loop.test_carrying_on import Killed, Mortal, recorded
from tests.awmclient.loop.test_rollout import Watching, calls, run

WRONG = {"item": "mug", "price": "x"}
ASK = Turn(calls=[Call("ask_expert", {"question": "Which price?"})])


def gate(threshold=0.1, intercept=-20.0, **weights):
    """A gate that offers where the weighted features exceed 20."""
    return AskGate(
        alone=Side(intercept=0, weights={}), offered=Side(intercept=intercept, weights=weights), threshold=threshold
    )


def after(*steps, **known):
    return row_of(Seen(steps, LoopProgress.after(steps), **known))


def call(turn, name="get_item", error=None, **arguments):
    return {"kind": "tool_call", "name": name, "arguments": arguments, "turn": turn, "result": 1} | (
        {"error": error} if error else {}
    )


def test_features_are_those_before_the_ask():
    steps = [
        call(1, item="mug"),
        call(2, "set_price", "no", price=1),
        call(3, "set_price", "no", price=1),
        {"kind": "message", "role": "assistant", "turn": 4, "meta": {"logprobs": [-1.0, -2.0]}},
        call(4, "set_price", "no", price=1),
    ]
    row = dict(zip(FEATURES, after(*steps, task_seen=True), strict=True))
    expected = {"turn": 0.2, "errors": 0.75, "repeats": 0.5, "stalled": 0.6, "doubt": 0.5, "writes": 1, "asks": 0}
    assert row == pytest.approx(expected | {"seen": 1})
    assert all(value == 0 for value in after())


def test_gate_is_evaluated_as_two_regressions():
    found = AskGate(
        alone=Side(intercept=-1, weights={"turn": 2}), offered=Side(intercept=1, weights={"errors": 3}), threshold=0.2
    )
    row = tuple(0.5 if name in ("turn", "errors") else 0.0 for name in FEATURES)
    # by hand: 1 / (1 + exp(-2.5)) - 1 / (1 + exp(-0))
    assert found.gain(row) == pytest.approx(0.924142 - 0.5, abs=1e-6) and found.offers(row)
    assert AskGate(**json.loads(found.model_dump_json())) == found


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 2},
        {"digest": "0" * 64},
        {"more": 1},
        {"offered": {"intercept": 0, "weights": {"verdict": 1}}},
        {"offered": {"intercept": float("nan"), "weights": {}}},
        {"offered": {"intercept": 0, "weights": {"turn": 1001}}},
        {"card": {"words": "x" * CARD_MAX}},
        {"card": {"words": "\x00"}},
        {"card": {"words": "\ud800"}},
    ],
)
def test_gate_of_a_stranger_is_refused(wrong):
    with pytest.raises(ValidationError):
        AskGate.model_validate(gate().model_dump(exclude={"digest"}) | wrong)


def test_changed_gate_has_not_its_digest():
    whole = gate(turn=3).model_dump()
    assert AskGate.model_validate(whole).digest == whole["digest"]
    with pytest.raises(ValidationError, match="changed after it was fitted"):
        AskGate.model_validate(whole | {"threshold": 0.0})


def test_draws_have_their_chance_and_repeat():
    drawn = [is_drawn("run", turn, 0.3) for turn in range(4000)]
    assert 0.27 < sum(drawn) / len(drawn) < 0.33
    assert (
        drawn
        == [is_drawn("run", turn, 0.3) for turn in range(4000)]
        != [is_drawn("b", turn, 0.3) for turn in range(4000)]
    )
    for wrong in ("random:", "random:0.05", "random:0.91", "random:nan"):
        with pytest.raises(ValueError, match="a chance from"):
            asking_rule(wrong)


def told():
    return MemoryDashboard(lambda question: "Nine.")


def kinds(steps):
    return [step["kind"] if step.get("name") != "ask_expert" else "declined" for step in steps[2:]]


async def test_gate_offers_by_a_reminder_and_declines_an_ask():
    turns = [ASK, calls("set_price", **WRONG), ASK, calls("set_price", **WRONG), ASK, Turn(answer="ok")]
    rule = AskRule(gate(errors=50))  # more than 20 from two errors in a row on
    _, steps = await run(Watching(*turns), expert="plain", ask=rule, nudge_after=1, dash=told())
    assert kinds(steps) == ["declined", "tool_call", "declined", "tool_call", "nudge", "ask", "message"]
    assert [step["result"] for step in steps if step.get("name") == "ask_expert"] == [NOT_NOW] * 2


async def test_rules_without_a_file():
    turns = [calls("set_price", **WRONG), calls("set_price", **WRONG), ASK, Turn(answer="ok")]
    for rule, nudges in (("own", 0), ("always", 3)):
        _, steps = await run(Watching(*turns), expert="plain", ask=AskRule(rule), nudge_after=1, dash=told())
        assert [step["content"] for step in steps if step["kind"] == "nudge"] == [OFFERED] * nudges
        assert [step["kind"] for step in steps].count("ask") == 1


async def test_death_at_any_write_changes_no_decision():
    """A decision follows from the record: what was declined before a crash is declined after it, and drawn the same."""
    wrong = {"call": {"name": "set_price", "arguments": WRONG}}
    script = [wrong, {"ask": {"question": "Which?"}, "advised": [], "unadvised": []}] * 3
    for rule in (AskRule("random:0.5", "some key"), AskRule(gate(errors=50))):
        calm = Mortal()
        await through(calm, script, rule)
        wanted = recorded(calm)
        assert {"declined", "nudge", "ask"} <= set(kinds(wanted[0])), rule.rule
        for at in range(1, calm.writes):
            dash = Mortal(at)
            await through(dash, script, rule)
            assert recorded(dash) == wanted, at


async def through(dash, script, rule):
    while True:
        try:
            return await rollout(
                ScriptedPolicy(script),
                FakeEnv(),
                dash,
                task="Price it",
                expert="plain",
                key="one",
                ask=rule,
                nudge_after=0,
            )
        except Killed:
            continue
