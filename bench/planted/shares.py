"""Shares and differences that stand beside the statements of runs, in planted worlds: what their intervals cover."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from bench.planted.case import PlantedCase, World
from bench.planted.corrected import drawn_arm
from bench.planted.decisive import arms_alike
from curriculum.rules.levels import ENOUGH
from curriculum.show import charts, cockpit
from people.rates import wilson
from reviews.statistics import agreement
from runs.show import curve, tables
from runs.show.lanes import TreeLane
from runs.statistics import asking, campaigned, forked
from runs.statistics.asking import EpisodeAsks
from runs.statistics.campaigned import RootPair
from runs.statistics.compare import Try

Ends = list[list[bool]]
CAMPAIGN_EFFECT = 0.15


def grouped(dice: random.Random, groups: int, each: int) -> Ends:
    """Return episodes of tasks that differ in how hard they are; half of endlessly many are complete."""
    return [[dice.random() < rate for _ in range(each)] for rate in (dice.betavariate(1, 1) for _ in range(groups))]


def holds(span: tuple[float, float] | None, true: float) -> bool | None:
    return None if span is None else span[0] <= true <= span[1]


def repeats_cover(dice: random.Random) -> bool | None:
    """Quote pass@4 of one arm, which is 1 - 1/5 if all rates are as likely."""
    tries = [
        Try(f"s/{task}", "s", "only", seed, task, complete=complete)
        for task, ends in enumerate(grouped(dice, 60, 4))
        for seed, complete in enumerate(ends)
    ]
    return holds(tables.repeats(tries, ["only"])[-1].any_of["only"].span, 0.8)


def curve_covers(scenarios: int) -> World:
    """Scenarios differ in how hard they are; each has 10 episodes."""

    def play(dice: random.Random) -> bool | None:
        units = {f"{place}": ends for place, ends in enumerate(grouped(dice, scenarios, 10))}
        return holds(curve.interval_of(units), 0.5)

    return play


def curve_of_one_answer_covers(scenarios: int) -> World:
    """Answers to asks of six scenarios each are good or bad for all of these; each scenario has four episodes."""

    def play(dice: random.Random) -> bool | None:
        rates = [dice.choice([0.3, 0.7]) for _ in range(scenarios // 6)]
        tries = [
            Try(
                f"{scenario}/{task}",
                f"{scenario}",
                "only",
                0,
                4 * scenario + task,
                complete=dice.random() < rates[scenario // 6],
                shared=frozenset({f"{scenario // 6}"}),
            )
            for scenario in range(scenarios)
            for task in range(4)
        ]
        return holds(curve.interval_of_arm(tries), 0.5)

    return play


def step_covers(tasks: int) -> World:
    """Play a step of training with 8 rollouts of each task."""

    def play(dice: random.Random) -> bool | None:
        flat = [end for ends in grouped(dice, tasks, 8) for end in ends]
        return holds(charts.interval(sum(flat), len(flat), tasks), 0.5)

    return play


def level_covers(dice: random.Random) -> bool | None:
    """Play a level of 20 tasks with 8 rollouts each."""
    means = [sum(ends) / 8 for ends in grouped(dice, 20, 8)]
    level = {"mean": sum(means) / 20, "tasks": 20, "episodes": 160, "above": -1, "enough": ENOUGH}
    bar = cockpit.level_rows({"levels": [level]})[0]["bar"]
    return holds((bar["low"] / 100 - 0.001, (bar["low"] + bar["width"]) / 100 + 0.001), 0.5)


def task_covers(dice: random.Random) -> bool | None:
    """Play a task with 16 solo rollouts, at one rate of its own."""
    rate = dice.uniform(0.1, 0.9)
    return holds(wilson(sum(dice.random() < rate for _ in range(16)), 16), rate)


def accepted_covers(dice: random.Random) -> bool | None:
    """Thirty episodes are drawn at random, and judged once each."""
    rate = dice.uniform(0.5, 0.95)
    share = agreement.share(sum(dice.random() < rate for _ in range(30)), 30)
    return None if share.low is None or share.high is None else share.low <= rate <= share.high


def gold_covers(tasks: int, items: int) -> World:
    """Make a judge who is right in most tasks, and wrong in all items of the others."""

    def play(dice: random.Random) -> bool | None:
        flags = [(right, f"{task}") for task in range(tasks) for right in [dice.random() < 0.75] for _ in range(items)]
        share = agreement.share_of_tasks(flags)
        return None if share.low is None or share.high is None else share.low <= 0.75 <= share.high

    return play


def lane_covers(dice: random.Random) -> bool | None:
    """Play a lane with 16 branches of one state."""
    rate = dice.uniform(0.05, 0.95)
    return holds(TreeLane([], "", drawn_arm(dice, 16, rate)).interval, rate)


def alike_lane_covers(dice: random.Random) -> bool | None:
    """Play a lane with 16 branches of one state, half of which went on alike."""
    rate = dice.uniform(0.05, 0.95)
    arm, once = arms_alike(dice, 16, rate)
    return holds(TreeLane([], "", arm, once=once).interval, rate)


def fork_covers(tries: int) -> World:
    """Read the interval of a fork whose change does something or nothing."""

    def play(dice: random.Random) -> bool | None:
        rate, other = dice.uniform(0.1, 0.9), dice.uniform(0.1, 0.9)
        shown = forked.finding(drawn_arm(dice, tries, rate), drawn_arm(dice, tries, other), "", "")
        return holds(shown.interval, rate - other)

    return play


def place_covers(dice: random.Random) -> bool | None:
    """Read the interval of one place, whatever it shows."""
    rates = [dice.choice([0.2, 0.3, 0.5, 0.6]) for _ in range(24)]
    pairs = [
        RootPair(f"{root}", "k", 0, drawn_arm(dice, 4, rate + CAMPAIGN_EFFECT), drawn_arm(dice, 4, rate))
        for root, rate in enumerate(rates)
    ]
    return holds(campaigned.finding(pairs).cells[0].interval, CAMPAIGN_EFFECT)


def one_of_a_campaign_shown(forks: int, tries: int) -> World:
    """Read the page of each fork of a campaign whose change does nothing, and pick the best."""
    share = forked.FIRST / forks

    def play(dice: random.Random) -> bool | None:
        rates = [dice.random() for _ in range(forks)]
        pairs = [(drawn_arm(dice, tries, rate), drawn_arm(dice, tries, rate)) for rate in rates]
        shown = (forked.finding(*pair, "", "", beside=forks - 1, share=share) for pair in pairs)
        return any(fork.verdict for fork in shown)

    return play


def one_answer_shown(episodes: int) -> World:
    """Ask in 24 roots, where an answer helps or hurts by 20 points, as often: one answer for this many of them."""

    def play(dice: random.Random) -> bool | None:
        gains = [dice.choice([0.2, -0.2]) for _ in range(24)]
        pairs = []
        for root in range(24):
            answer, rate = root // episodes, dice.choice([0.3, 0.4, 0.5, 0.6])
            arms = drawn_arm(dice, 4, rate + gains[answer]), drawn_arm(dice, 4, rate)
            pairs.append(RootPair(f"{root}", "k", 0, *arms, frozenset({f"{answer}"})))
        return bool(campaigned.finding(pairs).cells[0].verdict)

    return play


def asking_covers(dice: random.Random) -> bool | None:
    """Play arms of which one finds a task's blocker more often.

    Another question of either arm is needless in half of the tasks."""
    chances, rows = (0.7, 0.4), []
    for task in range(60):
        for arm, chance in zip(("gate", "always"), chances, strict=True):
            found, more = int(dice.random() < chance), int(dice.random() < 0.5)
            rows.append(EpisodeAsks(f"{task}", "s", arm, found + more, found, found, 1))
    # with one blocker F1 is 1 for one question that matches, and 2/3 with a needless one
    mean = (1 + 2 / 3) / 2
    shown = next(row for row in asking.differences(rows, "gate", "always") if row.metric == "f1")
    return holds(shown.interval, mean * (chances[0] - chances[1]))


def cases() -> Iterator[PlantedCase]:
    case = partial(PlantedCase, covers=True)
    yield case("Run: pass at k", "60 tasks x 4 seeds", repeats_cover)
    for scenarios in (6, 12):
        yield case("Curve: complete", f"{scenarios} scenarios x 10 episodes", curve_covers(scenarios))
    for scenarios in (36, 72):
        world = f"{scenarios} scenarios x 4 episodes, one answer for six of them"
        yield case("Curve: complete", world, curve_of_one_answer_covers(scenarios))
    for tasks in (8, 16):
        yield case("Curriculum: share of a step", f"{tasks} tasks x 8 rollouts", step_covers(tasks))
    yield case("Curriculum: mean of a level", "20 tasks x 8 rollouts", level_covers)
    yield case("Curriculum: rate of a task", "16 rollouts", task_covers)
    yield case("Review: share of episodes", "30 episodes, drawn at random", accepted_covers)
    for tasks, items in ((4, 8), (10, 4)):
        yield case("Review: gold items", f"{tasks} tasks x {items} items, alike in one task", gold_covers(tasks, items))
    yield case("Fork: share of a lane", "16 branches", lane_covers)
    yield case("Fork: share of a lane", "16 branches, half of them went on alike", alike_lane_covers)
    for tries in (4, 8, 16):
        yield case("Fork: interval", f"{tries} v {tries}, any two rates", fork_covers(tries))
    for forks, tries in ((24, 8), (24, 16)):
        world = f"no effect, the best of {forks} forks of a campaign, {tries} v {tries}"
        yield PlantedCase("Fork: better or worse", world, one_of_a_campaign_shown(forks, tries), share=0.475)
    for episodes in (1, 4, 24):
        world = f"24 roots x 4, an answer helps or hurts by 20 points, one for {episodes} of them"
        yield PlantedCase("Campaign: shown", world, one_answer_shown(episodes), share=0.475)
    yield case("Campaign: interval of a place", "24 roots x 4, 15 points more", place_covers)
    yield case("Ask-F1: difference", "60 tasks, blockers found in 70% and 40%", asking_covers)
