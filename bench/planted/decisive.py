"""What a pair is worth and how many pairs are wrong, where changes are decisive and where none does anything.

Worlds that no prior was made for: a change adds up to all 100 points, or every shown difference is chance."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.planted.case import PlantedCase, World
from bench.planted.corrected import drawn_arm
from runs.statistics import forked, rereading, worth
from runs.statistics.forked import ForkArm, ForkFinding


def changes_of(
    dice: random.Random, tries: int, forks: int, nothing: float, effect: float
) -> list[tuple[float, ForkFinding]]:
    """Return the true effects of changes with what their forks show: this share does nothing, the others all this."""
    seen = []
    for _ in range(forks):
        true = 0.0 if dice.random() < nothing else effect
        rate = dice.uniform(0.0, 1 - true)
        treated, control = drawn_arm(dice, tries, rate + true), drawn_arm(dice, tries, rate)
        seen.append((true, forked.finding(treated, control, "", "")))
    return seen


def prior_of(seen: list[tuple[float, ForkFinding]]) -> worth.ChangePrior:
    return worth.learned([(fork.treated, fork.control) for _, fork in seen])


def worth_covers(tries: int, forks: int, nothing: float, effect: float) -> World:
    """Take one pair of a project: a fork that was picked for its difference, among all that were asked."""

    def play(dice: random.Random) -> bool | None:
        seen = changes_of(dice, tries, forks, nothing, effect)
        picked = [(true, fork) for true, fork in seen if fork.verdict]
        if not picked:
            return None
        true, fork = dice.choice(picked)
        change = worth.worth_of(fork.treated, fork.control, prior_of(seen))
        return change.low <= true <= change.high

    return play


def siblings_cover(rollouts: int, effect: float) -> World:
    """Take a pair of siblings: rollouts choose one of two actions that differ so much, and one was never complete."""

    def play(dice: random.Random) -> bool | None:
        low = dice.uniform(0.0, 1 - effect)
        ends: dict[bool, list[bool]] = {True: [], False: []}
        for _ in range(rollouts):
            better = dice.random() < 0.5
            ends[better].append(dice.random() < low + effect * better)
        picked = [side for side, seen in ends.items() if any(seen) and ends[not side] and not any(ends[not side])]
        if not picked:
            return None
        good, bad = ends[picked[0]], ends[not picked[0]]
        change = worth.worth_alone(ForkArm(len(good), len(good), sum(good)), ForkArm(len(bad), len(bad), 0))
        return change.low <= (effect if picked[0] else -effect) <= change.high

    return play


def share_covers(tries: int, forks: int, nothing: float, effect: float) -> World:
    """Make a dataset of the pairs that forks show, and say which share of them is wrong."""

    def play(dice: random.Random) -> bool | None:
        seen = changes_of(dice, tries, forks, nothing, effect)
        pairs = [(true, fork) for true, fork in seen if fork.verdict]
        if not pairs:
            return None
        prior = prior_of(seen)
        _, low, high = worth.share_wrong(
            [worth.worth_of(fork.treated, fork.control, prior).wrongs for _, fork in pairs]
        )
        wrong = sum(not true or fork.verdict == "worse" for true, fork in pairs)
        return low <= wrong / len(pairs) <= high

    return play


def arms_alike(dice: random.Random, tries: int, rate: float) -> tuple[ForkArm, ForkArm]:
    """Return an arm half of whose branches went on alike, and the same with these as one."""
    alike, others = dice.random() < rate, sum(dice.random() < rate for _ in range(tries // 2))
    return (
        ForkArm(tries, tries, others + alike * (tries - tries // 2)),
        ForkArm(tries // 2 + 1, tries // 2 + 1, others + alike),
    )


def alike_covers(tries: int, forks: int, nothing: float, effect: float) -> World:
    """Say which share of the pairs is wrong where half of the branches of each arm went on alike."""

    def play(dice: random.Random) -> bool | None:
        seen = []
        for _ in range(forks):
            true = 0.0 if dice.random() < nothing else effect
            rate = dice.uniform(0.0, 1 - true)
            both = [arms_alike(dice, tries, each) for each in (rate + true, rate)]
            now, once = (forked.finding(*arms, "", "") for arms in zip(*both, strict=True))
            seen.append((true, forked.with_alike(now, once)))
        pairs = [(true, fork) for true, fork in seen if fork.verdict]
        if not pairs:
            return None
        priors = rereading.priors([fork for _, fork in seen])
        _, low, high = worth.share_wrong([rereading.worth(fork, *priors).wrongs for _, fork in pairs])
        wrong = sum(not true or fork.verdict == "worse" for true, fork in pairs)
        return low <= wrong / len(pairs) <= high

    return play


def cases() -> Iterator[PlantedCase]:
    for tries, forks, nothing, effect in (*DECISIVE, *SMALL):
        doing = f"{nothing:.0%} of changes do nothing, the others" if nothing else "all"
        world = f"{forks} of {tries} v {tries}, {doing} add {100 * effect:.0f} points"
        play = worth_covers(tries, forks, nothing, effect)
        yield PlantedCase("Pair: interval of worth", world, play, covers=True, share=0.1 if forks == 300 else 1.0)
    for rollouts, effect in ((4, 0.95), (8, 0.5), (8, 0.8), (8, 0.95), (8, 1.0), (16, 0.95)):
        world = f"{rollouts} rollouts, {100 * effect:.0f} points between actions"
        yield PlantedCase("Siblings: interval of worth", world, siblings_cover(rollouts, effect), covers=True)
    for tries, forks, nothing, effect in SHARES:
        world = (
            f"{forks} forks of {tries} v {tries}, {nothing:.0%} do nothing, the others add {100 * effect:.0f} points"
        )
        play = share_covers(tries, forks, nothing, effect)
        yield PlantedCase("Card: share of wrong pairs", world, play, covers=True, share=0.3)
    for tries, forks, nothing, effect in ALIKE:
        world = f"{forks} forks of {tries} v {tries}, {nothing:.0%} do nothing, half of each arm went on alike"
        play = alike_covers(tries, forks, nothing, effect)
        yield PlantedCase("Card: share of wrong pairs", world, play, covers=True, share=0.3)


DECISIVE = (
    *((tries, forks, 0.0, effect) for tries in (4, 8) for forks in (1, 5, 20) for effect in (0.5, 0.8, 0.95, 1.0)),
    *((8, 20, nothing, effect) for nothing, effect in ((0.6, 0.8), (0.8, 0.95), (0.95, 1.0))),
    *((16, 1, 0.0, 0.95), (32, 20, 0.6, 0.95), (8, 300, 0.6, 0.95)),
)
SMALL = ((8, 5, 0.0, 0.0), (8, 5, 0.0, 0.1), (8, 20, 0.6, 0.25), (8, 300, 0.0, 0.1))
SHARES = ((8, 150, 0.8, 0.25), (8, 150, 0.95, 0.25), (8, 150, 1.0, 0.25), (16, 150, 1.0, 0.25), (8, 20, 0.8, 0.95))
ALIKE = ((16, 300, 0.98, 0.4), (32, 300, 0.98, 0.4))
