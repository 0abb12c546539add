"""What the curriculum does by noise in planted worlds, and how long it takes to do what it should. Groups have 8
rollouts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from bench.planted.case import PlantedCase, World
from curriculum.rules import levels, ratio
from curriculum.rules.levels import Counted
from curriculum.rules.ratio import Measured, Phase

HELP_FOLLOWS = ((0.9, 0.5, 16, 10), (0.9, 0.3, 16, 30), (0.5, 0.8, 16, 30), (0.9, 0.5, 2, 60))
LEVEL_OPENS = ((0.5, 16, 6), (0.7, 16, 3), (0.5, 2, 45))


def group_of(dice: random.Random, rate: float, alike: float) -> int:
    """Return how many of 8 rollouts of a task do what a rollout does at this rate, if this much of it is the task's."""
    own = dice.random() < rate if alike == 1 else dice.betavariate(*(one * (1 / alike - 1) for one in (rate, 1 - rate)))
    return sum(dice.random() < own for _ in range(8))


def help_of(dice: random.Random, rates: Sequence[float], groups: int, alike: float) -> list[Phase]:
    """Return the phases of steps with these rates of format errors, and of the step after them."""
    errors = [sum(group_of(dice, rate, alike) for _ in range(groups)) for rate in rates]
    measured = [Measured(step, 8 * groups, one) for step, one in enumerate(errors, 1)]
    return [one.phase for one in ratio.history(measured, size=8)]


def help_changes(rate: float, before: float, groups: int, alike: float) -> World:
    """Bring a learner to a boundary from `before`, and leave it there for 100 steps."""

    def play(dice: random.Random) -> bool | None:
        seen = help_of(dice, [before] * 150 + [rate] * 100, groups, alike)[150:]
        return len(set(seen)) > 1

    return play


def help_follows(before: float, rate: float, groups: int, within: int) -> World:
    """Change the rate of a learner for good: whether the phase has followed within these steps."""

    def play(dice: random.Random) -> bool | None:
        at = Phase.SCAFFOLD if rate > 0.7 else Phase.INDEPENDENCE if rate < 0.4 else Phase.BALANCED
        return help_of(dice, [before] * 50 + [rate] * within, groups, 0.3)[-1] == at

    return play


def level_opens(rate: float, groups: int, alike: float, steps: int) -> World:
    """Play the steps of a level whose tasks have this mean: whether its gate opens the next one."""

    def play(dice: random.Random) -> bool | None:
        episodes = []
        for step in range(steps):
            for place in range(step * groups, (step + 1) * groups):
                complete = group_of(dice, rate, alike)
                episodes += [Counted(f"{place % 20}", number < complete, step) for number in range(8)]
        return levels.gate(episodes[::-1], 20).opens_next

    return play


def far_behind(rate: float, alike: float) -> World:
    """Look at a run that is not behind after each of 100 steps of 16 groups."""

    def play(dice: random.Random) -> bool | None:
        rates = [group_of(dice, rate, alike) / 8 for _ in range(1600)]
        return levels.ENOUGH in levels.sums(levels.TRIGGER_BELOW - one for one in rates)

    return play


def cases() -> Iterator[PlantedCase]:
    for alike in (0.3, 1.0):
        for groups in (2, 16):
            for rate, before in ((0.7, 0.9), (0.4, 0.5)):
                world = f"stays at {rate:.0%} for 100 steps of {groups} groups, {alike:.0%} alike"
                play = help_changes(rate, before, groups, alike)
                yield PlantedCase("Curriculum: help changes", world, play, share=0.475)
        for rate in (0.2, 0.25):
            world = f"a level at {rate:g}, 200 steps of 16 groups, {alike:.0%} alike"
            yield PlantedCase("Curriculum: level opens", world, level_opens(rate, 16, alike, 200), share=0.3)
        world = f"a run at 0.1, 100 steps of 16 groups, {alike:.0%} alike"
        yield PlantedCase("Curriculum: recommended", world, far_behind(0.1, alike), share=0.475)
    for before, rate, groups, within in HELP_FOLLOWS:
        world = f"from {before:.0%} to {rate:.0%}, within {within} steps of {groups} groups"
        yield PlantedCase("Curriculum: help follows", world, help_follows(before, rate, groups, within), True, 0.475)
    for rate, groups, within in LEVEL_OPENS:
        world = f"a level at {rate:g}, within {within} steps of {groups} groups"
        play = level_opens(rate, groups, 0.3, within)
        yield PlantedCase("Curriculum: level that is ready", world, play, True, 0.475)
