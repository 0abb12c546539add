"""Reward profiles: each pattern of pull request 428, each component of the bundle, and what each exploit earns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runs.rewards import PROFILES, Played, profiles
from runs.rewards.bundle_v1 import efficiency, process, well_formed

TOOLS = [
    {"name": "get", "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    {"name": "refund", "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}}},
]
ANSWER = "Refunded order 7."


def call(name="get", error=None, reward_type="tool_call_ok", **arguments):
    outcome = {"error": error} if error else {"result": {"ok": True}}
    return {
        "kind": "tool_call",
        "name": name,
        "arguments": arguments or {"id": 1},
        "reward_type": reward_type,
        **outcome,
    }


def ask(source="human"):
    return {"kind": "ask", "question": "Which?", "advice": {"text": "The first.", "source": source}}


def said(text="Done."):
    return {"kind": "message", "role": "assistant", "content": text}


def played(*steps, reward_type="complete", **about):
    numbered = [{"seq": seq, "turn": seq, **step} for seq, step in enumerate(steps, start=1)]
    return Played(numbered, reward_type, **{"tools": TOOLS, "final_answer": ANSWER, **about})


def pr428(*steps, **about):
    return PROFILES["pr428"].pay(played(*steps, **about))


def bundle(*steps, **about):
    return PROFILES["bundle.v1"].pay(played(*steps, **about))


@pytest.mark.parametrize(
    ("steps", "pattern", "total"),
    [
        ([call(), call("refund")], "solo", 2.0),
        ([call(error="no such id"), ask(), call("refund")], "recovery", 1.3),
        ([call(id=1), call(id=2), call(id=3), call(id=4), call(id=5), ask(), call("refund")], "recovery", 1.3),
        ([call(), call("nothing", reward_type="tool_not_found"), ask(), call("refund")], "recovery", 1.3),
        ([call("nothing", reward_type="tool_not_found"), ask(), call("refund")], "blind", 0.8),
        ([call(), ask(), call("refund")], "voluntary", 1.0),
        ([*[call("nothing", reward_type="tool_not_found")] * 4, call(), ask(), call("refund")], "voluntary", 1.0),
        ([ask(), call("refund")], "blind", 0.8),
    ],
)
def test_pr428_pays_complete_episodes_by_pattern(steps, pattern, total):
    paid = pr428(*steps, expert_available=True)
    assert (paid.pattern, paid.total) == (pattern, pytest.approx(total))


@pytest.mark.parametrize(("reward_type", "total"), [("incomplete", 0.1), ("others", 0.0)])
def test_pr428_adjusts_no_episode_that_is_not_complete(reward_type, total):
    assert pr428(call(), reward_type=reward_type).total == total
    assert pr428(ask(), call(), reward_type=reward_type).total == total


def test_pr428_pays_a_rollout_without_executable_call_minus_one():
    paid = pr428(call("nothing", error="Unknown tool", reward_type="tool_not_found"), reward_type="others")
    assert (paid.total, paid.pattern) == (-1.0, "format error")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("reward_type", ["judge_error", "server_error", "reset_error", "verifier_error"])
def test_excluded_outcome_is_paid_nothing(profile, reward_type):
    assert PROFILES[profile].pay(played(call(), reward_type=reward_type)).total is None


@pytest.mark.parametrize("profile", PROFILES.values())
@pytest.mark.parametrize("steps", [[call()], [ask(), call()], []])
def test_profile_names_every_component_that_it_pays(profile, steps):
    assert set(profile.pay(played(*steps)).components) <= set(profile.components)


def test_pr428_tells_solo_by_choice_from_solo_by_assignment():
    assert pr428(call(), expert_available=True).flags == ("solo by choice",)
    assert pr428(call()).flags == ("solo by assignment",)
    assert pr428(call(), ask("fallback"), expert_available=True).flags == ("ask without advice",)


def test_bundle_of_a_clean_episode_is_one():
    paid = bundle(call(), call("refund", id=7), said(), reference_steps=2.0)
    assert paid.total == pytest.approx(1.0)
    assert paid.components == {"primary": 1.0, "process": pytest.approx(1.0), "format": 1.0, "efficiency": 1.0}


def test_bundle_without_completion_stays_at_045():
    paid = bundle(call(), call("refund", id=7), said(), reward_type="others")
    assert paid.total == pytest.approx(0.45) and paid.components["primary"] == 0


def test_spam_of_one_cheap_read_earns_less_than_one_read():
    once, spam = played(call(), reward_type="others"), played(*[call()] * 10, reward_type="others")
    assert process(once) == pytest.approx(1.0)
    assert process(spam) == pytest.approx(0.2 + 0.4 + 0.2 * 0.1 + 0.2)


def test_calls_that_say_the_same_are_one_distinct_call():
    alike = [call(id=1), call(id=1.0), call(id=1, note={"x": 2}), *(call(id=1, x=n) for n in range(10))]
    assert process(played(*alike)) == pytest.approx(process(played(*[call(id=1)] * 13)))
    assert process(played(call(id=1), call(id=True))) == 1.0 == process(played(call(id=1), call(id=2)))


def test_arguments_that_a_schema_may_take_are_distinct():
    inner = {"type": "object", "properties": {"id": {"type": "integer"}}}
    for schema in (None, {"type": "object"}, {**inner, "additionalProperties": True}, {**inner, "anyOf": [inner]}):
        tools = [{"name": "get", "input_schema": schema}]
        assert process(played(call(id=1, x=1), call(x=2, id=1), tools=tools)) == 1.0
    tools = [{"name": "get", "input_schema": {"properties": {"of": {"items": inner}}}}]
    nested = [call(of=[{"id": 1, "x": n}]) for n in range(4)]
    assert process(played(*nested, tools=tools)) == pytest.approx(0.8 + 0.2 / 4)


def test_provoked_and_mended_error_earns_less_than_none():
    provoked = played(call(error="bad", id=0), call(id=1))
    assert process(provoked) == pytest.approx(0.2 + 0.4 * 0.5 + 0.2 + 0.2)
    assert process(provoked) < process(played(call(id=1)))
    unmended = played(call(error="bad", id=0), call("refund"), call("refund", id=2), call(id=1))
    assert process(unmended) == pytest.approx(0.2 + 0.4 * 3 / 4 + 0.2 + 0.0)


def test_work_of_the_expert_earns_no_process():
    assert process(played(ask(), ask(), said())) == 0.0


def test_perfect_empty_turn_earns_no_format():
    assert well_formed(played(said("All done, as you wished."))) == 0.0
    assert well_formed(played(call(), said(), final_answer=" ok ")) == 0.0


def test_environment_that_ends_an_episode_asks_for_no_answer():
    ended = {**call("refund"), "done": True}
    assert well_formed(played(call(), ended, final_answer="")) == 1.0
    assert (
        bundle(call(), ended, final_answer="").total > bundle(said(), final_answer=ANSWER, reward_type="others").total
    )
    assert well_formed(played(call(), {**ended, "done": False}, final_answer="")) == 0.0


def test_turns_of_several_calls_or_misfits_are_not_well_formed():
    both = played({**call(), "turn": 1}, {**call("refund"), "turn": 1}, said())
    assert well_formed(both) == pytest.approx(1 / 2)
    first = played(*({**call(id=n), "turn": 0} for n in range(3)), said())
    assert well_formed(first) == pytest.approx(1 / 2), "turns can begin at 0"
    misfit = played(call(id="seven"), call(), said())
    assert well_formed(misfit) == pytest.approx(2 / 3)
    unknown = played(call("nothing", error="Unknown tool", reward_type="tool_not_found"), call())
    assert well_formed(unknown) == pytest.approx(1 / 2)


def test_words_beside_a_call_change_no_format():
    beside = played({**said("Let me look. " * 50), "turn": 1}, {**call(), "turn": 1}, said())
    assert well_formed(beside) == 1.0


def test_efficiency_counts_calls_and_asks_of_complete_episodes():
    five = [call(id=number) for number in range(5)]
    assert efficiency(played(*five)) == 1.0
    assert efficiency(played(*five, ask(), ask(), max_turns=15)) == pytest.approx(0.8)
    assert efficiency(played(call(), reward_type="others")) == 0.0, "to quit early earns nothing"
    in_one_turn = [{**one, "turn": 1} for one in [*five, call(id=9), call(id=10)]]
    assert efficiency(played(*in_one_turn)) == pytest.approx(0.8), "calls count, not turns"
    assert efficiency(replace(played(call()), max_turns=3)) == 1.0


def test_priced_takes_the_stated_price_for_each_ask():
    priced = PROFILES["priced"].pay
    told = priced(played(call(), ask(), ask("fallback"), ask_price=0.2))
    assert told.total == pytest.approx(0.6) and told.components == {"outcome": 1.0, "asks": pytest.approx(-0.4)}
    assert priced(played(call(), ask_price=0.2)).total == 1.0
    assert priced(played(call(), ask(), ask_price=0.2, reward_type="others")).total == pytest.approx(-0.2)
    assert priced(played(call(), ask())).total is None, "no price was stated"


def test_profiles_that_need_a_price_pay_where_there_is_one():
    assert set(profiles(0.0)) - set(profiles(None)) == {"priced"}
