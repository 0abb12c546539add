"""What a picked change is worth: not more than it is, with an interval that holds although it was picked."""

from __future__ import annotations

import random

import pytest

from bench.planted import decisive
from bench.planted.beside import PlantedCase, changes_of, worth_covers
from people.rates import exact
from runs.statistics import worth, worth_before
from runs.statistics.forked import ForkArm


@pytest.mark.parametrize(("tries", "nothing"), [(4, 0.6), (8, 0.6), (8, 0.0)])
def test_interval_of_a_picked_fork_covers(tries, nothing):
    """The interval of the plain difference held the truth in 38, 68 and 73% of pairs."""
    case = PlantedCase("picked", "", worth_covers(tries, nothing), covers=True)
    covered, of = case.counted(60)
    assert of >= 25 and case.holds(covered, of)


@pytest.mark.parametrize(
    ("tries", "forks", "nothing", "effect"),
    [(8, 1, 0.0, 0.95), (4, 20, 0.6, 0.95), (4, 1, 0.0, 0.8), (16, 5, 0.6, 0.8), (8, 5, 0.0, 0.0), (8, 20, 0.95, 1.0)],
)
def test_interval_covers_decisive_changes(tries, forks, nothing, effect):
    """A prior that held changes below 50 points left out what eight of eight against none showed: 0, 0 and 50%."""
    case = PlantedCase("picked", "", decisive.worth_covers(tries, forks, nothing, effect), covers=True)
    covered, of = case.counted(60 if forks > 5 or effect else 400)
    assert of >= 10 and case.holds(covered, of)


@pytest.mark.parametrize(("rollouts", "effect"), [(8, 0.95), (8, 0.5), (16, 0.8), (4, 1.0)])
def test_interval_of_siblings_covers_decisive_changes(rollouts, effect):
    """It held .95 in none of the pairs, and said .26."""
    case = PlantedCase("siblings", "", decisive.siblings_cover(rollouts, effect), covers=True)
    covered, of = case.counted(200)
    assert of >= 40 and case.holds(covered, of)


@pytest.mark.parametrize("nothing", [0.8, 1.0])
def test_share_of_wrong_pairs_covers_where_nothing_works(nothing):
    """Where no change does anything, its upper end held all pairs in 71 to 79%."""
    case = PlantedCase("share", "", decisive.share_covers(8, 150, nothing, 0.25), covers=True)
    covered, of = case.counted(40)
    assert of >= 30 and case.holds(covered, of)


def test_share_of_wrong_pairs_covers_where_branches_are_alike():
    """The four shares were learned from copies, too: the interval held the truth in 70%."""
    case = PlantedCase("share", "", decisive.alike_covers(16, 300, 0.98, 0.4), covers=True)
    covered, of = case.counted(40)
    assert of >= 30 and case.holds(covered, of)


@pytest.mark.parametrize(("tries", "nothing", "near"), [(4, 0.6, 0.4), (8, 0.6, 0.13), (16, 0.6, 0.09), (8, 0.0, 0.16)])
def test_worth_and_share_of_wrong_pairs_are_those_of_the_truth(tries, nothing, near):
    """The plain differences were 1.00 for .21, .67 for .25, .46 for .28 and .66 for .25. Four branches an arm cannot
    tell a decisive change from luck."""
    said, truths, wrong, missed, pairs = 0.0, 0.0, 0.0, 0, 0
    for number in range(30):
        seen = changes_of(random.Random(number), tries, nothing)
        prior = decisive.prior_of(seen)
        for effect, one in seen:
            if one.verdict:
                change, up = worth.worth_of(one.treated, one.control, prior), 1 if one.verdict == "better" else -1
                said, truths = said + up * change.mean, truths + up * effect
                wrong, missed, pairs = wrong + change.wrong, missed + (up * effect <= 0), pairs + 1
    assert pairs > 20 and said / pairs == pytest.approx(truths / pairs, abs=near)
    # said of a world in which nothing is exactly nothing, too much is said to be wrong
    assert missed / pairs - 0.12 <= wrong / pairs <= missed / pairs + 0.3


def test_worth_of_a_decisive_fork_is_not_halved():
    """Eight of eight against none, which one fork shows, was worth .69 and sixteen of sixteen .85."""
    for tries, least in ((8, 0.72), (16, 0.9)):
        arms = ForkArm(tries, tries, tries), ForkArm(tries, tries, 0)
        change = worth.worth_of(*arms, worth.learned([arms]))
        assert least < change.mean < 1 and change.high == 1 and change.wrong < 0.02
        # what does nothing in all others is worth less
        still = [(ForkArm(tries, tries, number % 8), ForkArm(tries, tries, number % 8)) for number in range(150)]
        assert worth.worth_of(*arms, worth.learned([arms, *still])).mean <= change.mean + 0.01


def test_worth_is_never_more_than_the_branches_show():
    change = worth.worth_of(ForkArm(4, 4, 1), ForkArm(200, 200, 0), worth.ChangePrior((0.0, 0.0, 0.0, 1.0)))
    assert change.mean == 0.25 and change.low < 0.25 < change.high
    assert worth.worth_alone(ForkArm(8, 8, 4), ForkArm(8, 8, 4)).mean == 0


def test_exact_interval_of_a_rate_has_known_values():
    assert exact(0, 8) == (0.0, pytest.approx(0.36942, abs=1e-5)) and exact(8, 8)[1] == 1.0
    assert exact(3, 10) == (pytest.approx(0.06674, abs=1e-5), pytest.approx(0.65245, abs=1e-5))


def test_one_fork_is_read_by_the_prior_alone():
    arms = ForkArm(8, 8, 8), ForkArm(8, 8, 3)
    change = worth.worth_of(*arms, worth.learned([arms]))
    assert 0.1 < change.mean < 0.45 and change.low <= 0 and change.high < 0.95 and 0 < change.wrong < 0.35
    back = worth.worth_of(arms[1], arms[0], worth.learned([arms[::-1]]))
    assert back.mean == pytest.approx(-change.mean) and back.wrong == pytest.approx(change.wrong)
    assert (back.low, back.high) == (pytest.approx(-change.high, abs=1e-4), pytest.approx(-change.low, abs=1e-4))


def test_interval_holds_what_is_not_ruled_out():
    """Four of four against none: the lower end was a millionth, so 15% missed the truth; the counts hold 1."""
    change = worth.worth_alone(ForkArm(4, 4, 4), ForkArm(4, 4, 0))
    assert change.low < 0 < change.mean < 0.5 and change.high == 1
    back = worth.worth_alone(ForkArm(4, 4, 0), ForkArm(4, 4, 4))
    assert (back.low, back.high) == (-1, pytest.approx(-change.low))


def test_share_of_wrong_pairs_has_a_wide_interval():
    mean, low, high = worth.share_wrong([(0.02, 0.0, 0.1)] * 50)
    assert mean == pytest.approx(0.02) and low == 0.0 and 0.1 < high < 0.25
    assert worth.share_wrong([(0.2, 0.1, 1.0)] * 50)[2] == 1
    assert worth.count_at(0.975, [0.5] * 4) == 4 and worth.count_at(0.5, [0.5] * 4) == 2


def test_share_of_wrong_pairs_of_before_has_known_values():
    pairs = [(16 - number % 3, 16, 4 + number % 4, 16) for number in range(50)]
    assert worth_before.share_wrong([0.02] * 50, [pairs, pairs]) == (pytest.approx(0.02), 0.0, 0.16)
