"""What a blind random sample says of the verifier's errors reaches rates and differences, and where it says nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.planted import sampled, truth
from bench.planted.beside import cases
from runs.statistics import corrected
from runs.statistics.compare import CANCELLED, Try, contrasts
from runs.statistics.deciding import statements
from runs.statistics.self_control import against_itself
from tests.runs.statistics.test_compare import tries

SAID = statements(["baseline", "expert"], "baseline")


def reference_rows():
    """300 episodes: what people would say, what the verifier says, and whether they were drawn."""
    dice = random.Random("ppi")
    for number in range(300):
        good = dice.random() < 0.6
        complete = (good and dice.random() >= 0.2) or (not good and dice.random() < 0.05)
        yield Try(f"s/{number}", "s", "a", 0, number, complete=complete, episode=f"{number}"), good, number % 3 == 0


def test_rate_is_that_of_ppi_python():
    """`ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3 at lam 0.4, which is our tuning, say 0.676 and
    [0.60032, 0.75168] for these rows. Ours also reaches as far as Wilson's interval where errors are few."""
    rows = list(reference_rows())
    seen = corrected.rate(
        [each for each, _, _ in rows], "a", {each.episode: good for each, good, drawn in rows if drawn}
    )
    assert seen is not None and seen.value == pytest.approx(0.676, abs=1e-9)
    assert 0.5 < seen.interval[0] < 0.60032 and 0.75168 < seen.interval[1] < 0.8
    assert (seen.judged, seen.wrong) == ({"a": 100}, {"a": 17})


def strict_run(tasks=200, seeds=1, strict=0.4):
    """A run whose arms are alike, and whose verifier fails much of what the arm did right."""
    dice = random.Random("strict")
    mine, people = [], {}
    for each in tries([([False] * seeds, [False] * seeds)] * tasks):
        good = dice.random() < 0.7
        name = f"{each.task}/{each.arm}/{each.seed}"
        people[name] = good
        wrong = good and each.arm == "expert" and dice.random() < strict
        mine.append(replace(each, episode=name, complete=good and not wrong))
    return mine, people


def test_difference_that_a_strict_verifier_made_is_taken_back():
    mine, people = strict_run()
    (contrast,) = contrasts(mine, SAID)
    assert contrast.verdict == "worse"
    drawn = random.Random("sample").sample(sorted(people), 160)
    seen = corrected.difference(mine, contrast, {name: people[name] for name in drawn})
    assert seen is not None and seen.interval[0] < 0 < seen.interval[1]
    assert seen.value - contrast.delta > 0.15 and seen.wrong["baseline"] == 0 < seen.wrong["expert"]
    assert "outcomes of expert and 0 of" in seen.sentence and "exploratory" in seen.sentence


def test_difference_that_a_strict_verifier_hid_is_found():
    """The arm adds 25 points, and its verifier fails 30% of what people accept there."""
    errors = sampled.Errors(treated=0.3, effect=0.25)
    seen, rate, true, treated = sampled.judged_run(200, 1, 300, errors, random.Random("hidden"))
    assert seen is not None and rate is not None and true == pytest.approx(0.25)
    assert 0 < seen.interval[0] < true < seen.interval[1] and abs(seen.value - true) < 0.06
    assert rate.interval[0] < treated < rate.interval[1] and seen.wrong[truth.TREATED] > 20 > seen.wrong[truth.CONTROL]


def test_whole_sample_without_errors_is_the_difference():
    mine, _ = strict_run()
    (contrast,) = contrasts(mine, SAID)
    seen = corrected.difference(mine, contrast, {each.episode: bool(each.complete) for each in mine})
    assert seen.value == pytest.approx(contrast.delta) and seen.interval[1] < 0


def test_small_samples_and_unfinished_runs_have_no_line():
    mine, people = strict_run()
    (contrast,) = contrasts(mine, SAID)
    arm = [each.episode for each in mine if each.arm == "expert"]
    few = {name: people[name] for name in people if name not in arm[corrected.FEWEST - 1 :]}
    assert corrected.difference(mine, contrast, few) is None
    assert corrected.rate(mine, "expert", few) is None and corrected.rate(mine, "baseline", few) is not None
    going = [replace(mine[0], complete=None), *mine[1:]]
    assert corrected.difference(going, contrasts(going, SAID)[0], people) is None
    assert corrected.rate(going, mine[0].arm, people) is None


def test_many_seeds_of_few_tasks_are_few_units():
    mine, people = strict_run(tasks=15, seeds=8)
    (contrast,) = contrasts(mine, SAID)
    assert len(people) == 240 and corrected.difference(mine, contrast, people) is None


def test_unread_and_unknown_episodes_only_widen():
    mine, people = strict_run()
    (contrast,) = contrasts(mine, SAID)
    plain = corrected.difference(mine, contrast, people)
    unread = corrected.difference(mine, contrast, {**people, **dict.fromkeys(sorted(people)[:12])})
    lost = [replace(each, complete=None, excluded=CANCELLED) if each.position < 4 else each for each in mine]
    cancelled = corrected.difference(lost, contrasts(lost, SAID)[0], people)
    for wider in (unread, cancelled):
        assert wider.interval[0] < plain.interval[0] and wider.interval[1] > plain.interval[1]
    assert "Counted in every way: 12 drawn episodes without a blind verdict." in unread.sentence


CORRECTED = [one for one in cases() if one.subject.startswith("Corrected") and "60 tasks x 1" in one.world]


@pytest.mark.parametrize("case", CORRECTED, ids=lambda case: f"{case.subject}, {case.world}")
def test_lines_hold_in_planted_worlds(case):
    part, of = case.counted(60)
    assert case.holds(part, of) and (of or not case.covers), f"{part} of {of}"


def test_an_arm_against_itself_is_luck_alone():
    mine, _ = strict_run(tasks=40, seeds=4)
    assert against_itself(mine, "baseline").startswith("No difference shown on these 40 tasks")
    assert against_itself(mine, "baseline") == against_itself(mine[::-1], "baseline")
    assert against_itself([each for each in mine if each.seed == 0], "baseline") == ""
    open_one = [replace(each, complete=None) if each is mine[0] else each for each in mine]
    assert against_itself(open_one, mine[0].arm) == ""


def with_answers(mine, size):
    """Give every `size` tasks one answer in the arm with help."""
    place = {task: number // size for number, task in enumerate(dict.fromkeys(each.task for each in mine))}
    return [
        replace(each, shared=frozenset({f"{place[each.task]}"}) if each.arm == "expert" else frozenset())
        for each in mine
    ]


def test_tasks_of_one_answer_are_one_unit_of_a_corrected_rate():
    """Each five tasks of one answer end alike: an interval of tasks alone held the truth 87 times of 120."""
    covered = {"alone": 0, "joined": 0}
    for number in range(120):
        dice, mine, people = random.Random(number), [], {}
        good = [dice.random() < 0.6 for _ in range(60)]
        for each in tries([([False], [False])] * 300):
            name, task = f"{each.task}/{each.arm}", len(people) // 2
            people[name] = good[task // 5]
            mine.append(replace(each, episode=name, complete=people[name] and dice.random() > 0.1))
        judged = {name: people[name] for name in dice.sample(sorted(people), 300)}
        for how, some in (("alone", mine), ("joined", with_answers(mine, 5))):
            seen = corrected.rate(some, "expert", judged)
            covered[how] += seen.interval[0] <= 0.6 <= seen.interval[1]
    assert covered["joined"] >= 0.93 * 120 > 0.85 * 120 > covered["alone"]


def test_few_answers_for_many_tasks_are_too_few_to_correct():
    mine, people = strict_run()
    (contrast,) = contrasts(mine, SAID)
    assert corrected.difference(mine, contrast, people) is not None
    few = with_answers(mine, 20)
    assert corrected.difference(few, contrasts(few, SAID)[0], people) is None
