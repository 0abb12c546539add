"""What a fork may say of its branches: exact, once, and only what holds for the lost ones, too."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from itertools import product
from math import comb

import pytest

from runs.statistics import forked, rereading
from runs.statistics.forked import ForkArm
from runs.statistics.paired import hull, newcombe
from runs.statistics.sentences import span_text
from runs.statistics.worth import ChangePrior

CHANGED, KEPT = forked.labels({"call": {}})


def finding(won, of, other, others, **more):
    """Return what arms show that have ended."""
    return forked.finding(ForkArm(of, of, won), ForkArm(others, others, other), CHANGED, KEPT, **more)


@pytest.mark.parametrize(
    ("counts", "p"), [((4, 4, 0, 4), 0.0286), ((8, 8, 3, 8), 0.0256), ((8, 8, 4, 8), 0.0769), ((1, 1, 0, 1), 1.0)]
)
def test_fisher_is_exact(counts, p):
    assert round(forked.fisher(*counts), 4) == p
    won, of, other, others = counts
    assert forked.fisher(other, others, won, of) == forked.fisher(won, of, other, others)


def test_fisher_is_the_sum_of_tables_that_are_no_likelier():
    for of, others in product(range(1, 6), repeat=2):
        for won, other in product(range(of + 1), range(others + 1)):
            total = won + other
            chance = {
                one: comb(of, one) * comb(others, total - one) for one in range(of + 1) if 0 <= total - one <= others
            }
            p = sum(way for way in chance.values() if way <= chance[won]) / comb(of + others, total)
            assert forked.fisher(won, of, other, others) == pytest.approx(p)


@pytest.mark.parametrize(
    ("counts", "p"), [((4, 4, 0, 4), 0.0078), ((8, 8, 3, 8), 0.0081), ((8, 8, 4, 8), 0.0279), ((1, 1, 0, 1), 1.0)]
)
def test_boschloo_is_exact(counts, p):
    """By hand: of 4 and 4 only 4 to 0 and 0 to 4 are as rare, with 2 * .5 ** 8 = .0078 at most."""
    assert round(forked.boschloo(*counts), 4) == p
    won, of, other, others = counts
    assert forked.boschloo(other, others, won, of) == pytest.approx(forked.boschloo(won, of, other, others))


def test_boschloo_errs_in_5_percent_and_finds_more_than_fisher():
    """Counted exactly, at every rate: 16 a side, and 18 and 27% of changes by 25 points are found."""
    size, found = 16, dict.fromkeys(("fisher", "boschloo"), 0.0)

    def chance(wins, rate):
        return comb(size, wins) * rate**wins * (1 - rate) ** (size - wins)

    for name in found:
        test = getattr(forked, name)
        shown = [(a, b) for a, b in product(range(size + 1), repeat=2) if test(a, size, b, size) < 0.05]
        for rate in (0.05, 0.2, 0.35, 0.5, 0.65, 0.9):
            assert sum(chance(a, rate) * chance(b, rate) for a, b in shown) <= 0.05
        found[name] = sum(chance(a, 0.55) * chance(b, 0.3) for a, b in shown)
    assert found["boschloo"] > found["fisher"] + 0.05


def test_one_flip_proves_nothing_and_the_sentence_says_so():
    found = finding(1, 1, 0, 1)
    assert (found.verdict, found.p) == ("", 1.0)
    assert found.sentence.startswith("Changed call: 1 of 1 complete; recorded call: 0 of 1. +100 points")
    assert found.sentence.endswith("p = 1 (Boschloo): one flip proves nothing.")


def test_a_difference_is_shown_in_its_direction():
    better, worse = finding(8, 8, 3, 8), finding(3, 8, 8, 8)
    assert (better.verdict, worse.verdict) == ("better", "worse")
    assert better.sentence == (
        "Changed call: 8 of 8 complete; recorded call: 3 of 8. +62 points [+17, +86] (Newcombe, 95%), "
        "p = .008 (Boschloo): better."
    )
    assert finding(8, 8, 5, 8).sentence.endswith(": not shown.")
    assert better.interval[0] > 0 > worse.interval[1]


def test_nothing_is_said_before_all_branches_have_ended():
    found = forked.finding(ForkArm(4, 4, 4), ForkArm(4, 3, 0, 1), CHANGED, KEPT)
    assert found.sentence == "7 of 8 branches have ended. What they show is said once, at the end."
    assert found.p is found.interval is found.difference is None and not found.verdict


def test_lost_branches_must_not_matter():
    """8 of 8 against 1 of 6 is shown, and two lost ones could have been complete."""
    shown = forked.finding(ForkArm(8, 8, 8), ForkArm(8, 6, 1), CHANGED, KEPT)
    assert shown.verdict == "better" and "2 branches are without an outcome" in shown.sentence
    assert shown.interval[0] > 0
    hidden = forked.finding(ForkArm(8, 8, 8), ForkArm(8, 6, 3), CHANGED, KEPT)
    assert 0.05 < hidden.p < 0.1 and hidden.verdict == "", "the p had they ended against it"
    none = forked.finding(ForkArm(2, 0, 0), ForkArm(2, 2, 2), CHANGED, KEPT)
    assert none.sentence.endswith("An arm has no outcome, so nothing can be compared.")


def test_interval_holds_whichever_way_lost_branches_had_ended():
    """Who erases failures of an arm had seen them: the interval of the others alone leaves out the truth."""
    lost = forked.finding(ForkArm(8, 5, 5), ForkArm(8, 8, 4), CHANGED, KEPT)
    for won in range(5, 9):
        low, high = newcombe(won, 8, 4, 8)
        assert lost.interval[0] <= low and high <= lost.interval[1]
    assert lost.sentence.endswith("3 branches are without an outcome. The interval holds whichever way they had ended.")
    assert len(lost.ways) == 2 and finding(8, 8, 4, 8).ways == ()


def test_worth_is_the_smallest_of_all_ways_to_count():
    shown = forked.finding(ForkArm(8, 6, 6), ForkArm(8, 8, 0), CHANGED, KEPT)
    assert shown.verdict == "better"
    plain, read = (rereading.worth(one, ChangePrior(), ChangePrior()) for one in (replace(shown, ways=()), shown))
    assert read.mean < plain.mean and read.low < plain.low and read.high >= plain.high and read.wrong > plain.wrong


def test_branches_that_went_on_alike_count_once():
    all_of, once = finding(8, 8, 1, 8), finding(3, 3, 1, 4)
    read = forked.with_alike(all_of, once)
    assert (all_of.verdict, read.verdict, read.interval) == ("better", "", hull(all_of.interval, once.interval))
    assert ": not shown." in read.sentence and span_text(read.interval) in read.sentence
    assert read.sentence.endswith(
        "9 branches went on exactly like another one of the same arm. Counted once: 3 of 3 against 1 of 4; the "
        "interval holds both."
    )
    still = forked.with_alike(finding(16, 16, 1, 16), finding(8, 8, 1, 8))
    assert still.verdict == "better" and still.ways


def test_forks_of_one_tree_share_their_error():
    assert finding(8, 8, 4, 8, forks=2, share=0.4).verdict == ""
    shared = finding(8, 8, 0, 8, forks=2, share=0.4)
    assert shared.verdict == "better"
    assert "2 forks of this tree share the error of 5%, of which this one has 2%." in shared.sentence


def at(minute):
    return datetime(2026, 11, 29, 12, minute)


def test_forks_asked_after_a_look_have_half_of_what_is_left():
    live = [(at(0), None), (at(1), None)]
    assert forked.shares(live) == [0.4, 0.4] and forked.shares(live[:1]) == [0.8]
    # the first was read at minute 5: two are asked then, and one more after one of these was read
    later = [(at(0), at(5)), (at(5), at(9)), (at(6), None), (at(9), None)]
    assert forked.shares(later) == [0.8, pytest.approx(0.05), pytest.approx(0.05), pytest.approx(0.05)]
    many = forked.shares([(at(minute), at(minute)) for minute in range(30)])
    assert sum(many) <= 1 and many == sorted(many, reverse=True)
    # what was read keeps its share, whatever is asked afterward
    assert forked.shares(later)[:3] == forked.shares(later[:3])


def test_a_script_is_one_observation():
    found = finding(8, 8, 0, 8, fixed=True)
    assert not found.verdict and found.sentence.endswith("an arm is one observation: nothing is shown.")


def test_least_shown_is_the_edge():
    assert [forked.least_shown(size) for size in (1, 2, 3, 4, 8)] == [None, None, 0, 0, 4]
    for size in (4, 8, 16):
        least = forked.least_shown(size)
        shared = forked.least_shown(size, 0.8 / 3)
        assert shared is None or finding(size, size, shared, size, share=0.8 / 3).verdict and shared <= least
        assert finding(size, size, least, size).verdict and not finding(size, size, least + 1, size).verdict


@pytest.mark.parametrize("changes", [1, 3])
def test_a_change_without_effect_is_called_better_in_5_percent(changes):
    """Planted truth: 200 what-ifs at four rates, also if the best of three changes is picked."""
    chance = random.Random(38)
    for rate in (0.1, 0.3, 0.5, 0.8):
        shown = 0
        for _ in range(200):
            control = sum(chance.random() < rate for _ in range(8))
            tried = [sum(chance.random() < rate for _ in range(8)) for _ in range(changes)]
            shown += any(finding(won, 8, control, 8, share=0.8 / changes).verdict for won in tried)
        assert shown <= 10


def test_a_true_effect_is_found():
    chance = random.Random(38)
    found = [
        finding(sum(chance.random() < 0.95 for _ in range(8)), 8, sum(chance.random() < 0.1 for _ in range(8)), 8)
        for _ in range(200)
    ]
    assert sum(one.verdict == "better" for one in found) >= 180
