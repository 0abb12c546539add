"""A run whose outcomes were corrected says what both readings show, and never more."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.planted import corrected
from runs.statistics import campaigned, forked, rereading
from runs.statistics.campaigned import RootPair
from runs.statistics.compare import contrasts
from runs.statistics.deciding import SHOWN, statements
from runs.statistics.forked import ForkArm, finding
from runs.statistics.offers import effects
from runs.statistics.sentences import WIDENED
from tests.runs.statistics.test_compare import ARMS, many, tries
from tests.runs.statistics.test_offers import DRAWN, drawn

AGAINST = statements(ARMS, "baseline")
NOTHING, BETTER, WORSE = many(both=16, neither=17), many(won=12, neither=21), many(lost=12, neither=21)


def read(pairs):
    return contrasts(tries(pairs), AGAINST)[0]


@pytest.mark.parametrize(
    ("now", "first", "verdict"),
    [
        (BETTER, BETTER, "better"),
        (BETTER, NOTHING, "withheld"),
        (BETTER, WORSE, "withheld"),
        (NOTHING, BETTER, "none"),
        (WORSE, WORSE, "worse"),
    ],
)
def test_corrected_statement_needs_the_first_reading(now, first, verdict):
    found = rereading.contrast(read(now), read(first))
    assert found.verdict == verdict
    assert found.scenarios_scope.verdict not in SHOWN or verdict in SHOWN
    assert (found.won, found.lost, found.delta) == (read(now).won, read(now).lost, read(now).delta), (
        "counts are corrected"
    )
    if verdict == "withheld":
        assert found.sentence.startswith("Withheld after an erratum.") and read(now).sentence in found.sentence
    elif now == first:
        assert found == read(now)


def test_repaired_outcomes_rule_out_no_more_than_the_first():
    """A repairer opens what the arm lost until it has won as much: the truth was ruled out in 99.7% of runs."""
    now, first = read(many(won=6, lost=6, both=40)), read(many(won=2, lost=14, both=36))
    assert "outside this interval are ruled out" in now.sentence and now.tasks_scope.interval[0] > -0.2
    found = rereading.contrast(now, first, {now.arm: 12})
    low, high = found.tasks_scope.interval
    assert (low, high) == (first.tasks_scope.interval[0], now.tasks_scope.interval[1])
    assert found.verdict == "none" and f"[{100 * low:+.0f}, {100 * high:+.0f}]" in found.sentence
    assert found.sentence.endswith(
        f"After an erratum (12 of {now.arm} and 0 of {now.control} corrected), the interval holds that of the first "
        "outcomes, too."
    )


def test_word_while_running_needs_the_first_reading():
    """Forty of fifty tasks are read: the running statement has its word, too."""
    open_ = [(None, None)] * 10
    now, first = read(many(won=40) + open_), read(many(neither=40) + open_)
    assert now.verdict == "better" and now.tasks_scope is None
    found = rereading.contrast(now, first)
    assert (found.verdict, found.running.since) == ("withheld", None)
    assert rereading.contrast(now, now) == now


def fork_of(treated, control):
    return forked.finding(ForkArm(16, 16, treated), ForkArm(16, 16, control), "changed", "kept")


def test_interval_of_a_fork_holds_both_readings():
    now, first = fork_of(8, 8), fork_of(3, 8)
    assert now.interval[0] > first.interval[0] and not now.verdict
    reread = rereading.fork(now, first)
    assert reread.interval == (first.interval[0], now.interval[1])
    assert f"[{100 * first.interval[0]:+.0f}, {100 * now.interval[1]:+.0f}] (Newcombe, 95%)" in reread.sentence
    assert reread.sentence.endswith(WIDENED) and rereading.fork(now, now) is now
    withheld = rereading.fork(fork_of(16, 4), first)
    assert withheld.verdict == "" and withheld.interval[0] == first.interval[0]
    assert withheld.sentence.startswith("Withheld after an erratum.")


def offer_of(won):
    """An offer to every second of 80 tries of as many tasks; this many of those that got one are complete."""
    rows = [drawn(n, n % 2 == 0 and n < 2 * won, n % 2 == 0) for n in range(80)]
    return effects(rows, DRAWN)[0]


def test_intervals_of_an_offer_hold_both_readings():
    now, first = offer_of(30), offer_of(20)
    assert now.verdict == first.verdict == "better" and first.interval[0] < now.interval[0]
    reread = rereading.effect(now, first)
    assert reread.verdict == "better" and reread.interval == (first.interval[0], now.interval[1])
    assert reread.running.interval[0] == min(now.running.interval[0], first.running.interval[0])
    assert f"[{100 * first.interval[0]:+.0f}, " in reread.sentence and reread.sentence.endswith(WIDENED)
    assert rereading.effect(now, now) == now


def test_offer_shown_while_running_keeps_its_sentence():
    now = offer_of(30)
    shown = "Shown while running, at task 80: better (E 300, may be read at any time). Interval so far [+20, +90]."
    now = replace(now, running=replace(now.running, verdict="better", since=80, sentence=shown, interval=(0.2, 0.9)))
    first = offer_of(20)
    first = replace(first, running=replace(first.running, verdict="none", interval=(-0.1, 0.5)))
    reread = rereading.effect(now, first).running
    assert shown in reread.sentence and (reread.verdict, reread.interval) == ("withheld", (-0.1, 0.9))


def campaign_of(*places):
    """What a campaign of 12 roots shows, from the complete branches of four of both arms at each of these places."""
    return campaigned.finding(
        [
            RootPair(f"{root}", "k", at, ForkArm(4, 4, treated), ForkArm(4, 4, control))
            for at, (treated, control) in enumerate(places)
            for root in range(12)
        ]
    )


def test_campaign_keeps_only_places_that_both_readings_show():
    now = campaign_of((4, 0), (4, 0))
    found = rereading.campaign(now, campaign_of((4, 0), (1, 1)))
    assert [(one.verdict, one.withheld) for one in found.cells] == [("better", ""), ("", "better")]
    assert found.sentences[0].startswith("Shown to help at 0% of an episode on these 12 episodes.")
    assert found.sentences[0].endswith(f" Withheld after an erratum at 1% of an episode. {WIDENED}")
    first = campaign_of((3, 1), (1, 1))
    assert rereading.campaign(now, first).cells[0].interval == (first.cells[0].interval[0], now.cells[0].interval[1])
    opposite = rereading.campaign(now, campaign_of((0, 4), (0, 4)))
    assert not any(one.verdict for one in opposite.cells)
    assert opposite.sentences[0].startswith("Withheld after an erratum.") and now.sentences[0] in opposite.sentences[0]
    assert rereading.campaign(now, now) is now


def test_price_after_an_erratum_is_that_of_both_readings():
    """Half of what the arm lost was repaired: the price of the corrected outcomes alone missed in every such run."""
    play = corrected.run_price(150, repaired=True)
    assert [play(random.Random(number)) for number in range(4)] == [True] * 4


def test_pair_is_not_worth_more_after_a_repair():
    """All that the better arm lost was repaired: intervals of such pairs held the truth in 53%."""
    first, now = (finding(ForkArm(16, 16, wins), ForkArm(16, 16, 2), "", "") for wins in (10, 16))
    read = rereading.fork(now, first)
    before, after = (rereading.worth(each, *rereading.priors([each])) for each in (first, read))
    alone = rereading.worth(now, *rereading.priors([now]))
    assert read.verdict == "better" and after.mean == before.mean < alone.mean
    assert (after.low, after.high) == (before.low, alone.high)
