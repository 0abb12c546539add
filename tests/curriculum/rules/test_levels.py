"""Levels, the gate between them and the trigger, at their boundaries."""

from __future__ import annotations

import pytest

from curriculum.rules.levels import Counted, gate, is_recommended, level_of
from people.rates import wilson


@pytest.mark.parametrize(
    ("solved", "episodes", "level"),
    [(3, 3, "unknown"), (4, 4, "easy"), (5, 10, "medium"), (51, 100, "easy"), (1, 10, "hard"), (11, 100, "medium")],
)
def test_level_of_task_at_its_boundaries(solved, episodes, level):
    assert level_of(solved, episodes) == level


def played(complete, episodes, tasks=10):
    return [Counted(f"shop/{number % tasks}", number < complete) for number in range(episodes)]


def test_gate_opens_strictly_above_thirty_percent():
    assert not gate(played(30, 100)).opens_next
    assert gate(played(31, 100)).opens_next


def test_gate_needs_fifty_episodes_of_ten_tasks():
    assert gate(played(50, 50)).opens_next
    assert not gate(played(49, 49)).opens_next
    assert not gate(played(50, 50, tasks=9)).opens_next


def test_gate_reads_the_last_hundred_only():
    assert gate([*played(0, 100), *played(100, 100)]).mean == 0.0


def test_trigger_from_step_500_strictly_below_a_tenth():
    assert is_recommended(500, played(9, 100))
    assert not is_recommended(499, played(9, 100))
    assert not is_recommended(500, played(10, 100))
    assert not is_recommended(500, played(0, 49))


def test_wilson_interval_of_two_in_eight():
    low, high = wilson(2, 8)
    assert (round(low, 2), round(high, 2)) == (0.07, 0.59)
    assert wilson(0, 0) == (0.0, 1.0)
