"""Ways of training compared over seeds: the exact test, the fixed order, what seeds could have shown, components."""

from __future__ import annotations

import random

import pytest

from examples.strategies.seeds import components, contrast, in_order, reached, smallest


def of(*differences):
    return contrast("adaptive", "none", [0.5 + d for d in differences], [0.5] * len(differences))


def test_six_seeds_that_agree_show_a_difference():
    found = of(0.05, 0.06, 0.07, 0.05, 0.06, 0.07)
    assert found.p == pytest.approx(2 / 64) and found.verdict == "better"
    assert found.sentence.startswith("Better over these 6 seeds: +6 points [+5, +7], 6 up, 0 down, p .031 (exact")
    assert of(*(-d for d in found.differences)).verdict == "worse"


def test_one_seed_of_six_against_says_what_could_be_shown():
    found = of(0.05, 0.06, 0.07, 0.05, 0.06, -0.01)
    assert found.verdict == "none" and found.p == pytest.approx(4 / 64)
    # all of six signs must agree: with a chance of 0.8 they do from 1.79 standard deviations on
    spread = 0.0287518
    assert found.seen == pytest.approx(1.79 * spread, rel=0.06)
    assert "No difference shown" in found.sentence and "6 points or more in four of five" in found.sentence


def test_five_seeds_are_too_few_for_any_result():
    found = of(0.2, 0.2, 0.2, 0.2, 0.2)
    assert found.verdict == "few" and found.interval is None
    assert found.sentence == "5 seeds are too few for a result: +20 points."
    assert smallest(0.1, 5) is None


def test_seeds_without_any_difference_show_none():
    found = of(0, 0, 0, 0, 0, 0)
    assert found.verdict == "none" and found.p == 1 and found.interval == (0, 0)


def test_more_seeds_could_have_shown_less():
    assert smallest(0.1, 6) > smallest(0.1, 8) > smallest(0.1, 12)


def test_contrasts_behind_one_not_shown_are_not_tested():
    shown, not_shown = of(*[0.05, 0.06] * 3), of(*[0.05, -0.06] * 3)
    assert [one.tested for one in in_order([shown, not_shown, shown])] == [True, True, False]
    assert [one.verdict for one in in_order([shown, not_shown, shown])] == ["better", "none", "none"]
    assert "Not tested" in in_order([not_shown, shown])[1].sentence


def test_fixed_order_errs_as_often_as_one_test():
    """Three contrasts without an effect: any is shown no more often than the level."""
    chance = random.Random(5)
    wrong = 0
    for _ in range(400):
        drawn = [of(*(chance.gauss(0, 0.1) for _ in range(6))) for _ in range(3)]
        wrong += any(one.is_shown for one in in_order(drawn))
    assert wrong / 400 < 0.045 + 3 * (0.045 * 0.955 / 400) ** 0.5


def test_components_find_what_was_put_in():
    chance = random.Random(3)
    seeds, tasks = [chance.gauss(0, 0.3) for _ in range(40)], [chance.gauss(0, 0.2) for _ in range(200)]
    found = components([[0.1 + a + b + chance.gauss(0, 0.5) for b in tasks] for a in seeds])
    assert found is not None
    assert found.seeds == pytest.approx(0.09, rel=0.4) and found.tasks == pytest.approx(0.04, rel=0.3)
    assert found.rest == pytest.approx(0.25, rel=0.05)
    assert found.share(found.seeds) + found.share(found.tasks) + found.share(found.rest) == pytest.approx(1)
    assert components([[1.0, 2.0]]) is None


def test_conditions_are_counted_together_and_alone():
    found = reached([{"asks": True, "solves": True}, {"asks": True, "solves": False}])
    assert (found.together, found.seeds, dict(found.alone)) == (1, 2, {"asks": 2, "solves": 1})
