"""What a run's tries allow to be said: pairs, two scopes, exclusions, looking early, and the sentences."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import statements
from runs.statistics.paired import tango

ARMS = ("baseline", "expert")
AGAINST = statements(ARMS, "baseline")
NEVER = ("no effect", "equal", "the same", "significant", "proven", "trend", "almost", "p = 0.000", "+-0")


def tries(pairs, scenario=lambda number: f"s{number}", seeds=1, wave=0):
    """`pairs`: (control, treated) by task; None is open, a text excluded. A list holds one value for each seed."""
    found = []
    for number, pair in enumerate(pairs):
        for arm, values in zip(ARMS, pair, strict=True):
            for seed, value in enumerate(values if isinstance(values, list) else [values]):
                said = {"excluded": value} if isinstance(value, str) else {"complete": value}
                key = f"{scenario(number)}/{number}"
                found.append(Try(key, scenario(number), arm, wave * 10 + seed, number, wave, **said))
    return found


def one(pairs, **how):
    stopped = how.pop("stopped", False)
    [found] = contrasts(tries(pairs, **how), AGAINST, stopped=stopped)
    assert not [word for word in NEVER if word in found.sentence], found.sentence
    return found


def many(won=0, lost=0, both=0, neither=0):
    both_ways = [(False, True)] * won + [(True, False)] * lost
    return both_ways + [(True, True)] * both + [(False, False)] * neither


def test_sentence_better_on_these_tasks():
    found = one(many(won=6, neither=27))
    assert (
        found.sentence
        == "Better on these 33 tasks: +18 points [+6, +34], 6 won, 0 lost, p .031 (exact McNemar, planned size)."
    )
    assert (found.verdict, found.won, found.lost, found.tasks) == ("better", 6, 0, 33)


def test_sentence_worse_on_these_tasks():
    assert one(many(lost=6, neither=27)).sentence.startswith(
        "Worse on these 33 tasks: -18 points [-34, -6], 0 won, 6 lost"
    )


def test_sentence_no_difference_shown_names_the_limit():
    found = one(many(both=1, neither=32))
    assert found.sentence == (
        "No difference shown on these 33 tasks: 0 points [-10, +10], 0 won, 0 lost. "
        "Differences outside this interval are ruled out at 95%."
    )


def test_sentence_borderline():
    assert (
        "Borderline: the interval leaves out 0 but the exact test does not show it (p .077)."
        in one([*many(lost=4), *many(won=12, neither=84)]).sentence
    )


def test_fixed_test_is_silent_before_the_planned_size():
    found = one([*many(won=6, neither=20), (None, None)])
    assert found.tasks_scope is None and found.state == "running"
    assert found.sentence == "Nothing shown yet on the first 26 of 27 tasks. You can look as often as you like."


def test_e_process_reads_the_complete_prefix_only():
    """The first task is slow: what ended behind it is not read, however much it is."""
    found = one([(False, None), *many(won=20)])
    assert found.running.read == 0 and found.verdict == "none"
    assert one([(False, False), *many(won=20), (None, None)]).running.since == 13


def test_statement_shown_while_running_stays():
    found = one([*many(won=12), *many(lost=12), (None, None)])
    assert found.verdict == "better" and found.sentence.startswith("Shown while running, at task 12 of 25: better")


def test_stopped_run_gets_the_anytime_statement_only():
    found = one([*many(won=6), (None, None)], stopped=True)
    assert found.tasks_scope is None and found.sentence.startswith("Stopped at 6 of 7 by a person")


def test_run_cancelled_at_a_good_moment_shows_no_fixed_test():
    """What a person cancelled with the run is not left out: that would make the planned size of what they had seen."""
    cut = [*many(won=6), *[("cancelled", "cancelled")] * 18]
    found = one(cut, stopped=True)
    assert (found.state, found.tasks_scope, found.verdict) == ("stopped", None, "none")
    assert found.sentence.startswith("Stopped at 6 of 24 by a person") and not found.exclusions.treated
    assert one([*many(won=6, neither=27)], stopped=True).state == "final"  # all had ended before


def test_counts_of_a_running_comparison_are_those_of_its_prefix():
    """What ended first is not like the rest, so nothing of it is told beside the statement that may be read."""
    ended_early = one([(None, True), *many(won=22)])
    assert (ended_early.tasks, ended_early.won, ended_early.delta) == (0, 0, None)
    assert ended_early.sentence == (
        "No result yet: tasks are read in their planned order, and the first of 23 is not finished. "
        "You can look as often as you like."
    )
    found = one([*many(won=2, neither=1), (None, None), *many(lost=9)])
    assert (found.tasks, found.won, found.lost) == (3, 2, 0) and found.delta == pytest.approx(2 / 3)
    low, high = found.running.interval
    assert low <= found.delta <= high and [row.tasks for row in found.scenarios] == [1, 1, 1]


def test_shown_statement_stays_when_a_retry_opens_a_task_again():
    lost = tries([("fault worker", True), *many(won=22, neither=20), (None, None)])
    [before] = contrasts(lost, AGAINST)
    retried = [replace(lost[0], excluded="", retried_at=5.0), *lost[1:]]
    [after] = contrasts(retried, AGAINST)
    assert before.running.verdict == after.running.verdict == "better"
    assert before.sentence.startswith("Shown while running, at task 13 of 44: better")  # the first counts for no pair
    assert after.sentence.startswith("Shown while running, at task 13 of 44: better")  # and if it had been complete


def test_statement_with_added_seeds_names_task_and_round():
    both = [*tries(many(won=6)), *tries(many(won=6), wave=1), *tries(many(won=6), wave=2)]
    [found] = contrasts([*both, *tries([*many(won=3), (None, None)], wave=3)], AGAINST)
    assert "at task 4 of 6 in round 3 of 4: better" in found.running.sentence and found.running.since == 16
    [found] = contrasts([*tries([(None, None)] * 2), *tries([(False, True), (None, None)], wave=1)], AGAINST)
    assert "in their planned order, and the first of 2 in round 1 of 2 is not finished." in found.sentence


def test_withheld_verdict_is_told_nowhere():
    found = one([*many(won=20), *[(False, "fault worker")] * 4])
    assert found.verdict == found.running.verdict == "withheld"
    assert found.running.interval == found.exclusions.bounds and "better" not in found.running.sentence
    assert one([*many(neither=1), (False, "fault worker")]).sentence.startswith(
        "Not comparable: 1 of 2 episodes of expert and 0 of 2 of baseline were lost. Delta between 0 and +50 points"
    )


@pytest.mark.parametrize("arm", ARMS)
def test_arm_without_a_try_compares_nothing(arm):
    found = contrasts([one for one in tries(many(won=3)) if one.arm == arm], AGAINST)[0]
    assert (found.tasks, found.delta, found.verdict) == (0, None, "none")
    assert contrasts([], AGAINST)[0].verdict == "none"


def test_ended_run_without_a_valid_task_says_so():
    assert one([("trivial", "trivial")] * 2).sentence == "Nothing to compare: no task is valid in both arms."


def test_several_seeds_name_the_borderline_too():
    found = one([([False] * 4, [True] * 2 + [False] * 2)] * 3 + [([False] * 4, [True] * 3 + [False])] * 2)
    assert found.verdict == "none" and "the interval leaves out 0 but the exact test does not show it (p .062)" in (
        found.sentence
    )


def test_scenarios_share_their_error_by_holm_too():
    arms = ("baseline", "one", "two")
    both = [
        Try(f"s{number}/0", f"s{number}", arm, 0, number, complete=arm == "one" and number < 6)
        for number in range(33)
        for arm in arms
    ]
    first, second = contrasts(both, statements(arms, "baseline"))
    assert first.scenarios_scope.p == pytest.approx(0.03125) and first.scenarios_scope.p_holm == pytest.approx(0.0625)
    assert first.scenarios_scope.verdict == second.scenarios_scope.verdict == first.verdict == "none"
    assert "not shown" in first.scenarios_scope.sentence


def test_scenarios_scope_needs_six():
    found = one(many(won=30), scenario=lambda number: f"s{number % 5}")
    assert found.verdict == "better"
    assert found.scenarios_scope.sentence == "5 scenarios are too few to generalize."
    found = one(many(won=30), scenario=lambda number: f"s{number % 6}")
    assert found.scenarios_scope.verdict == "better"


def test_scenarios_stand_by_their_difference_without_luck():
    """One lucky task does not stand before a scenario that gained on most of its twenty."""
    pairs = [*many(won=1), *many(won=12, lost=2, both=6), *many(won=5, lost=3, both=12)]
    names = ["lucky", *["large"] * 20, *["other"] * 20]
    rows = one(pairs, scenario=names.__getitem__).scenarios
    assert [row.scenario for row in rows] == ["large", "lucky", "other"] and rows[1].delta == 1.0
    assert 0.3 < rows[1].shrunk < rows[0].shrunk < rows[0].delta == 0.5


def test_best_of_empty_scenarios_is_shrunk_to_nothing():
    dice = random.Random(5)
    pairs = [(dice.random() < 0.5, dice.random() < 0.5) for _ in range(400)]
    best, *_ = one(pairs, scenario=lambda number: f"s{number % 50:02}").scenarios
    assert best.delta > 0.4 and best.shrunk < 0.15
    alone = one(many(won=6, neither=27)).scenarios
    assert {round(row.shrunk, 9) for row in alone} == {round(6 / 33, 9)}, "one task each tells nothing of its scenario"
    assert [row.delta for row in alone[:7]] == [1.0] * 6 + [0.0]


def test_several_seeds_are_means_of_tasks():
    """Two tasks with eight seeds each are two tasks, not sixteen pairs."""
    found = one([([False] * 8, [True] * 8)] * 2)
    assert found.tasks == 2 and found.verdict == "none" and found.tasks_scope.verdict == "few"
    found = one([([False, True], [True, True])] * 6 + [([True, False], [True, False])] * 4)
    assert (found.delta, found.verdict) == (0.3, "better") and "sign-flip" in found.tasks_scope.method


def test_added_seeds_change_nothing_that_was_planned():
    """A person who adds seeds has seen the result. It stays; what the seeds say besides is no part of the plan."""
    planned, more = tries(many(won=6, neither=27)), tries(many(lost=33), wave=1)
    [alone] = contrasts(planned, AGAINST)
    [found] = contrasts(planned + more, AGAINST)
    assert (found.tasks_scope, found.sentence, found.verdict) == (alone.tasks_scope, alone.sentence, "better")
    assert alone.added is None and found.added == pytest.approx((6 / 33 - 1) / 2)
    [going] = contrasts([*planned, *more[:-1], replace(more[-1], complete=None)], AGAINST)
    assert (going.state, going.verdict, going.added) == ("final", "better", None)


def test_unequal_exclusion_withholds_the_verdict():
    found = one([*many(won=12, neither=80), *[(False, "worker")] * 8])
    assert found.verdict == "withheld" and found.exclusions.treated == {"worker": 8}
    assert found.sentence == (
        "Not comparable: 8 of 100 episodes of expert and 0 of 100 of baseline were lost. Delta between +12 and +20 "
        "points whatever they were; with losses counted as failures +12 points."
    )


def test_excluded_task_is_left_out_of_both_arms():
    found = one([*many(won=9, neither=60), ("worker", True), (True, "worker")])
    assert found.tasks == 69 and found.delta == 9 / 69 and found.verdict == "better"
    assert found.sentence.endswith(
        "p .012 (exact McNemar, planned size). This holds however 2 cancelled, lost or replaced episodes are counted."
    )


def test_three_arms_share_their_error_by_holm():
    found = tries(many(won=6, neither=27))
    third = [Try(f"s{n}/{n}", f"s{n}", "informed", 0, n, 0, complete=n < 5) for n in range(33)]
    plain, informed = contrasts([*found, *third], statements([*ARMS, "informed"], "baseline"))
    assert (plain.p_holm, plain.verdict, informed.verdict) == (0.0625, "none", "none")
    assert "p .062 after Holm" in plain.sentence


def sharing(pairs, units, **how):
    """Tries whose tasks share an answer with the others of their unit, by number."""
    of = {number: frozenset({name}) for name, numbers in units.items() for number in numbers}
    alone: frozenset[str] = frozenset()
    given = [
        replace(each, shared=of.get(each.position, alone) if each.arm == "expert" else alone)
        for each in tries(pairs, **how)
    ]
    return contrasts(given, AGAINST)[0]


def test_tasks_that_share_an_answer_are_one_unit():
    pairs = {f"a{n}": (2 * n, 2 * n + 1) for n in range(6)}
    found = sharing(many(won=12), pairs)
    assert (found.sharing, found.tasks, found.tasks_scope.units) == (12, 12, 6)
    assert found.tasks_scope.p == 2 / 2**6, "six signs, not twelve"
    assert found.tasks_scope.interval == tango(12, 0, 12), "the wider one: of six sums alike it is [+61, +100]"
    assert "sums of tasks that share an answer" in found.tasks_scope.method
    alone = one(many(won=10))
    assert alone.verdict == "better" and alone.sharing == 0
    five = sharing(many(won=10), {f"a{n}": (2 * n, 2 * n + 1) for n in range(5)})
    assert (five.tasks_scope.p, five.tasks_scope.verdict) == (2 / 2**5, "none")


def test_chain_of_shared_answers_is_one_unit():
    given = tries(many(won=3))
    keys = {0: {"a"}, 1: {"a", "b"}, 2: {"b"}}
    given = [replace(each, shared=frozenset(keys[each.position])) for each in given]
    [found] = contrasts(given, AGAINST)
    assert (found.tasks_scope.units, found.tasks_scope.verdict, found.sharing) == (1, "few", 3)
    assert found.sentence == "3 tasks (1 unit, as tasks share answers) are too few for a result."


def test_scenarios_that_share_an_answer_are_joined():
    spread = {"scenario": lambda number: f"s{number % 8}"}
    assert one(many(won=24), **spread).scenarios_scope.units == 8
    found = sharing(many(won=24), {"a": (0, 1), "b": (2, 3), "c": (4, 5)}, **spread)
    assert (found.scenarios_scope.units, found.scenarios_scope.verdict) == (5, "few")


def test_unit_is_read_while_running_when_all_its_tasks_ended():
    pairs = [*many(won=20), (False, None)]
    assert one(pairs).running.read == 20
    assert sharing(pairs, {"a": (3, 20)}).running.read == 3
    assert sharing(pairs, {"a": (3, 5)}).running.read == 20


def test_a_thousand_tasks_take_less_than_two_seconds():
    begun = time.process_time()  # 0.3 s where it was written
    one(many(won=300, lost=200, both=100, neither=400), scenario=lambda number: f"s{number % 50}")
    one([([bool(n % 3), True, False, True], [True, bool(n % 2), True, False]) for n in range(1000)])
    assert time.process_time() - begun < 4, "two of them"


@pytest.mark.parametrize(("seeds", "most"), [(1, 20_000), (2, 5_000)])
def test_large_runs_are_compared_in_linear_time(seeds, most):
    """As many tasks as one plan can hold, each a scenario: none of it may take the square of their number."""

    def seconds(n):
        given = tries([([bool(k % 3)] * seeds, [True, bool(k % 2)][:seeds]) for k in range(n)])
        begun = time.process_time()
        contrasts(given, AGAINST)
        return time.process_time() - begun

    assert seconds(most) < 25 * min(seconds(most // 10) for _ in range(3))


def test_unfit_tasks_withhold_nothing_while_one_arm_is_ahead():
    found = tries([(None, "ruled broken")] * 7 + many(won=6, neither=27))
    unfit = [replace(each, unfit=each.position < 7) for each in found]
    withheld = {name: contrasts(said, AGAINST)[0] for name, said in (("lost", found), ("unfit", unfit))}
    assert withheld["lost"].exclusions.withheld and not withheld["unfit"].exclusions.withheld
    assert withheld["unfit"].exclusions.treated == {} and withheld["unfit"].exclusions.bounds == (6 / 33, 6 / 33)
