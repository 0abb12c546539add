"""Agents whose need for help is planted: what a gate claims without a need, and what it reaches with one.

Run as `python -m bench.planted.asking` (`make planted` runs it, too); it writes docs/measured/asking.md and the chart
of docs/asking.md. An agent works through turns of calls. In half of the tasks a fact is missing from some turn on, once
or twice: its calls repeat and bring nothing new until it has asked. Other tasks are flaky: reads fail in a row there,
which looks like trouble and which no advice ends. Without a need all of this is seen as well, and advice changes
nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
# one fit is small: threads of its own would only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
import django

django.setup()

from awmclient.asking.rules import FEATURES, Row  # noqa: E402
from bench.planted.case import Kept, pool  # noqa: E402
from people.text.in_words import percent  # noqa: E402
from runs.show import curve, drawing  # noqa: E402
from runs.statistics.asking import ArmAsking, EpisodeAsks, of_arms  # noqa: E402
from runs.statistics.gating import PRICE, DrawnDecision, Fitted, fit  # noqa: E402
from runs.statistics.random_asking import episodes_of, random_asking  # noqa: E402

SCENARIOS, TASKS, SEEDS, FRESH = 12, 25, 2, 600
"""Scenarios, tasks of each and seeds that a gate is fitted on; and tasks that it is tried on afterwards."""
CHANCE, MAX_ASKS, TURNS, WORK = 0.2, 5, 16, 6
"""The chance of an offer while data are drawn, the limits of an episode, and the turns of work that a task takes."""
COMPLIES = 0.95
NULL, NEEDED = 200, 20
CLAIMED, F1, ASKS = 0.05, 0.80, 0.40
"""The aims: false claims, Ask-F1 of the gate, and its asks beside those of *always*."""
DOCS = Path(__file__).resolve().parents[2] / "docs"
Policy = Callable[[Row, random.Random], bool]


@dataclass
class Episode:
    """One episode: its decisions so far, and how it asked."""

    decisions: list[tuple[Row, bool, bool]] = field(default_factory=list)
    asks: int = 0
    matched: int = 0
    found: int = 0
    complete: bool = False


@dataclass(frozen=True)
class Task:
    """A task of the family: the work after which each fact is missing, and whether its reads fail in a row."""

    scenario: str
    key: str
    missing: tuple[int, ...]
    is_flaky: bool
    ease: float


def tasks(dice: random.Random, number: int, name: str = "s") -> Iterator[Task]:
    for place in range(number):
        scenario = f"{name}{place % SCENARIOS}"
        is_blocked = dice.random() < 0.5
        missing = tuple(sorted(dice.sample(range(1, WORK), dice.choice([1, 1, 2])))) if is_blocked else ()
        yield Task(
            scenario, f"{scenario}/{place}", missing, not is_blocked and dice.random() < 0.6, dice.uniform(0.8, 1)
        )


def play(task: Task, offers: Policy, dice: random.Random, *, needs: bool = True, max_asks: int = MAX_ASKS) -> Episode:
    """Play a task; after each turn of calls `offers` decides, and an agent that is offered help asks."""
    done, asked_for, errors, repeats, stalled = 0, 0, 0, 0, 0
    burst, seen, found = 0, dice.random() < 0.5, Episode()
    for turn in range(1, TURNS + 1):
        is_blocked = asked_for < len(task.missing) and done >= task.missing[asked_for]
        if task.is_flaky and burst == 0 and dice.random() < 0.3:
            burst = dice.randint(2, 5)
        is_burst, burst = burst > 0, max(0, burst - 1)
        # what the agent cannot see is the difference between its own mistakes and a fact that is missing
        failed = dice.random() < (0.5 if is_blocked else 0.9 if is_burst else 0.1)
        again = dice.random() < (0.9 if is_blocked else 0.05)
        brings = not failed and dice.random() < (0.1 if is_blocked else 0.95)
        writes = dice.random() < (0.85 if is_blocked else 0.1 if is_burst else 0.5)
        errors, repeats = (errors + 1 if failed else 0), (repeats + 1 if again else 0)
        stalled = 0 if brings else stalled + 1
        # without a need the same is seen, and the work goes on at the pace of an agent that no advice helps
        done += (dice.random() < 0.4) if not needs else (not is_blocked and not failed)
        if done >= WORK:
            break
        if found.asks >= max_asks:
            continue
        raw = (turn, errors, repeats, stalled, dice.expovariate(1), writes, found.asks, seen)
        row = tuple(min(one.most, float(value)) / one.most for one, value in zip(FEATURES.values(), raw, strict=True))
        offered = offers(row, dice)
        asks = offered and dice.random() < COMPLIES
        found.decisions.append((row, offered, asks))
        if offered:
            errors = stalled = 0  # a reminder starts these counts again, as it does in the loop
        if asks:
            found.asks += 1
            is_open = asked_for < len(task.missing) and done >= task.missing[asked_for]
            found.matched += is_open
            found.found += is_open
            asked_for += is_open
    found.complete = done >= WORK and dice.random() < task.ease
    return found


def drawn(dice: random.Random, *, needs: bool) -> list[DrawnDecision]:
    """Return the decisions of a run with `ask: random:0.2`."""
    found = []
    for task in tasks(dice, SCENARIOS * TASKS):
        for seed in range(SEEDS):
            one = play(task, lambda _, dice: dice.random() < CHANCE, dice, needs=needs)
            found += [
                DrawnDecision(f"{task.key}/{seed}", task.scenario, row, offered, CHANCE, one.complete, asked)
                for row, offered, asked in one.decisions
            ]
    return found


def fitted(number: int, *, needs: bool) -> Fitted:
    return fit(drawn(random.Random(f"{needs}/{number}"), needs=needs))


@dataclass(frozen=True)
class Tried:
    """A policy on fresh tasks: its questions, and its point of the curve."""

    asking: ArmAsking
    point: curve.Point


RULES = {
    "never": "never",
    "agent's own": "own",
    "random": "random:rate",
    "reminders": "reminders",
    "learned gate": "gate",
    "always": "always",
    "always, no limit": "always",
}


def tried(found: Fitted, number: int) -> dict[str, Tried]:
    """Play fresh tasks, of other scenarios, under each policy."""
    policies: dict[str, Policy] = {
        "never": lambda *_: False,
        "agent's own": lambda row, dice: row[1] >= 0.5 and dice.random() < 0.15,
        "random": lambda _, dice: dice.random() < found.rate,
        # two errors in a row, or five turns without news: a plan's defaults
        "reminders": lambda row, _: row[1] >= 0.5 or row[3] >= 1,
        "learned gate": lambda row, _: found.gate.offers(row),
        "always": lambda *_: True,
        "always, no limit": lambda *_: True,
    }
    results = {}
    for name, policy in policies.items():
        most = TURNS if "no limit" in name else MAX_ASKS
        dice = random.Random(f"fresh/{number}/{name}")
        fresh = tasks(random.Random(f"fresh/{number}"), FRESH, "fresh")
        episodes = [(task, play(task, policy, dice, max_asks=most)) for task in fresh]
        asks = [
            EpisodeAsks(task.key, task.scenario, name, one.asks, one.matched, one.found, len(task.missing))
            for task, one in episodes
        ]
        [arm] = of_arms(asks, [name])
        units: dict[str, list[bool]] = defaultdict(list)
        for task, one in episodes:
            units[task.scenario].append(one.complete)
        complete = sum(one.complete for _, one in episodes)
        span = curve.interval_of(units)
        looks = {
            "is_gate": name == "learned gate",
            "is_untimed": RULES[name].startswith(("never", "always", "random:")),
        }
        point = curve.Point(name, RULES[name], len(episodes), complete, arm.asks, 0.0, span, **looks)
        results[name] = Tried(arm, point)
    return results


def one_of(number: int, *, needs: bool) -> tuple[bool, float, dict[str, Tried]]:
    """Return whether a run's gate claims something, the share of turns at which it offers, and what it reaches."""
    found = fitted(number, needs=needs)
    return found.claims, found.rate, tried(found, number) if needs else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=NULL, help="without a need; a tenth as many have one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=DOCS / "measured" / "asking.md")
    parser.add_argument("--chart", type=Path, default=DOCS / "images" / "asking.png")
    given = parser.parse_args()
    begun, needed = time.monotonic(), max(1, given.runs * NEEDED // NULL)
    kept = Kept("asking")
    with pool(given.processes) as workers:
        with_need = list(workers.map(partial(one_of, needs=True), range(needed)))
        missing = [number for number in range(given.runs) if (number,) not in kept]
        for number, (claims, _, _) in zip(missing, workers.map(partial(one_of, needs=False), missing), strict=True):
            kept.keep((number,), claims)
    how = f"`python -m bench.planted.asking --runs {given.runs}`: {kept.took(begun)}"
    text, wrong = table(with_need, [kept[(number,)] for number in range(given.runs)], how)
    given.output.write_text(text, encoding="utf-8")
    kept.forget()
    shown = [one.point for name, one in with_need[0][2].items() if name != "always, no limit"]
    at_random = random_asking(episodes_of(drawn(random.Random("True/0"), needs=True)))
    if charts := curve.charts(shown, "", at_random=at_random):
        drawing.draw(charts["curve"], given.chart)
    print(text)
    if wrong:
        raise SystemExit("\n".join(wrong))


def table(
    with_need: list[tuple[bool, float, dict[str, Tried]]], claimed: list[bool], how: str
) -> tuple[str, list[str]]:
    """Return the page, and the aims that are missed."""
    names = list(with_need[0][2])
    rows, means = [], {}
    for name in names:
        mine = [one[name] for _, _, one in with_need]
        numbers = [
            sum(one.point.rate for one in mine) / len(mine),
            sum(one.asking.per_task or 0 for one in mine) / len(mine),
            sum(one.asking.precision or 0 for one in mine) / len(mine),
            sum(one.asking.recall or 0 for one in mine) / len(mine),
            sum(one.asking.f1 or 0 for one in mine) / len(mine),
            min(one.asking.f1 or 0 for one in mine),
        ]
        means[name] = numbers
        rows.append(f"| {name} | {percent(numbers[0])} | " + " | ".join(f"{one:.2f}" for one in numbers[1:]) + " |")
    gate, always = means["learned gate"], means["always"]
    share = sum(claimed) / len(claimed)
    error = f"Monte Carlo error {100 * math.sqrt(share * (1 - share) / len(claimed)):.1f} points"
    false = f"False claims without a need: {percent(share)} of {len(claimed)} runs (at most 5%), {error}."
    aims = [
        (share <= CLAIMED, false),
        (gate[4] >= F1, f"Ask-F1 of the gate: {gate[4]:.2f} (at least {F1:.2f})."),
        (gate[0] >= always[0], f"Complete with the gate {percent(gate[0])}, with *always* {percent(always[0])}."),
        (gate[1] <= ASKS * always[1], f"Asks of the gate: {percent(gate[1] / always[1])} of *always* (at most 40%)."),
    ]
    right = sum(claims for claims, _, _ in with_need)
    lines = [
        "# When to ask: planted needs",
        "",
        "The last run of `make planted` for gates ([asking](../asking.md#fit-a-gate)). Agents are a simulation over",
        "rows: no model, no server. Each run draws its offers with chance 0.2, fits a gate as `manage.py asking` does,",
        f"and tries it on {FRESH} fresh tasks of other scenarios.",
        "",
        "- **What decides.** A fact is missing in half of the tasks, once or twice: calls repeat, mostly writes, and",
        "  bring nothing new until it is asked for.",
        "- **What misleads.** In other tasks reads fail in a row, and advice changes nothing. Doubt, the turn and",
        "  earlier play say nothing.",
        "- **Without a need** all of this is seen as well, and whether an episode is complete depends on no ask.",
        "",
        *(f"- {words}{'' if holds else ' **Missed.**'}" for holds, words in aims),
        f"- With a need the gate claims to be better than random offers in {right} of {len(with_need)} runs.",
        "",
        f"Means over {len(with_need)} runs with a need, at most {MAX_ASKS} asks for each episode, price {PRICE}:",
        "",
        "| policy | complete | asks per task | precision | recall | Ask-F1 | lowest Ask-F1 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        "*Always* spends its asks before some facts are missing; without a limit it does not. *Reminders* are the",
        "defaults of a plan, *random* offers at the gate's own rate.",
        "",
        f"{how}.",
        "",
    ]
    return "\n".join(lines), [words for holds, words in aims if not holds]


if __name__ == "__main__":
    main()
