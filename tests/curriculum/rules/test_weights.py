"""Weights of tasks by each method, and the draw that snapshot and seed decide."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from curriculum.rules.weights import FLOOR, METHODS, Rates, draw


def test_weight_by_uncertainty_is_the_deviation_of_a_beta():
    # Beta(3, 7): 21 / (100 * 11) is its variance
    assert METHODS["uncertainty"](Rates(solo=8, solo_solved=2)) == pytest.approx(4 * math.sqrt(21 / 1100))
    assert METHODS["uncertainty"](Rates()) > METHODS["uncertainty"](Rates(solo=8, solo_solved=2))


def test_weight_by_regret_is_what_help_adds():
    rates = Rates(solo=8, solo_solved=1, helped=8, helped_solved=7)
    assert METHODS["regret"](rates) == pytest.approx(8 / 10 - 2 / 10)
    assert METHODS["regret"](Rates(solo=8, solo_solved=8)) == FLOOR


def test_draw_is_the_same_for_snapshot_and_seed():
    weights = [(f"shop/{number}", 1.0 + number % 3) for number in range(50)]
    first = draw(weights, 10, snapshot="one", seed=7)
    assert first == draw(list(reversed(weights)), 10, snapshot="one", seed=7) and len(set(first)) == 10
    assert first != draw(weights, 10, snapshot="one", seed=8) != draw(weights, 10, snapshot="two", seed=8)


def test_draw_follows_weights_and_leaves_out_zero():
    weights = [("heavy", 3.0), ("light", 1.0), ("never", 0.0)]
    first = Counter(draw(weights, 1, snapshot="s", seed=seed)[0] for seed in range(4000))
    assert set(first) == {"heavy", "light"} and first["heavy"] / 4000 == pytest.approx(0.75, abs=0.03)
