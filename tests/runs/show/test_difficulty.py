"""Differences by difficulty: levels come from episodes that are not compared, so that nothing regresses to the mean."""

from __future__ import annotations

import random

import pytest

from runs.api.runs import view_of
from runs.show.comparison import compare_run
from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import statements
from runs.statistics.difficulty import EARLIER, OTHER_SEEDS, by_difficulty, level_of
from tests.browsing import as_person, html
from tests.runs.planned import ended_rows, rows_of_run

ARMS = ("baseline", "expert")


def tries(tasks):
    """`tasks`: (control, treated) with an outcome for each seed."""
    return [
        Try(f"s/{number}", "s", arm, seed, number, complete=bool(value))
        for number, pair in enumerate(tasks)
        for arm, values in zip(ARMS, pair, strict=True)
        for seed, value in enumerate(values)
    ]


def grouped(tasks, earlier=()):
    given = tries(tasks)
    [contrast] = contrasts(given, statements(ARMS, "baseline"))
    return by_difficulty(contrast, given, dict(earlier))


@pytest.mark.parametrize(
    ("complete", "counted", "level"),
    [(0, 3, "unknown"), (3, 3, "unknown"), (0, 4, "hard"), (1, 10, "hard"), (2, 10, "medium"), (2, 4, "medium"),
     (3, 5, "easy"), (4, 4, "easy")],
)  # fmt: skip
def test_level_of_a_solve_rate(complete, counted, level):
    assert level_of(complete, counted) == level


def test_earlier_episodes_tell_the_levels():
    """Two easy tasks, one of them won; a hard one won; one without earlier episodes lost."""
    found = grouped(
        [([0], [1]), ([1], [1]), ([0], [1]), ([1], [0])],
        {"s/0": (4, 4), "s/1": (3, 4), "s/2": (0, 8), "s/3": (1, 1)}.items(),
    )
    assert found.basis == EARLIER
    rows = [(one.name, one.tasks, one.won, one.lost, one.control_rate, one.delta) for one in found.levels]
    assert rows == [("easy", 2, 1, 0, 0.5, 0.5), ("hard", 1, 1, 0, 0, 1), ("unknown", 1, 0, 1, 1, -1)]


def test_other_seeds_tell_the_levels_and_leave_the_difference():
    """The first half of the control's seeds is 1 1, 0 0 and 1 0; compared are 0 0, 0 1 and 1 1."""
    found = grouped([([1, 1, 0, 0], [1] * 4), ([0, 0, 0, 1], [0] * 4), ([1, 0, 1, 1], [1, 1, 0, 0])])
    assert found.basis == OTHER_SEEDS
    rows = [(one.name, one.tasks, one.won, one.lost, one.control_rate, one.delta) for one in found.levels]
    assert rows == [("easy", 1, 1, 0, 0, 1), ("medium", 1, 0, 1, 1, -0.5), ("hard", 1, 0, 1, 0.5, -0.5)]


def test_one_seed_without_earlier_episodes_has_no_levels():
    assert grouped([([0], [1]), ([1], [1])]) is None
    assert grouped([([0], [1]), ([1], [1]), ([0], [0])], {"s/0": (4, 4)}.items()) is None


def test_running_and_incomparable_runs_have_no_levels():
    given = tries([([0, 1], [1, 1])] * 30)
    open_ = [*given[:-1], Try("s/29", "s", "expert", 1, 29)]
    lost = [*given[:-5], *(Try("s/29", "s", "expert", seed, 29, excluded="fault worker") for seed in range(2, 20))]
    for some in (open_, lost):
        [contrast] = contrasts(some, statements(ARMS, "baseline"))
        assert by_difficulty(contrast, some, {}) is None


def test_nothing_regresses_to_the_mean():
    """No effect at all: hard tasks of the same run's outcomes gain tens of points, these levels do not."""
    dice = random.Random(5)
    chances = [dice.random() for _ in range(3000)]
    drawn = [([dice.random() < p for _ in range(4)], [dice.random() < p for _ in range(4)]) for p in chances]
    found = {one.name: one.delta for one in grouped(drawn).levels}
    assert set(found) == {"easy", "medium", "hard"} and all(abs(delta) < 0.04 for delta in found.values())
    failed = [sum(treated) / 4 for control, treated in drawn if not any(control)]
    assert sum(failed) / len(failed) > 0.1  # what a grouping by the compared outcomes would print as a gain


@pytest.mark.django_db
def test_run_page_groups_by_episodes_before_its_launch(ada, rita):
    before = rows_of_run(ada, 6, scenarios=2, seeds=4)
    rows = before.tries.values_list("episode_id", "arm__name", "position")
    ended_rows({pk: arm == "expert" or position < 3 for pk, arm, position in rows})
    plan = rows_of_run(ada, 6, scenarios=2)
    ended_rows({pk: arm == "expert" for pk, arm in plan.tries.values_list("episode_id", "arm__name")})
    [levels] = compare_run(ada, plan.pk).levels
    assert [(one.name, one.tasks, one.won) for one in levels.levels] == [("easy", 3, 3), ("hard", 3, 3)]
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "Exploratory, not part of the plan. Difficulty: solve rate of earlier episodes" in page
    assert '<td class="n">0%</td><td class="n">+100 points</td>' in page
    table = html(as_person(rita).get(f"/runs/{plan.pk}/tables/difficulty.csv"))
    assert table.count(EARLIER) == 2 and ",easy,3,3,0,0.0,1.0" in table
    [told] = view_of(compare_run(ada, plan.pk)).contrasts
    assert [one["name"] for one in told["difficulty"]["levels"]] == ["easy", "hard"]
