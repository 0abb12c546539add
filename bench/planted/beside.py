"""Statements beside those of runs, in planted worlds: how often agreement, metrics, forks, campaigns, pairs and the
curriculum say something false, what their intervals cover, and how long the curriculum takes.

Run as `python -m bench.planted.beside` (part of `make planted`); it writes docs/measured/planted-beside.md. A world is
a function of its number, so that each repeat is the same on every machine. After a stop it goes on with the cases that
are missing.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
import django

django.setup()

from awmenv.blockers import BadRegistry, matched, read_blockers  # noqa: E402
from bench.planted import asking, corrected, decisive, learning, rows, sampled, shares, stored, truth, waits  # noqa: E402
from bench.planted.case import Kept, PlantedCase, World, pool  # noqa: E402
from bench.planted.corrected import drawn_arm  # noqa: E402
from experts.metrics import statistics  # noqa: E402
from experts.metrics.statistics import Asked, Proportion  # noqa: E402
from reviews.statistics import agreement  # noqa: E402
from runs.show.comparison import evaluate  # noqa: E402
from runs.statistics import campaigned, forked, rereading, worth  # noqa: E402
from runs.statistics.campaigned import RootPair  # noqa: E402
from runs.statistics.forked import ForkArm, ForkFinding  # noqa: E402
from runs.statistics.random_asking import episodes_of, random_asking  # noqa: E402

TABLE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "planted-beside.md"


def judged_items(dice: random.Random, items: int, accepted: float, right: float = 0.9) -> list[dict[str, str]]:
    """Return the labels of two judges who are right this often, of items of which this share is accepted."""
    flip = {"accept": "reject", "reject": "accept"}
    rows = []
    for _ in range(items):
        truth = "accept" if dice.random() < accepted else "reject"
        rows.append({judge: truth if dice.random() < right else flip[truth] for judge in ("ada", "ben")})
    return rows


def alpha_of(accepted: float, right: float = 0.9) -> float:
    """Return Krippendorff's alpha of endlessly many such items."""
    differ, first = 2 * right * (1 - right), accepted * right + (1 - accepted) * (1 - right)
    return 1 - differ / (2 * first * (1 - first))


def alpha_covers(items: int, accepted: float, right: float = 0.9) -> World:
    def play(dice: random.Random) -> bool | None:
        rows = judged_items(dice, items, accepted, right)
        low, high = agreement.interval(rows, [f"{place}" for place in range(items)])
        return None if low is None or high is None else low <= alpha_of(accepted, right) <= high

    return play


def alpha_of_tasks_covers(tasks: int, each: int, clear: float) -> World:
    """Half of the tasks are to be accepted. In clear ones judges are always right, in the others they guess."""

    def play(dice: random.Random) -> bool | None:
        items, of_task = [], []
        for task in range(tasks):
            right, accepted = 1.0 if dice.random() < clear else 0.5, dice.choice([0.0, 1.0])
            items += judged_items(dice, each, accepted, right)
            of_task += [f"{task}"] * each
        figures = agreement.agreement(items, of_task)
        if figures.alpha_low is None or figures.alpha_high is None:
            return None
        # half of all labels are accept, so that chance alone differs in half of the items
        return figures.alpha_low <= clear <= figures.alpha_high

    return play


def tasks_covered(tasks: int, seeds: int) -> World:
    """Tasks differ in how hard they are; every episode of one asks once."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for task in range(tasks):
            rate = dice.betavariate(0.5, 0.5)
            asks += [Asked(f"{task}/{n}", f"{task}", complete=dice.random() < rate) for n in range(seeds)]
        return _holds(statistics.desk_line(asks).completed, 0.5)

    return play


def unequal_covered(dice: random.Random) -> bool | None:
    """Thirty episodes ask once, two ask 20 times; whether the agent reads an answer is nearly one draw for each."""
    asks = []
    for episode, size in enumerate([1] * 30 + [20] * 2):
        luck = dice.random() < 0.5
        asks += [Asked(f"{episode}", read=luck if dice.random() < 0.8 else dice.random() < 0.5) for _ in range(size)]
    return _holds(Proportion.of_asks(asks, lambda ask: ask.read), 0.5)


def waits_covered(size: int, deadline: float = math.inf) -> World:
    """Asks come in groups and wait for the same people: most of a wait is its group's. The median is 60 s."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for group in range(100 // size):
            same = dice.gauss(0, 0.9 if size > 1 else 0.0)
            for number in range(size):
                wait = 60 * math.exp(same + dice.gauss(0, 0.4))
                status = "answered" if wait < deadline else "fell_back"
                asked_s = 1e6 * group + number
                asks.append(Asked(f"{group}/{number}", asked_s=asked_s, status=status, waited_s=min(wait, deadline)))
        seen = statistics.waits(asks)
        return None if seen.low is None else seen.low <= 60 and (seen.high is None or seen.high >= 60)

    return play


def rate_covered(dice: random.Random) -> bool | None:
    """Twelve episodes of five asks; people are fast or slow on all asks of one. The rate is that of endlessly many."""
    asks = []
    for episode in range(12):
        slow = math.exp(dice.gauss(0, 0.6))
        asks += [Asked(f"{episode}", took_s=120 * slow, read=dice.random() < 0.8) for _ in range(5)]
    seen, mean = statistics.per_hour(asks), 120 * math.exp(0.6**2 / 2)
    return None if seen.low is None or seen.high is None else seen.low <= 0.8 * 3600 / mean <= seen.high


def roots_of(
    dice: random.Random, effects: Sequence[float], roots: int, tries: int, rates: Sequence[float] | None = None
) -> list[RootPair]:
    """Return the branches of roots that differ in how hard they are; the change adds its effect at each place."""

    rates = rates or [dice.choice([0.1, 0.2, 0.3, 0.5, 0.6]) for _ in range(roots)]
    return [
        RootPair(f"{root}", "k", at, drawn_arm(dice, tries, rate + effect), drawn_arm(dice, tries, rate))
        for root, rate in enumerate(rates)
        for at, effect in enumerate(effects)
    ]


def campaign_covers(effect: float, roots: int, tries: int) -> World:
    """Quote the latest of five places at which something is shown; all have this effect."""

    def play(dice: random.Random) -> bool | None:
        shown = [one for one in campaigned.finding(roots_of(dice, [effect] * 5, roots, tries)).cells if one.verdict]
        span = shown[-1].together if shown else None
        return None if span is None else span[0] <= effect <= span[1]

    return play


def turns_further(dice: random.Random) -> bool | None:
    """Ten campaigns of the same words that do nothing, each a turn further; a person reads after each of them."""
    rates = [dice.choice([0.1, 0.2, 0.3, 0.5, 0.6]) for _ in range(24)]
    seen = [roots_of(dice, [0.0], 24, 4, rates) for _ in range(10)]
    ends = [datetime(2026, 11, 29, 12, number) for number in range(10)]
    parts = forked.shares([(end, end) for end in ends])
    return any(campaigned.finding(pairs, share=part).cells[0].verdict for pairs, part in zip(seen, parts, strict=True))


def forks_in_order(tries: int, forks: int) -> World:
    """Ask one fork after the other of a tree without any effect, and stop at the first word."""

    def play(dice: random.Random) -> bool | None:
        rate = dice.uniform(0.2, 0.8)
        ends = [datetime(2026, 11, 29, 12, number) for number in range(forks)]
        for part in forked.shares([(end, end) for end in ends]):
            arms = [drawn_arm(dice, tries, rate) for _ in range(2)]
            if forked.finding(*arms, "", "", forks=forks, share=part).verdict:
                return True
        return False

    return play


def changes_of(dice: random.Random, tries: int, nothing: float, forks: int = 100) -> list[tuple[float, ForkFinding]]:
    """Return the true effects of changes with what their forks show: this share does nothing, the others help."""
    seen = []
    for _ in range(forks):
        effect = 0.0 if dice.random() < nothing else dice.uniform(0.1, 0.4) if nothing else 0.25
        rate = dice.uniform(0.1, 0.6)
        treated, control = drawn_arm(dice, tries, rate + effect), drawn_arm(dice, tries, rate)
        seen.append((effect, forked.finding(treated, control, "", "")))
    return seen


def worth_covers(tries: int, nothing: float) -> World:
    """Take one pair of a dataset: a fork that was picked for its difference, among a hundred that were asked."""

    def play(dice: random.Random) -> bool | None:
        seen = changes_of(dice, tries, nothing)
        picked = [(effect, one) for effect, one in seen if one.verdict]
        if not picked:
            return None
        effect, one = dice.choice(picked)
        prior = worth.learned([(fork.treated, fork.control) for _, fork in seen])
        change = worth.worth_of(one.treated, one.control, prior)
        return change.low <= effect <= change.high

    return play


def share_covers(tries: int, nothing: float) -> World:
    """Make a dataset of the pairs that 300 forks show, and say which share of them is wrong."""

    def play(dice: random.Random) -> bool | None:
        seen = changes_of(dice, tries, nothing, 300)
        prior = worth.learned([(fork.treated, fork.control) for _, fork in seen])
        pairs = [(effect, fork) for effect, fork in seen if fork.verdict]
        if not pairs:
            return None
        arms = [(fork.treated, fork.control) for _, fork in pairs]
        _, low, high = worth.share_wrong([worth.worth_of(*both, prior).wrongs for both in arms])
        wrong = sum(not effect or (effect > 0) != (fork.verdict == "better") for effect, fork in pairs)
        return low <= wrong / len(pairs) <= high

    return play


def siblings_cover(rollouts: int, nothing: float) -> World:
    """Take a pair of siblings: rollouts of a task choose one of two actions, and only one action was ever complete."""

    def play(dice: random.Random) -> bool | None:
        effect = 0.0 if dice.random() < nothing else dice.choice([-1, 1]) * dice.uniform(0.1, 0.4)
        middle = dice.uniform(0.25, 0.75)
        ends: dict[int, list[bool]] = {1: [], -1: []}
        for _ in range(rollouts):
            side = dice.choice([1, -1])
            ends[side].append(dice.random() < middle + side * effect / 2)
        chosen = [side for side, seen in ends.items() if any(seen) and ends[-side] and not any(ends[-side])]
        if not chosen:
            return None
        good, bad = ends[chosen[0]], ends[-chosen[0]]
        arms = ForkArm(len(good), len(good), sum(good)), ForkArm(len(bad), len(bad), 0)
        change = worth.worth_alone(*arms)
        return change.low <= chosen[0] * effect <= change.high

    return play


def fork_without_effect(tries: int) -> World:
    """Make one fork whose change does nothing, at a rate of any size."""

    def play(dice: random.Random) -> bool | None:
        rate = dice.uniform(0.05, 0.95)
        arms = [drawn_arm(dice, tries, rate) for _ in range(2)]
        return bool(forked.finding(*arms, "", "").verdict)

    return play


def repaired_covers(dice: random.Random) -> bool | None:
    """Make an arm 15 points worse; people open what it lost, and repair that until it has won as much."""
    run = truth.planted(100, 1, "even", f"repaired/{dice.random()}", uplift=-0.15)
    complete = {(each.task, each.arm): each.complete for each in run.tries}
    both = [(complete[task, truth.TREATED], complete[task, truth.CONTROL], task) for task, _ in complete]
    lost = sorted({task for treated, control, task in both if control and not treated})
    won = len({task for treated, control, task in both if treated and not control})
    opened = set(lost[: max(0, len(lost) - won)])
    tries = [
        replace(each, complete=True) if each.arm == truth.TREATED and each.task in opened else each
        for each in run.tries
    ]
    (first,), (now,) = (evaluate(run.said, each)[0] for each in (run.tries, tries))
    scope = rereading.contrast(now, first, {truth.TREATED: len(opened)}).tasks_scope
    return None if scope is None or scope.interval is None else scope.interval[0] <= run.truth <= scope.interval[1]


def repaired_fork_covers(dice: random.Random) -> bool | None:
    """Make a change 25 points worse; people repair branches that it lost until it has won as much."""
    treated, control = (drawn_arm(dice, 16, rate) for rate in (0.35, 0.6))
    fair = replace(treated, complete=max(treated.complete, control.complete))
    now, first = (forked.finding(arm, control, "", "") for arm in (fair, treated))
    span = rereading.fork(now, first).interval
    return None if span is None else span[0] <= -0.25 <= span[1]


@lru_cache
def random_complete(rate: float) -> float:
    """Return the share of complete episodes with random offers at this rate, of 40,000."""
    dice = random.Random(f"truth/{rate}")
    ends = [asking.play(task, lambda _, own: own.random() < rate, dice).complete for task in asking.tasks(dice, 40_000)]
    return sum(ends) / len(ends)


def random_covers(rate: float) -> World:
    """Draw offers with chance 0.2 in 600 episodes, and estimate what another rate reaches."""

    def play(dice: random.Random) -> bool | None:
        rows = random_asking(episodes_of(asking.drawn(dice, needs=True)))
        span = next((row.interval for row in rows if row.rate == rate), None)
        return None if span is None else span[0] <= random_complete(rate) <= span[1]

    return play


WORDS = [f"word{number}" for number in range(200)]


def copy_matches(dice: random.Random) -> bool | None:
    """Send a task's text as the question, with words around it. Terms are mostly words of the text, as ours are."""
    text = dice.choices(WORDS, k=dice.randint(20, 80))
    terms = [dice.sample(text, 3) + dice.sample(WORDS, 2) for _ in range(dice.randint(1, 3))]
    row = {"id": "fact", "missing": "A fact.", "holder": "Hanna", "terms": terms, "answer": "It is so."}
    try:
        registry = read_blockers([row], " ".join(text))
    except BadRegistry:
        return None
    around = dice.choice(["", "Please help me with this: {}", "{} I am stuck.", "What should I do? {}"])
    return matched((around or "{}").format(" ".join(text)), registry) is not None


def _holds(share: Proportion, truth: float) -> bool | None:
    return None if share.low is None or share.high is None else share.low <= truth <= share.high


def cases() -> Iterator[PlantedCase]:
    """Yield every case, by subject."""
    # few worlds with a rare label have an interval
    for items, accepted, right, part in (
        (20, 0.5, 0.9, 0.475),
        (20, 0.9, 0.95, 3),
        (20, 0.95, 0.98, 40),
        (40, 0.95, 0.98, 2),
        (100, 0.9, 0.95, 0.3),
    ):
        world = f"{items} items, {accepted:.0%} accepted, judges right in {right:.0%}"
        yield PlantedCase("Interval of alpha", world, alpha_covers(items, accepted, right), covers=True, share=part)
    for tasks, each, clear in ((6, 10, 0.5), (12, 10, 0.8), (20, 10, 0.9), (30, 4, 0.7)):
        world = f"{tasks} tasks x {each} items, judges are right in {clear:.0%} of the tasks and guess in the others"
        play = alpha_of_tasks_covers(tasks, each, clear)
        yield PlantedCase("Interval of alpha", world, play, covers=True, share=0.3)
    for tasks, seeds in ((12, 8), (24, 4), (96, 1)):
        world = f"{tasks} tasks x {seeds} episodes"
        yield PlantedCase("Metrics: episode completed", world, tasks_covered(tasks, seeds), covers=True)
    yield PlantedCase("Metrics: share of asks", "30 episodes ask once, 2 ask 20 times", unequal_covered, covers=True)
    for size in (1, 5, 10):
        yield PlantedCase("Metrics: median wait", f"100 asks in groups of {size}", waits_covered(size), covers=True)
    for deadline in (60, 90):
        world = f"100 asks, median 60 s, deadline {deadline} s"
        yield PlantedCase("Metrics: median wait", world, waits_covered(1, deadline), covers=True)
    for effect, roots, tries in ((0.1, 60, 2), (0.12, 24, 4)):
        world = f"effect of {100 * effect:.0f} points, {roots} roots x {tries}, five places"
        yield PlantedCase("Campaign: interval", world, campaign_covers(effect, roots, tries), covers=True, share=0.8)
    for tries in (4, 8, 16, 32):
        yield PlantedCase("Fork: better or worse", f"no effect, {tries} v {tries}", fork_without_effect(tries))
    for tries, forks in ((8, 12), (16, 12), (32, 30)):
        world = f"no effect, {forks} forks of {tries} v {tries}, each after the last was read"
        yield PlantedCase("Fork: better or worse", world, forks_in_order(tries, forks), share=0.475)
    world = "no effect, ten of the same words, each a turn further"
    yield PlantedCase("Campaign: shown", world, turns_further, share=0.475)
    for tries, nothing in ((4, 0.6), (8, 0.6), (16, 0.6), (4, 0.0), (8, 0.0)):
        effects = f"{nothing:.0%} of changes do nothing" if nothing else "all help by 25 points"
        world = f"{tries} v {tries}, {effects}"
        yield PlantedCase("Pair: interval of worth", world, worth_covers(tries, nothing), covers=True, share=0.475)
    for tries, nothing in ((8, 0.6), (16, 0.6), (16, 0.0)):
        effects = f"{nothing:.0%} of changes do nothing" if nothing else "all help by 25 points"
        world = f"300 forks of {tries} v {tries}, {effects}"
        yield PlantedCase("Card: share of wrong pairs", world, share_covers(tries, nothing), covers=True, share=0.3)
    for rollouts, nothing in ((2, 0.6), (4, 0.6), (8, 0.6), (8, 0.0)):
        world = f"{rollouts} rollouts, {nothing:.0%} of differences do nothing"
        yield PlantedCase("Siblings: interval of worth", world, siblings_cover(rollouts, nothing), covers=True, share=2)
    world = "100 tasks, 15 points worse, what it lost is repaired until it won as much"
    yield PlantedCase("Erratum: interval of a run", world, repaired_covers, covers=True, share=0.475)
    world = "16 v 16, 25 points worse, what it lost is repaired until it won as much"
    yield PlantedCase("Erratum: interval of a fork", world, repaired_fork_covers, covers=True)
    yield from corrected.cases()
    yield from decisive.cases()
    yield from shares.cases()
    yield from waits.cases()
    for rate in (0.1, 0.2, 0.3, 0.4):
        world = f"{rate:.0%} of turns, from 600 episodes drawn at 20%"
        yield PlantedCase("Curve: random offers", world, random_covers(rate), covers=True, share=0.3)
    yield PlantedCase("Ask-F1: a copy of the task", "terms of the task's text, words around the copy", copy_matches)
    for world, errors in sampled.WORLDS.items():
        for tasks, seeds, drawn in ((60, 1, 60), (60, 4, 80), (150, 1, 80)):
            sizes = f"{tasks} tasks x {seeds}, {drawn} of {2 * tasks * seeds} drawn"
            play = sampled.covers(tasks, seeds, drawn, errors)
            yield PlantedCase("Corrected difference", f"{world}; {sizes}", play, covers=True, share=0.475)
            play = sampled.is_on_a_wrong_side(tasks, seeds, drawn, errors)
            yield PlantedCase("Corrected difference: on a wrong side of 0", f"{world}; {sizes}", play, share=0.475)
        play = sampled.rate_covers(150, 1, 80, errors)
        yield PlantedCase("Corrected rate", f"{world}; 150 tasks x 1, 80 of 300 drawn", play, covers=True, share=0.475)
    yield PlantedCase("Arm against itself: better or worse", "60 tasks x 4", sampled.itself_says, share=0.475)
    yield from learning.cases()
    yield from stored.cases()
    yield PlantedCase("Metrics: used per hour", "12 episodes of 5 asks", rate_covered, covers=True)


def counts(place: int, repeats: int) -> tuple[int, int]:
    """Count the case at this place; worlds are functions, which no other process is sent."""
    return list(cases())[place].counts(repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose subject begins so; writes no page")
    parser.add_argument("--stored", action="store_true", help="only cases with rows in a database; writes no page")
    parser.add_argument("--output", type=Path, default=TABLE)
    asked = parser.parse_args()
    kept, begun = Kept("beside"), time.monotonic()
    chosen = {
        place: case
        for place, case in enumerate(cases())
        if case.subject.startswith(asked.only) and case.stored >= asked.stored
    }
    keys = {place: (case.subject, case.world, asked.repeats) for place, case in chosen.items()}
    missing = [place for place in chosen if keys[place] not in kept]
    needs_rows = any(chosen[place].stored for place in missing)
    with rows.database() if needs_rows else nullcontext(), pool(asked.processes) as workers:
        submitted = {workers.submit(counts, place, asked.repeats): place for place in missing}
        for future in as_completed(submitted):
            place = submitted[future]
            kept.keep(keys[place], future.result())
            print(row_of(chosen[place], asked.repeats, *kept[keys[place]]), flush=True)
    lines = [(case, asked.repeats, *kept[keys[place]]) for place, case in chosen.items()]
    if len(lines) == len(list(cases())):
        how = f"`python -m bench.planted.beside --repeats {asked.repeats}`: {kept.took(begun)}"
        asked.output.write_text(page([row_of(*line) for line in lines], how), encoding="utf-8")
        kept.forget()
    wrong = [
        row_of(case, repeats, part, said)
        for case, repeats, part, said in lines
        if not case.holds(part, said if case.covers else case.worlds(repeats))
    ]
    if wrong:
        raise SystemExit("beyond three Monte Carlo errors:\n" + "\n".join(wrong))


def row_of(case: PlantedCase, repeats: int, part: int, said: int) -> str:
    """Return the line of a case. Where nothing is said, nothing is false and nothing covers."""
    worlds = case.worlds(repeats)
    of = said if case.covers else worlds
    share = part / of if of else 0.0
    error = 100 * math.sqrt(share * (1 - share) / of) if of else 0.0
    numbers = f"{100 * share:.1f} | {error:.1f}" if said else "withheld | "
    what = "covers" if case.covers else "false"
    return f"| {case.subject} | {case.world} | {what} | {worlds:,} | {said:,} | {numbers} |"


def page(lines: list[str], how: str) -> str:
    head = [
        "# Planted truth beside runs",
        "",
        "The last run of `make planted` for statements beside those of runs. A word may be false in at most 5% of",
        "worlds. An interval, or a number that is exact, must hold the truth in at least 93% of those that say it.",
        "Each has three Monte Carlo errors of room.",
        "",
        "- *Say it* counts worlds with a statement. In the others it is withheld, which is never false.",
        "- Worlds of a server, of erasing, of a model that repeats itself and of edited answers have rows in a",
        "  database. The product's own functions write, erase and read them.",
        "",
        "| what is said | planted world | kind | worlds | say it | percent | Monte Carlo error |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join([*head, *lines, "", f"{how}.", ""])


if __name__ == "__main__":
    main()
