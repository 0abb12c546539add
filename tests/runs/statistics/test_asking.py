"""Precision, recall and Ask-F1 of arms, and their paired differences, against numbers by hand."""

from __future__ import annotations

import re

import pytest

from runs.statistics.asking import EpisodeAsks, differences, of_arms
from runs.statistics.paired import cluster_interval, sign_flip


def asks(task, arm, asks, matched, found, blockers=2, **more):
    return EpisodeAsks(f"s/{task}", "s", arm, asks, matched, found, blockers, **more)


def test_arm_has_precision_recall_and_f1_over_its_episodes():
    one, none = of_arms([asks(0, "a", 3, 2, 1), asks(1, "a", 1, 1, 1, human_s=90.0), asks(0, "b", 0, 0, 0)], ["a", "b"])
    # the second question of task 0 asked for the same blocker again
    assert (one.matched, one.precision, one.recall, one.f1) == (3, 0.5, 0.5, 0.5)
    assert (one.per_task, one.human_minutes) == (2.0, 1.5)
    # an arm that never asks has no precision, and finds nothing
    assert (none.precision, none.recall, none.f1, none.per_task) == (None, 0.0, 0.0, 0.0)
    empty = of_arms([], ["c"])[0]
    assert (empty.precision, empty.recall, empty.f1, empty.per_task) == (None, None, None, None)


def test_differences_are_of_task_means_with_tests_of_outcomes():
    rows = [asks(task, "a", 2, 2, 2) for task in range(8)] + [asks(task, "b", 0, 0, 0) for task in range(8)]
    rows += [asks(0, "b", 2, 1, 1)]  # a second seed
    found = {one.metric: one for one in differences(rows, "a", "b")}
    # task 0 of the control: the mean of nothing and of precision 0.5, recall 0.5
    deltas = [0.75, *[1.0] * 7]
    assert found["f1"].delta == found["recall"].delta == pytest.approx(sum(deltas) / 8)
    assert found["f1"].interval == pytest.approx(cluster_interval(deltas, [1] * 8)[1])
    assert found["f1"].p == pytest.approx(sign_flip([3, *[4] * 7])) and found["f1"].tasks == 8
    # only task 0 has a question in both arms
    assert (found["precision"].tasks, found["precision"].delta, found["precision"].interval) == (1, 0.5, None)
    # asks are no shares: their difference is not cut at 1
    assert found["asks"].delta == pytest.approx((1 + 2 * 7) / 8) and found["asks"].interval[1] > 1.75
    assert re.search(r"p (< )?\.\d+ \(mean of \d+ tasks\)\.$", found["f1"].words)
    assert found["f1"].words.startswith("Ask-F1, a less b: +0.97, 95% interval +0.")


def test_smallest_p_is_written_as_a_bound():
    rows = [asks(task, arm, *([1, 1, 1] if arm == "a" else [0, 0, 0])) for task in range(20) for arm in "ab"]
    assert differences(rows, "a", "b")[0].words.endswith("p < .001 (mean of 20 tasks).")


def test_tasks_that_share_an_answer_are_one_unit():
    rows = [asks(task, "a", 1, 1, 1, shared=frozenset({"x"} if task < 3 else ())) for task in range(8)]
    rows += [asks(task, "b", 0, 0, 0) for task in range(8)]
    (one,) = [one for one in differences(rows, "a", "b") if one.metric == "recall"]
    assert (one.tasks, one.units) == (8, 6) and "share an answer" in one.method


def test_arms_without_a_common_task_have_no_difference():
    assert differences([asks(0, "a", 1, 1, 1), asks(1, "b", 1, 1, 1)], "a", "b") == []
