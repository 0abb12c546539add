"""What a picked change is worth: not more than it is, with an interval that holds although it was picked."""

from __future__ import annotations

import random

import pytest

from bench.planted.beside import PlantedCase, changes_of, worth_covers
from runs.statistics import worth
from runs.statistics.forked import ForkArm


@pytest.mark.parametrize(("tries", "nothing"), [(4, 0.6), (8, 0.6), (8, 0.0)])
def test_interval_of_a_picked_fork_covers(tries, nothing):
    """The interval of the plain difference held the truth in 38, 68 and 73% of pairs."""
    case = PlantedCase("picked", "", worth_covers(tries, nothing), covers=True)
    covered, of = case.counted(60)
    assert of >= 25 and case.holds(covered, of)


@pytest.mark.parametrize(("tries", "nothing"), [(4, 0.6), (8, 0.6), (16, 0.6), (8, 0.0)])
def test_worth_and_share_of_wrong_pairs_are_those_of_the_truth(tries, nothing):
    """The plain differences were 1.00 for .21, .67 for .25, .46 for .28 and .66 for .25."""
    said, truths, wrong, missed, pairs = 0.0, 0.0, 0.0, 0, 0
    for number in range(30):
        seen = changes_of(random.Random(number), tries, nothing)
        prior = worth.learned([(one.treated, one.control) for _, one in seen])
        for effect, one in seen:
            if one.verdict:
                change, up = worth.worth_of(one.treated, one.control, prior), 1 if one.verdict == "better" else -1
                said, truths = said + up * change.mean, truths + up * effect
                wrong, missed, pairs = wrong + change.wrong, missed + (up * effect <= 0), pairs + 1
    assert pairs > 20 and said / pairs == pytest.approx(truths / pairs, abs=0.08)
    # said of a world in which nothing is exactly nothing, too much is said to be wrong
    assert missed / pairs - 0.12 <= wrong / pairs <= missed / pairs + 0.3


def test_one_fork_is_read_by_the_prior_alone():
    arms = ForkArm(8, 8, 8), ForkArm(8, 8, 3)
    change = worth.worth_of(*arms, worth.learned([arms]))
    assert 0.1 < change.mean < 0.45 and change.low <= 0.1 and change.high < 0.8 and 0 < change.wrong < 0.35
    back = worth.worth_of(arms[1], arms[0], worth.learned([arms[::-1]]))
    assert back.mean == pytest.approx(-change.mean) and back.wrong == pytest.approx(change.wrong)
    assert (back.low, back.high) == (pytest.approx(-change.high, abs=1e-4), pytest.approx(-change.low, abs=1e-4))


def test_interval_that_ends_at_nothing_holds_it():
    """Four of four against none, of which 30% do nothing: the lower end was a millionth, so 15% missed the truth."""
    change = worth.worth_of(ForkArm(4, 4, 4), ForkArm(4, 4, 0), worth.ChangePrior(0.3, 0.048))
    assert change.low == 0 and 0 < change.mean < 0.3 < change.high
    back = worth.worth_of(ForkArm(4, 4, 0), ForkArm(4, 4, 4), worth.ChangePrior(0.3, 0.048))
    assert back.high == 0


def test_share_of_wrong_pairs_has_a_wide_interval():
    arms = ForkArm(16, 16, 14), ForkArm(16, 16, 4)
    mean, low, high = worth.share_wrong([(0.02, *arms)] * 50)
    assert mean == pytest.approx(0.02) and low == 0.0 and 0.02 < high < 0.2
    weak = ForkArm(4, 4, 4), ForkArm(4, 4, 0)
    assert worth.share_wrong([(0.2, *weak)] * 50)[2] > 0.4
    assert worth._count_at(0.975, [0.5] * 4) == 4 and worth._count_at(0.5, [0.5] * 4) == 2
