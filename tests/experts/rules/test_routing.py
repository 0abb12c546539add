"""Who is to answer, in which order: decisions from numbers alone, no database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from experts.rules.routing import (
    DeskLoad,
    RoutingRules,
    alike,
    draw,
    expected_wait,
    in_turn,
    next_tier,
    route,
    words_of,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MODEL_FIRST = RoutingRules(model_first=True, has_models=True, audit_share=0.05)
PEOPLE_WHILE_FREE = replace(MODEL_FIRST, people_while_free=True)
FULL = DeskLoad(present=2, ahead=4, ahead_of_run=2, runs=2)


@dataclass
class Waits:
    pk: str
    run_key: str = "a"
    priority: int = 0
    created_at: datetime = NOW
    deadline_at: datetime = NOW + timedelta(minutes=10)


def test_without_models_and_limits_everything_goes_to_people():
    way = route(RoutingRules(), DeskLoad(), 0.99)
    assert (way.tiers, way.chance) == (("people",), 1.0)


def test_tiers_go_from_people_to_senior_to_model():
    assert route(RoutingRules(has_senior=True, has_models=True), DeskLoad(), 0.5).tiers == ("people", "senior", "llm")


def test_model_first_gives_people_the_audit_share():
    seen = [route(MODEL_FIRST, FULL, draw(1, f"ask{n}")) for n in range(4000)]
    people = [way for way in seen if way.tiers[0] == "people"]
    assert {way.chance for way in seen} == {0.05}
    assert len(people) / len(seen) == pytest.approx(0.05, abs=0.015)
    assert {way.reason for way in people} == {"audit_sample"}
    assert {way.tiers for way in seen} == {("people", "llm"), ("llm", "people")}


def test_model_first_holds_while_people_are_idle():
    way = route(MODEL_FIRST, DeskLoad(present=2), 0.5)
    assert (way.tiers, way.chance, way.reason) == (("llm", "people"), 0.05, "model_first")
    assert route(MODEL_FIRST, DeskLoad(present=2), 0.01).reason == "audit_sample"


def test_idle_people_get_asks_and_the_probability_is_told():
    way = route(PEOPLE_WHILE_FREE, DeskLoad(present=2), 0.5)
    assert (way.tiers[0], way.chance, way.reason) == ("people", 1.0, "people_free")
    half = route(PEOPLE_WHILE_FREE, DeskLoad(present=2, ahead=2, ahead_of_run=1, runs=2), 0.99)
    assert half.tiers[0] == "llm" and half.chance == pytest.approx(0.05 + 0.95 * 0.5)


def test_run_at_its_human_share_yields_to_others():
    mine = DeskLoad(present=4, ahead=4, ahead_of_run=4, runs=2)
    theirs = DeskLoad(present=4, ahead=4, ahead_of_run=0, runs=2)
    assert route(PEOPLE_WHILE_FREE, mine, 0.2).tiers[0] == "llm"
    assert route(PEOPLE_WHILE_FREE, theirs, 0.2).tiers[0] == "people"


def test_a_group_that_is_large_enough_is_worth_a_person():
    way = route(MODEL_FIRST, DeskLoad(present=2, ahead=9, group=4), 0.99)
    assert (way.tiers[0], way.chance, way.reason) == ("people", 1.0, "large_group")


@pytest.mark.parametrize(
    "budget", [RoutingRules(per_hour=3, has_models=True), RoutingRules(per_training_step=3, has_models=True)]
)
def test_a_spent_human_budget_leaves_the_model(budget):
    assert route(budget, DeskLoad(hour=3, step=3), 0.0).tiers == ("llm",)
    assert route(budget, DeskLoad(hour=2, step=2), 0.0).tiers[0] == "people"


def test_people_are_spared_what_they_could_not_answer_in_time():
    way = route(MODEL_FIRST, DeskLoad(present=2, ahead=6, ahead_of_run=6, usual_s=60, left_s=300), 0.0)
    assert (way.tiers[0], way.chance, way.reason) == ("llm", 0.0, "model_first")
    assert (
        route(MODEL_FIRST, DeskLoad(present=2, ahead=4, ahead_of_run=4, usual_s=60, left_s=300), 0.0).tiers[0]
        == "people"
    )


def test_spent_budget_or_long_queue_falls_back_without_model():
    assert route(RoutingRules(per_hour=1), DeskLoad(hour=1), 0.0).tiers == ()
    long = route(RoutingRules(wait_limit_s=120), DeskLoad(present=1, ahead=5, ahead_of_run=5, usual_s=60), 0.0)
    assert (long.tiers, long.reason, long.expected_wait_s) == ((), "backpressure", 360)


def test_the_wait_follows_from_the_place_in_the_queue():
    assert expected_wait(DeskLoad(present=3, ahead=5, ahead_of_run=5, usual_s=40)) == 80
    assert expected_wait(DeskLoad(present=3, ahead=50, ahead_of_run=0, runs=2, usual_s=40)) == 40  # runs take turns


def test_an_arm_may_ask_only_models_or_only_people():
    assert route(RoutingRules(only="models", has_models=True), DeskLoad(present=3), 0.0).tiers == ("llm",)
    assert route(RoutingRules(only="people", has_models=True), DeskLoad(), 0.0).tiers == ("people",)
    none = route(RoutingRules(only="models"), DeskLoad(present=3), 0.0)
    assert (none.tiers, none.reason) == ((), "no_model")


def test_a_draw_can_be_checked_afterwards():
    assert draw(1, "x") == draw(1, "x") != draw(2, "x")
    assert 0 <= draw(1, "x") < 1


def test_turn_order_urgent_then_least_served_then_priority():
    pressing = Waits("p", "busy", deadline_at=NOW + timedelta(seconds=90))
    hopeless = Waits("x", "starved", deadline_at=NOW + timedelta(seconds=30))
    starved, low, high = Waits("s", "starved"), Waits("l", "busy"), Waits("h", "busy", priority=1)
    aged = Waits("o", "busy", created_at=NOW - timedelta(seconds=90))
    turn = in_turn([hopeless, low, high, aged, starved, pressing], NOW, Counter(busy=2))
    assert [one.pk for one in turn] == ["p", "s", "o", "h", "l", "x"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Into which ticket should I merge?", "into which ticket should I merge", True),
        ("Into which ticket should I merge it?", "Into which ticket should I merge?", True),
        ("Into which ticket should I merge?", "May I refund order 7?", False),
        ("?", "?", True),
        ("?", "!", False),
    ],
)
def test_questions_are_alike_by_their_words(one, other, same):
    assert alike(one, other) is same


def test_a_plan_ends():
    assert next_tier(["llm", "people"], "llm") == "people"
    assert next_tier(["llm", "people"], "people") is None
    assert next_tier(["people"], "llm") == "people"


def test_very_long_questions_are_compared_by_both_their_ends():
    boilerplate = " ".join(f"rule{n}" for n in range(5_000))
    asks = [f"{head} {boilerplate} {tail}" for head, tail in (("alpha", "omega"), ("alpha", "psi"), ("beta", "omega"))]
    assert all(word in words_of(asks[0]) for word in ("alpha", "omega"))
    assert len(words_of(asks[0])) < 1_000
    assert len({words_of(one) for one in asks}) == 3
