"""A gate from rows: what it needs, how it is judged, and what it finds where the need for help is planted."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import pytest

from awmclient.asking.rules import FEATURES, AskGate, Side
from runs.errors import NotFitted
from runs.statistics import gating
from runs.statistics.gating import DrawnDecision, Value, fit, lacking


def rows(number, needs, seed=1, chance=0.5):
    """One decision for each episode; help works where `errors` is high, and `doubt` only looks like it."""
    dice, found = random.Random(seed), []
    for place in range(number):
        stuck, offered = dice.random() < 0.5, dice.random() < chance
        row = [0.0] * len(FEATURES)
        row[1], row[4] = float(stuck), dice.random()
        complete = dice.random() < (0.5 if not needs else 0.9 if stuck and offered else 0.2 if stuck else 0.6)
        found.append(DrawnDecision(f"e{place}", f"s{place % 10}", tuple(row), offered, chance, complete, offered))
    return found


def test_planted_need_is_found_and_claimed():
    found = fit(rows(600, needs=True), card={"run": "r"})
    assert found.claims and found.gate.offered.weights["errors"] > 2
    assert 0.4 < found.rate < 0.6 and 0.25 < found.gain.mean < 0.45
    assert found.gate.offers((0, 1, 0, 0, 0, 0, 0, 0)) and not found.gate.offers((0, 0, 0, 0, 1, 0, 0, 0))
    card = found.gate.card
    assert (card["run"], card["episodes"], len(card["scenarios"]), card["chances"]) == ("r", 600, 10, [0.5])
    assert card["gain"]["interval"][0] > 0 and card["offered"] == card["asked"]


def test_without_a_need_nothing_is_claimed():
    assert not any(fit(rows(300, needs=False, seed=seed)).claims for seed in range(5))


def test_score_is_the_doubly_robust_one():
    gate = AskGate(alone=Side(intercept=0, weights={}), offered=Side(intercept=1, weights={}), threshold=0)
    none = (0.0,) * len(FEATURES)
    with_offer, without = 0.7310586, 0.5
    for offered, complete in ((True, True), (True, False), (False, True), (False, False)):
        one = DrawnDecision("e", "s", none, offered, 0.2, complete)
        by_hand = with_offer - without
        by_hand += (complete - with_offer) / 0.2 if offered else -(complete - without) / 0.8
        assert gating._score(gate, one) == pytest.approx(by_hand, abs=1e-6)


def test_scenario_is_never_fitted_on_and_judged_by():
    for inside, outside in gating._folds(rows(100, needs=True)):
        assert outside and not {one.scenario for one in inside} & {one.scenario for one in outside}
    assert sum(len(outside) for _, outside in gating._folds(rows(100, needs=True))) == 100


def test_scenarios_of_one_answer_are_one_unit_of_a_gate():
    """Three of 18 scenarios share an answer: they are fitted on together, and are one value of the jackknife."""
    joined = {f"s{place}": "s0" for place in range(3)}
    some = [replace(one, scenario=f"s{place % 18}") for place, one in enumerate(rows(360, needs=True))]
    some = [replace(one, joined=joined.get(one.scenario, "")) for one in some]
    for inside, outside in gating._folds(some):
        assert not {one.unit for one in inside} & {one.unit for one in outside}
    assert len(fit(some).gate.card["scenarios"]) == 18
    # the joined ones differ from the others alike, which scenarios alone take for chance
    scores = [(one, 0.5 if one.joined else 0.0) for one in some]
    alone = gating._value([(replace(one, joined=""), score) for one, score in scores]).interval
    together = gating._value(scores).interval
    assert together[1] - together[0] > 1.3 * (alone[1] - alone[0])
    few = [replace(one, joined="s0") for one in some if one.scenario in joined]
    assert "scenario that shares no answer" in lacking(few)


def test_what_a_fit_lacks_is_said():
    few = [one for one in rows(59, needs=True, seed=3) if one.scenario < "s5"]
    said = lacking(few)
    assert "counted episodes of 60 needed" in said and "5 scenarios of 6 needed" in said
    assert "decisions that offered of 30 needed" in said
    with pytest.raises(NotFitted, match="Too little was drawn"):
        fit(few)
    assert lacking(rows(120, needs=True)) == ""


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(NotFitted, match=r"requirements-asking\.lock"):
        fit(rows(120, needs=True))


def test_value_without_an_interval_claims_nothing():
    assert not Value(0.5, None).is_above_zero and Value(0.5, (0.1, 0.9)).is_above_zero
