"""Levels, the gate between them and the trigger, at their boundaries."""

from __future__ import annotations

import math
import random

import pytest

from curriculum.rules.levels import LEVELS, Counted, gate, is_recommended, level_of, opened
from people.rates import wilson


@pytest.mark.parametrize(
    ("solved", "episodes", "level"),
    [(3, 3, "unknown"), (4, 4, "easy"), (5, 10, "medium"), (51, 100, "easy"), (1, 10, "hard"), (11, 100, "medium")],
)
def test_level_of_task_at_its_boundaries(solved, episodes, level):
    assert level_of(solved, episodes) == level


def played(complete, episodes, tasks=10):
    return [Counted(f"shop/{number % tasks}", number < complete, number // tasks) for number in range(episodes)]


def test_level_opens_by_what_its_groups_have_beyond():
    """Each group of a task adds its mean less .30 and .05, and none is below zero for long: 9 opens the next."""
    half = [
        Counted(f"shop/{task}", number < 4, step) for step in range(90, 97) for task in range(10) for number in range(8)
    ]
    assert gate(half[:480]).evidence == 9.0 and gate(half[:480]).opens_next
    assert gate(half[:472]).evidence == 8.85 and not gate(half[:472]).opens_next
    assert gate([*played(0, 400), *half[:480]]).opens_next, "what was shown stays shown"
    assert gate([*half[:240], *played(0, 400)]).evidence == 4.5


def test_episodes_of_a_task_in_one_step_count_once():
    alike = [Counted(f"shop/{task}", True, 1) for task in range(10) for _ in range(100)]
    assert gate(alike).evidence == pytest.approx(6.5) and not gate(alike).opens_next
    assert gate([one._replace(step=None) for one in alike]).evidence == pytest.approx(6.5)


def levels_at(rate, seed, steps=200):
    """Whether a level at this rate opens the next one, looked at after each step of 16 groups of 8."""
    dice, newest = random.Random(seed), []
    for step in range(steps):
        for task in dice.sample(range(20), 16):
            own = dice.betavariate(2.3 * rate, 2.3 * (1 - rate))
            newest += [Counted(f"{task}", dice.random() < own, step) for _ in range(8)]
    return gate(newest[::-1], 20).opens_next


def test_level_below_its_limit_opens_nothing_by_noise():
    """By the mean of the last hundred, a level at .20 opened the next one in 74 percent, and one at .25 always."""
    assert not any(levels_at(rate, seed) for rate in (0.2, 0.25) for seed in range(4))
    assert all(levels_at(0.5, seed, 8) for seed in range(8))


def test_gate_needs_fifty_episodes_of_ten_tasks():
    assert gate(played(50, 50)).opens_next
    assert not gate(played(49, 49)).opens_next
    assert not gate(played(50, 50, tasks=9)).opens_next


def test_gate_needs_no_more_than_a_level_holds():
    assert gate(played(20, 20, tasks=4), held=4).opens_next
    assert not gate(played(19, 19, tasks=4), held=4).opens_next
    assert not gate(played(20, 20, tasks=3), held=4).opens_next
    assert gate([], held=0).opens_next and gate([], held=4, learned=True).opens_next


def trained(uses_levels, seed):
    """Return the final solo rate of an agent that gets better at what it completes, over 24 tasks of which four pass
    untouched."""
    dice, skill = random.Random(seed), 0.0
    names = [one.name for one in LEVELS]
    hardness = [-9.0] * 4 + [0.15 * number for number in range(20)]
    played = {task: [] for task in range(24)}
    newest, open_ = [], ["easy"]

    def chance(task):
        return 1 / (1 + math.exp(2 * (hardness[task] - skill)))

    for step in range(60):
        placed = {task: level_of(sum(last := done[-8:]), len(last)) for task, done in played.items()}
        held = {name: [task for task, level in placed.items() if level == name] for name in names}
        gates = {
            name: gate(
                [one for one in newest if int(one.task) in held[name]],
                len(held[name]),
                learned=all(all(played[task]) for task in held[name]),
            )
            for name in names
        }
        open_ = opened(names, gates, open_, set(placed.values()))
        served = [task for task in played if not uses_levels or placed[task] in (*open_, "unknown")]
        for task in dice.sample(served, min(8, len(served))):
            for _ in range(4):
                done = dice.random() < chance(task)
                skill += 0.01 * done * (hardness[task] > -9)
                played[task].append(done)
                newest.insert(0, Counted(str(task), done, step))
    return sum(chance(task) for task in range(24)) / 24


def test_levels_do_not_hold_an_agent_back():
    """Served the four tasks that pass untouched alone, an agent learned nothing: .26 against .56 without levels."""
    with_levels, without = (sum(trained(levels, seed) for seed in range(4)) / 4 for levels in (True, False))
    assert without > 0.5 and with_levels > without - 0.05


def test_gate_reads_the_last_hundred_only():
    assert gate([*played(0, 100), *played(100, 100)]).mean == 0.0


def test_trigger_from_step_500_strictly_below_a_tenth():
    assert is_recommended(500, played(0, 180)) and not is_recommended(500, played(0, 179))
    assert not is_recommended(499, played(0, 180))
    assert not is_recommended(500, [*played(1, 10), *played(0, 180)]), "it is no longer behind"


def test_trigger_is_not_pulled_by_noise_of_a_tenth():
    for seed in range(4):
        dice = random.Random(seed)
        newest = [Counted(f"{group % 20}", dice.random() < 0.1, group) for group in range(4000)]
        assert not any(is_recommended(500, newest[:most]) for most in range(100, 4000, 100))


def test_wilson_interval_of_two_in_eight():
    low, high = wilson(2, 8)
    assert (round(low, 2), round(high, 2)) == (0.07, 0.59)
    assert wilson(0, 0) == (0.0, 1.0)
