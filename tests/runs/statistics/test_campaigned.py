"""What a campaign may say of its roots: paired, exact, and false in at most 5% of campaigns without an effect."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.planted.beside import PlantedCase, campaign_covers
from runs.show.timing import SHARES
from runs.statistics import campaigned
from runs.statistics.campaigned import ALL, RootPair
from runs.statistics.forked import ForkArm

CAMPAIGNS, ROOTS, TRIES = 200, 24, 4


def planted(chance, effects, roots=ROOTS, kinds=4, lost=0.0):
    """Draw the branches of roots that differ in how hard they are; the change adds its effect at each time."""

    def arm(rate):
        known = sum(chance.random() >= lost for _ in range(TRIES))
        return ForkArm(TRIES, known, sum(chance.random() < rate for _ in range(known)))

    pairs = []
    for root in range(roots):
        rate = chance.choice([0.0, 0.1, 0.3, 0.5, 0.8])
        for at, effect in zip(SHARES, effects, strict=True):
            pairs.append(RootPair(f"{root}", f"k{root % kinds}", at, arm(min(1.0, rate + effect)), arm(rate)))
    return pairs


def says_anything(pairs):
    return any(one.verdict for one in campaigned.finding(pairs).cells)


@pytest.mark.parametrize("kinds", [1, 4])
def test_useless_advice_is_called_useful_at_no_point(kinds):
    """At no point of the curve, of all tasks and of any kind, in at least 95% of 200 campaigns."""
    chance = random.Random(38)
    wrong = sum(says_anything(planted(chance, [0.0] * 5, kinds=kinds)) for _ in range(CAMPAIGNS))
    assert wrong <= 0.05 * CAMPAIGNS


def test_useful_advice_is_found_until_it_comes_too_late():
    chance, found = random.Random(38), 0
    for _ in range(40):
        cells = campaigned.finding(planted(chance, [0.5, 0.5, 0.5, 0.0, 0.0], kinds=1)).of(ALL)
        found += [one.verdict for one in cells] == ["better"] * 3 + [""] * 2
    assert found >= 36


def pairs_of(counts, tries=4, at=0, lost=0):
    return [
        RootPair(f"{place}", "k", at, ForkArm(tries, tries - lost, one), ForkArm(tries, tries - lost, other))
        for place, (one, other) in enumerate(counts)
    ]


def test_least_roots_are_those_that_can_show_something():
    for roots in range(2, 12):
        (cell,) = campaigned.finding(pairs_of([(4, 0)] * roots)).cells
        assert bool(cell.verdict) == (roots >= campaigned.least_roots(1)) == (roots >= 6)
    few = campaigned.finding(pairs_of([(4, 0)] * 5)).sentences[0]
    assert few.endswith("Fewer than 6 episodes can show nothing.")
    assert (campaigned.least_roots(5), campaigned.least_roots(5, 4), campaigned.least_roots(1, 1, 0.4)) == (8, 9, 7)


def test_quoted_interval_covers_though_the_place_was_picked():
    """The latest place at which help is shown was picked because it is large: a plain 95% covered 88.6% here."""
    case = PlantedCase("picked", "", campaign_covers(0.1, 60, 2), covers=True)
    covered, shown = case.counted(60)
    assert shown > 20 and case.holds(covered, shown)


def test_campaigns_at_the_same_steps_share_the_error():
    pairs = pairs_of([(4, 0)] * 6)
    assert campaigned.finding(pairs).cells[0].verdict == "better"
    assert campaigned.finding(pairs, share=0.4).cells[0].verdict == ""


def test_lost_branches_and_scripts_show_nothing():
    lost = pairs_of([(2, 0)] * 12, lost=2)
    cell = campaigned.finding(lost).cells[0]
    assert (cell.difference, cell.lost, cell.verdict) == (1.0, 48, "")
    assert campaigned.finding(pairs_of([(3, 0)] * 12, lost=1)).cells[0].verdict == "better", "it holds whichever way"
    found = campaigned.finding(pairs_of([(4, 0)] * 12), fixed=True)
    assert not found.cells[0].verdict and "one observation" in found.sentences[0]


def test_interval_holds_whichever_way_lost_branches_had_ended():
    """A campaign without an effect, whose failed treated branches were erased: its interval left out 0."""
    fair = [RootPair(f"{n}", "k", 0, ForkArm(4, 4, 2), ForkArm(4, 4, 1 + 2 * (n % 2))) for n in range(12)]
    erased = [replace(pair, treated=ForkArm(4, 2, 2)) for pair in fair]
    (cell,) = campaigned.finding(erased).cells
    (whole,) = campaigned.finding(fair).cells
    for before, now in ((whole.interval, cell.interval), (whole.together, cell.together)):
        assert now[0] <= before[0] and before[1] <= now[1]
    assert (cell.difference, cell.verdict) == (0.5, "")
    assert cell.words.endswith("24 branches are without an outcome. The interval holds whichever way they had ended.")


def test_a_place_without_outcomes_keeps_its_part_of_the_error():
    one, other = pairs_of([(4, 0)] * 6), pairs_of([(0, 0)] * 6, at=10, lost=4)
    cells = campaigned.finding([*one, *other]).cells
    assert [cell.verdict for cell in cells] == ["", ""] and cells[0].p == pytest.approx(2 * 2**-5)
    assert (cells[1].roots, cells[1].unknown, cells[1].difference) == (0, 6, None)
    assert cells[1].words == "no episode has an outcome in both arms."


def test_the_sentence_names_the_latest_time_and_claims_no_more():
    pairs = [
        *pairs_of([(4, 0)] * 12),
        *(one for at in (10, 25) for one in pairs_of([(1, 1)] * 12, at=at)),
    ]
    assert campaigned.finding(pairs).sentences == [
        "Shown to help at 0% of an episode on these 12 episodes. At 0%: +100 points [+68, +100] (95% for all 3 times "
        "together), p = .001 (sign flips, Holm). Not shown at 10 and 25% of an episode, which does not prove that it "
        "is too late."
    ]


counts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=14)


@given(counts, st.randoms(use_true_random=False))
def test_arms_that_are_swapped_swap_the_verdict(counts, chance):
    forward, back = (campaigned.finding(pairs_of(rows)).cells[0] for rows in (counts, [(b, a) for a, b in counts]))
    assert back.p == pytest.approx(forward.p) and back.difference == pytest.approx(-forward.difference)
    assert {"better": "worse", "worse": "better", "": ""}[forward.verdict] == back.verdict
    shuffled = list(counts)
    chance.shuffle(shuffled)
    assert campaigned.finding(pairs_of(shuffled)).cells[0].p == pytest.approx(forward.p), (
        "the order of roots is nothing"
    )


@given(counts, st.integers(1, 4))
def test_a_shown_difference_survives_every_lost_branch(counts, places):
    """Whatever a campaign calls better stays a difference in that direction, and its interval leaves out 0."""
    pairs = [one for at in range(places) for one in pairs_of(counts, at=at)]
    for cell in campaigned.finding(pairs).cells:
        if cell.verdict:
            assert cell.p < campaigned.ERROR and cell.interval[0] * cell.interval[1] > 0
            assert (cell.difference > 0) == (cell.verdict == "better")
            assert cell.roots >= campaigned.least_roots(places)
