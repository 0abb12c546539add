"""Help by draw: the draw, the scores, the test that draws again, and what may be said; values computed by hand."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest

from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import statements
from runs.statistics.offers import (
    effects,
    expected,
    is_offered,
    redrawn,
    scores,
    weight_of,
)
from runs.statistics.paired import mcnemar
from runs.statistics.prices import fieller, price

DRAWN = statements(["drawn"], "drawn", ["drawn"])


def drawn(number, complete, offered, p=0.5, task=None, **said):
    name = f"s/{number if task is None else task}"
    return Try(name, "s", "drawn", 0, number, complete=complete, offered=offered, chance=p, **said)


def of(outcomes, p=0.5, stopped=False):
    """`outcomes`: (offered, complete) in the planned order; a text is the reason of an exclusion."""
    tries = [
        drawn(number, None if isinstance(y, str) else y, z, p, excluded=y if isinstance(y, str) else "")
        for number, (z, y) in enumerate(outcomes)
    ]
    [found] = effects(tries, DRAWN, stopped=stopped)
    return found


def mixed(offered, withheld, seed=3):
    """Complete and other tries of both sides, (complete, others) each, in a shuffled order."""
    found = [(True, n < offered[0]) for n in range(sum(offered))]
    found += [(False, n < withheld[0]) for n in range(sum(withheld))]
    random.Random(seed).shuffle(found)
    return found


@pytest.mark.parametrize(("unfit", "verdict"), [(True, "better"), (False, "withheld")])
def test_tasks_unfit_from_the_start_withhold_nothing(unfit, verdict):
    """They were known before the draw, so that more of them on one side are chance, and no loss by the offer."""
    counted = [drawn(n, y, z) for n, (z, y) in enumerate(mixed(offered=(30, 2), withheld=(4, 28)))]
    left_out = [drawn(100 + n, None, True, excluded="passes without work, by probe", unfit=unfit) for n in range(8)]
    [found] = effects([*counted, *left_out], DRAWN)
    assert found.verdict == verdict and found.lost.bars is not unfit
    assert found.lost.offered == ({} if unfit else {"passes without work, by probe": 8})


def test_draw_depends_on_plan_arm_task_and_seed_alone():
    keys = list(itertools.product(("r-1", "r-2"), ("a", "b"), ("s/0", "s/1"), range(50)))
    first = [is_offered(*key, 0.5) for key in keys]
    assert first == [is_offered(*key, 0.5) for key in keys]
    halves = [first[:200], first[200:]], [first[::2], first[1::2]]
    assert all(one != other for one, other in halves)
    shares = {p: sum(is_offered("r-1", "a", f"s/{n}", 0, p) for n in range(4000)) / 4000 for p in (0.1, 0.5, 0.9)}
    assert all(abs(share - p) < 4 * math.sqrt(p * (1 - p) / 4000) for p, share in shares.items())


def test_offer_at_a_lower_chance_is_also_one_at_a_higher():
    low = {n for n in range(200) if is_offered("r", "a", f"s/{n}", 0, 0.2)}
    assert low < {n for n in range(200) if is_offered("r", "a", f"s/{n}", 0, 0.6)}


def test_mean_of_scores_has_its_known_value():
    """The worked example: eight tries with varying chances and expectations, mean .8111, standard error .4067."""
    y, z = (1, 0, 1, 1, 0, 0, 1, 0), (1, 0, 1, 0, 0, 1, 1, 0)
    p = (0.5, 0.5, 0.4, 0.6, 0.5, 0.5, 0.3, 0.7)
    g = (0.5, 0.667, 0.5, 0.6, 0.6667, 0.5, 0.4286, 0.5)
    values = [weight_of(bool(zi), pi) * (yi - gi) for yi, zi, pi, gi in zip(y, z, p, g, strict=True)]
    mean = sum(values) / 8
    assert mean == pytest.approx(0.8111, abs=5e-5)
    assert math.sqrt(sum((one - mean) ** 2 for one in values) / 7 / 8) == pytest.approx(0.4067, abs=5e-5)


def test_expectation_comes_from_earlier_tries_of_the_task():
    """Nothing known: 1/2. Two of three complete, none of them of this task: 3/5. One of one of this task: 11/15."""
    assert expected(0, 0, 0, 0) == 0.5
    assert expected(0, 0, 2, 3) == pytest.approx(3 / 5)
    assert expected(1, 1, 2, 3) == pytest.approx(11 / 15)
    tries = [drawn(0, True, True, task=0), drawn(1, False, False, task=1), drawn(2, True, False, task=0)]
    first, second, third = scores(tries)
    # y - g in tenths: 10 - 5; 0 - round(10 * 2/3); 10 - round(10 * (1 + 2 * 1/2) / 3)
    assert [first.tenths, second.tenths, third.tenths] == [5, -7, 3]
    assert [one.score for one in (first, second, third)] == pytest.approx([1.0, 1.4, -0.6])


def test_redrawn_test_has_values_by_hand():
    """Residuals 5, 5, -5, -5, the first two offered. At p 1/2 the sum is 5 (A - B) of two binomials of 2: it is 10 or
    -10 in 2 of 16 draws. At p 1/4 each has the chance 1/16 * 9/16."""
    offers = [True, True, False, False]
    assert redrawn([(5, 0.5), (5, 0.5), (-5, 0.5), (-5, 0.5)], offers) == pytest.approx(2 / 16)
    assert redrawn([(5, 0.25), (5, 0.25), (-5, 0.25), (-5, 0.25)], offers) == pytest.approx(2 * 9 / 256)
    assert redrawn([], []) == 1 and redrawn([(0, 0.5)] * 3, [True] * 3) == 1
    assert redrawn([(5, 0.5), (-5, 0.5)], [True, True]) == 1  # nothing is nearer to the mean than the mean


@pytest.mark.parametrize("seed", range(6))
def test_redrawn_test_agrees_with_all_draws(seed):
    dice = random.Random(seed)
    residuals = [(dice.randint(-10, 10), dice.choice([0.1, 0.3, 0.5, 0.7])) for _ in range(9)]
    offers = [dice.random() < 0.5 for _ in residuals]
    mean = sum(value * p for value, p in residuals)
    away = abs(sum(value for (value, _), z in zip(residuals, offers, strict=True) if z) - mean)
    p_value = 0.0
    for draw in itertools.product((False, True), repeat=9):
        chance = math.prod(p if z else 1 - p for (_, p), z in zip(residuals, draw, strict=True))
        total = sum(value for (value, _), z in zip(residuals, draw, strict=True) if z)
        p_value += chance * (abs(total - mean) >= away - 1e-9)
    assert redrawn(residuals, offers) == pytest.approx(p_value, abs=1e-9)


def test_effect_is_shown_with_interval_and_test():
    found = of(mixed((40, 10), (15, 35)))
    assert found.verdict == "better" and found.p < 0.001 and found.interval[0] > 0
    assert (found.offered.counted, found.offered.complete, found.withheld.complete) == (50, 40, 15)
    assert 0.3 < found.delta < 0.7 and found.sentence.startswith(
        "Offering help changed completion on these 100 episodes: +"
    )
    assert of(mixed((15, 35), (40, 10))).verdict == "worse"


def test_nothing_is_shown_without_an_effect():
    found = of(mixed((25, 25), (25, 25)))
    assert found.verdict == "none" and found.sentence.startswith("No change by offering help shown on these 100 ep")
    assert found.interval[0] < 0 < found.interval[1]


def test_few_tries_have_a_test_and_no_interval():
    found = of(mixed((4, 1), (1, 4)))
    assert (found.verdict, found.interval, found.price) == ("few", None, None) and found.p is not None
    assert (
        found.sentence == "10 episodes are too few for a result of offering help; 60 are needed, with 30 on each side."
    )
    assert found.delta is None
    assert of([(False, True)], p=0.1).sentence.startswith("1 episode is too few for a result of offering help")
    assert of([(False, True)] * 30 + [(True, False)] * 36, p=0.1).delta == -1.0


def test_running_arm_has_the_anytime_statement_only():
    found = of([*mixed((40, 10), (15, 35)), (True, None)])
    assert (found.p, found.interval, found.state) == (None, None, "running")
    early = of([(True, None), *mixed((40, 10), (15, 35))])
    assert early.running.read == 0 and early.running.interval == (-1, 1)
    assert early.sentence.startswith("No result yet: episodes are read in their planned order, and the first of 101 is")
    strong = of([*mixed((100, 0), (0, 100)), (True, None)])
    assert strong.verdict == "better" and strong.running.since < 100 and "may be read at any time" in strong.sentence


def test_stopped_run_gets_no_test_and_added_seeds_change_none():
    tries = [drawn(n, y, z) for n, (z, y) in enumerate(mixed((40, 10), (15, 35)))]
    [stopped] = effects([*tries[:20], drawn(20, None, True)], DRAWN, stopped=True)
    assert stopped.p is None and stopped.sentence.startswith("Stopped at 20 of 21 by a person")
    more = Try("s/0", "s", "drawn", 1, 0, 1, complete=True, offered=True, chance=0.5)
    [alone], [added] = effects(tries, DRAWN), effects([*tries, more], DRAWN)
    assert (added.p, added.state, added.sentence) == (alone.p, "final", alone.sentence)


def test_unequal_losses_withhold_the_effect_with_bounds():
    found = of([*mixed((40, 2), (15, 35)), *[(True, "fault environment")] * 8])
    assert found.verdict == "withheld" and found.p is None and found.lost.offered == {"fault environment": 8}
    low, high = found.lost.bounds
    assert low < high and found.sentence.startswith("Not comparable: 8 episodes with help offered and 0 w")
    assert (found.delta, found.running.verdict, found.running.interval) == (None, "withheld", found.lost.bounds)


def test_stopped_arm_reads_only_what_came_before_the_stop():
    """A run is stopped when its counts look good; the tries that it took with it are not left out."""
    cut = [*mixed((40, 0), (0, 40)), *[(True, "cancelled"), (False, "cancelled")] * 10]
    found = of(cut, stopped=True)
    assert (found.state, found.p, found.delta, found.lost.offered) == ("stopped", None, None, {})


def test_shown_effect_stays_when_a_retry_opens_a_try_again():
    strong = [drawn(n, y, z) for n, (z, y) in enumerate(mixed((100, 0), (0, 100)))]
    first, rest = replace(strong[0], complete=None, excluded="fault worker"), strong[1:]
    [before], again = effects([first, *rest], DRAWN), replace(first, excluded="", retried_at=1.0)
    [after] = effects([again, *rest], DRAWN)
    assert before.running.since is not None and after.running.verdict == "better"
    assert after.running.read == 199  # all but the one that is played again


def test_arm_without_a_counted_try_says_so():
    assert (
        of([(True, "fault worker"), (False, "fault worker")] * 5).sentence == "Nothing to compare: no episode counts."
    )


def test_policy_that_improves_over_time_makes_no_effect():
    """Half are complete at the beginning and all at the end, helped or not: a drift is no effect of the draw."""
    shown = 0
    for seed in range(40):
        dice = random.Random(seed)
        outcomes = [(dice.random() < 0.5, dice.random() < 0.2 + 0.6 * n / 120) for n in range(120)]
        shown += of(outcomes).verdict != "none"
    assert shown <= 5


def test_two_arms_with_draws_share_their_error():
    tries = []
    for n, (z, y) in enumerate(mixed((32, 18), (22, 28))):
        tries += [Try(f"s/{n}", "s", arm, 0, n, complete=y, offered=z, chance=0.5) for arm in ("one", "two")]
    one, two = effects(tries, statements(["one", "two"], "none", ["one", "two"]))
    assert (
        one.p == two.p and one.p_holm == two.p_holm == pytest.approx(min(1, 2 * one.p)) and "after Holm" in one.sentence
    )


def test_groups_of_who_asked_only_describe():
    tries = [drawn(n, n % 2 == 0, n < 40, asked=n < 10) for n in range(80)]
    [found] = effects(tries, DRAWN)
    assert (found.asked.counted, found.silent.counted, found.withheld.counted) == (10, 30, 40)
    assert found.asked.counted + found.silent.counted == found.offered.counted


def test_fieller_has_its_known_values():
    assert fieller(0.5, 0.2, 0.01, 0.0025, 0.001, 1.96) == pytest.approx((1.4180, 4.9091), abs=5e-5)
    assert fieller(0.5, 0.05, 0.01, 0.0025, 0.001, 1.96) is None


def test_price_is_a_ratio_only_where_gains_are_shown():
    """Four of five tasks are won by 6 minutes each: 4.8 minutes more for .8 more successes is 6 a success."""
    minutes, gains = [6.0, 6.0, 6.0, 6.0, 0.0] * 8, [1.0, 1.0, 1.0, 1.0, 0.0] * 8
    found = price(minutes, gains, is_shown=True)
    assert found.per_success == pytest.approx(6) and found.interval == pytest.approx((6, 6))
    assert found.sentence == "6.0 human minutes per extra success [6.0, 6.0]."
    hidden = price(minutes, gains, is_shown=False)
    assert (hidden.per_success, hidden.interval) == (None, pytest.approx((6, 6)))
    assert hidden.sentence == (
        "Costs 4.8 human minutes more per episode; extra successes are not shown. "
        "An extra success costs 6.0 to 6.0 minutes."
    )
    few = price(minutes[:9], [1.0, -1.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, 1.0], is_shown=False)
    assert few.interval is None and few.least > 0 and "An extra success, if any, costs at least" in few.sentence
    assert price([0.0] * 9, [1.0] * 9, is_shown=True).sentence == "No extra human time was needed."
    for little, words in ((0.049, "more"), (-0.049, "less")):
        told = price([little] * 9, [1.0] * 9, is_shown=True)
        assert told.sentence == f"Costs <0.1 human minutes {words} per episode."
    assert price(minutes, [-one for one in gains], is_shown=True).per_success is None


def test_contrast_is_priced_by_differences_of_tasks():
    """Six tasks are won with 3 minutes each, four are lost in both arms with 1: 2.2 more an episode, 3.7 a success."""
    tries = []
    for n in range(10):
        tries.append(Try(f"s{n}/{n}", f"s{n}", "baseline", 0, n, complete=False))
        tries.append(Try(f"s{n}/{n}", f"s{n}", "expert", 0, n, complete=n < 6, human_s=180.0 if n < 6 else 60.0))
    [found] = contrasts(tries, statements(("baseline", "expert"), "baseline"))
    assert found.price.minutes == pytest.approx(2.2) and found.price.per_success == pytest.approx(2.2 / 0.6)
    assert found.price.interval[0] < 2.2 / 0.6 < found.price.interval[1]


def test_price_takes_tasks_that_share_an_answer_as_one():
    """Ten answers, each to six tasks that came out alike, are ten draws, not sixty."""
    minutes, gains = [2.0, 4.0, 6.0, 8.0, 5.0, 5.0, 3.0, 7.0, 4.0, 6.0], [1.0, 0.5] * 5
    answers = price(minutes, gains, is_shown=True)
    joined = [[unit + 10 * number for number in range(6)] for unit in range(10)]
    found = price(minutes * 6, gains * 6, is_shown=True, joined=joined)
    assert found.interval == pytest.approx(answers.interval) and found.per_success == answers.per_success
    alone = price(minutes * 6, gains * 6, is_shown=True)
    assert alone.interval[0] > found.interval[0] and alone.interval[1] < found.interval[1]
    hidden = price(minutes * 6, [1.0, -0.9] * 30, is_shown=False, joined=joined)
    assert hidden.interval is None and hidden.least < 5 / 0.05


def test_price_of_a_run_knows_which_tasks_share_an_answer():
    def priced(shares):
        tries = []
        for task in range(36):
            read = frozenset({f"{task // 4}"} if shares else ())
            won, minutes = task // 4 % 3 != 0, 60.0 * (3 + task // 4 % 5)
            about = {"task": f"{task}", "scenario": f"{task}", "seed": 0, "position": task}
            tries.append(Try(arm="baseline", complete=False, **about))
            tries.append(Try(arm="expert", complete=won, human_s=minutes, shared=read, **about))
        return contrasts(tries, statements(("baseline", "expert"), "baseline"))[0].price

    (low, high), (least, most) = priced(False).interval, priced(True).interval
    assert least < low and high < most


def test_price_of_a_success_covers_at_33_tasks():
    """Printed for shown gains alone it covered 72%: a gain that is shown is often too large by chance."""
    covered = printed = 0
    for number in range(400):
        dice = random.Random(number)
        minutes = [dice.expovariate(1 / 3) for _ in range(33)]
        gains = [dice.choices((-1.0, 0.0, 1.0), (0.05, 0.7, 0.25))[0] for _ in range(33)]
        wins, losses = gains.count(1.0), gains.count(-1.0)
        found = price(minutes, gains, is_shown=mcnemar(wins, losses) < 0.045 and wins != losses)
        if found.interval is not None or found.least is not None:
            printed += 1
            low, high = found.interval or (found.least, math.inf)
            covered += low <= 3 / 0.2 <= high
    assert printed > 380 and covered >= 0.93 * printed
