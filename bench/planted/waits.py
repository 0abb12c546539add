"""Waits, calls of models and points of the curve, in planted worlds: what their intervals cover where asks fall back,
agents give up, servers are out of order, and scenarios are few."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import NormalDist

from bench.planted.case import PlantedCase, World
from experts.metrics import statistics
from experts.metrics.statistics import Asked, Called, Proportion
from experts.metrics.times import Middle
from runs.show import curve

DAY_S = 86_400.0
EDO = {"source": "human", "author_key": "user:2", "author": "edo"}
SLOW_S = 60.0


def quoted(seen: Middle, truth: float) -> bool | None:
    """Return whether the interval holds the truth, which is endless if it is never reached."""
    return None if seen.low is None else seen.low <= truth and (seen.high is None or seen.high >= truth)


def reached_by(share: float, spread: float) -> float:
    """Return when half of all are answered if only this share ever is, after about a minute."""
    return SLOW_S * math.exp(spread * NormalDist().inv_cdf(0.5 / share)) if share > 0.5 else math.inf


def unstaffed_covers(share: float, size: int = 1) -> World:
    """Make asks in stretches of this size, of which a share falls back immediately: no one is there, or many wait."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for stretch in range(200 // size):
            is_empty = dice.random() < share
            for number in range(size):
                wait = 0.05 if is_empty else SLOW_S * math.exp(dice.gauss(0, 0.5))
                status, asked_s = "fell_back" if is_empty else "answered", 1e6 * stretch + 1e4 * number
                asks.append(Asked(f"{stretch}/{number}", asked_s=asked_s, status=status, waited_s=wait))
        return quoted(statistics.waits(asks), reached_by(1 - share, 0.5))

    return play


def in_time_covers(share: float, size: int) -> World:
    """Make asks in stretches of this size; for a share of these no one is there."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for stretch in range(200 // size):
            status = "fell_back" if dice.random() < share else "answered"
            asks += [
                Asked(f"{stretch}/{number}", asked_s=1e6 * stretch + 60 * number, status=status, waited_s=90.0)
                for number in range(size)
            ]
        return _holds(statistics.desk_line(asks).in_time, 1 - share)

    return play


def shifts_covers(there_h: float, away_h: float, days: float = 7.0) -> World:
    """Ask five times an hour at a desk that answers quickly while someone is there; times there and away vary."""

    def play(dice: random.Random) -> bool | None:
        asks, at_h = [], 0.0
        is_there = dice.random() < there_h / (there_h + away_h)
        until_h = dice.expovariate(1 / (there_h if is_there else away_h))
        while (at_h := at_h + dice.expovariate(5)) < 24 * days:
            while at_h > until_h:
                is_there = not is_there
                until_h += dice.expovariate(1 / (there_h if is_there else away_h))
            status, waited = ("answered", 5.0) if is_there else ("fell_back", 90.0)
            asks.append(Asked(f"{len(asks)}", asked_s=3600 * at_h, status=status, waited_s=waited))
        return _holds(statistics.desk_line(asks).in_time, there_h / (there_h + away_h))

    return play


def asks_of_days(dice: random.Random, days: int, size: int, hours: float = 8) -> Iterator[Asked]:
    """Yield answered asks of days, spread over these hours of each. The median is a minute, but whole days are slow, by
    who is there."""
    for day in range(days):
        slow = SLOW_S * math.exp(dice.gauss(0, 0.6))
        for number in range(size):
            took, at_s = slow * math.exp(dice.gauss(0, 0.4)), DAY_S * day + 3600 * hours * number / size
            yield Asked(f"{day}/{number}", asked_s=at_s, waited_s=took, took_s=took, read=dice.random() < 0.8, **EDO)


def waits_of_days_cover(days: int, size: int, hours: float = 8) -> World:
    return lambda dice: quoted(statistics.waits(asks_of_days(dice, days, size, hours)), SLOW_S)


def answer_times_of_days_cover(days: int, size: int) -> World:
    return lambda dice: quoted(statistics.answer_times(asks_of_days(dice, days, size)), SLOW_S)


def rate_of_days_covers(days: int, size: int, hours: float = 8) -> World:
    def play(dice: random.Random) -> bool | None:
        rate = statistics.per_hour([*asks_of_days(dice, days, size, hours)])
        mean_h = SLOW_S / 3600 * math.exp((0.6**2 + 0.4**2) / 2)
        return None if rate.low is None or rate.high is None else rate.low <= 0.8 / mean_h <= rate.high

    return play


def declined_covers(days: int, size: int) -> World:
    """On some days a person declines most asks, on others few."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for day in range(days):
            declines = dice.betavariate(1, 2)
            for number in range(size):
                ask = Asked(f"{day}/{number}", asked_s=DAY_S * day + 1200 * number, **EDO)
                passed = Asked(ask.episode, asked_s=ask.asked_s, status="cancelled", passed_by=(EDO["author_key"],))
                asks.append(passed if dice.random() < declines else ask)
        (line,) = statistics.expert_lines(asks, {})
        return _holds(line.passed, 1 / 3)

    return play


def given_up_covers(patience_s: float) -> World:
    """End episodes after about this long, with their ask still open."""

    def play(dice: random.Random) -> bool | None:
        asks = []
        for number in range(100):
            wait, end = (about * math.exp(dice.gauss(0, 0.8)) for about in (SLOW_S, patience_s))
            status = "answered" if wait <= end else "cancelled"
            asks.append(Asked(f"{number}", asked_s=1e6 * number, status=status, waited_s=min(wait, end)))
        return quoted(statistics.waits(asks), SLOW_S)

    return play


def people_cover(dice: random.Random) -> bool | None:
    """Send a third of asks to a model, which answers in two seconds; the wait for people is that of the others."""
    asks = []
    for number in range(120):
        is_model = dice.random() < 1 / 3
        wait = 2.0 if is_model else SLOW_S * math.exp(dice.gauss(0, 0.8))
        source = "llm" if is_model else "human"
        asks.append(Asked(f"{number}", asked_s=1e6 * number, source=source, waited_s=wait))
    return quoted(statistics.waits(asks, for_people=True), SLOW_S)


def calls_of(dice: random.Random, times: int, size: int) -> list[Called]:
    """Return calls at these times, `size` each, a minute apart: a server is out of order, or slow, for all of them."""
    called = []
    for day in range(times):
        fault, slow = "down" if dice.random() < 0.2 else "", 4 * math.exp(dice.gauss(0, 0.6))
        for number in range(size):
            took = slow * math.exp(dice.gauss(0, 0.2))
            called.append(Called("model:m", 1, took, fault, at_s=DAY_S * day + 60 * number))
    return called


def faults_cover(times: int, size: int) -> World:
    def play(dice: random.Random) -> bool | None:
        (line,) = statistics.call_lines(calls_of(dice, times, size))
        return _holds(line.faults, 0.2)

    return play


def durations_cover(times: int, size: int) -> World:
    def play(dice: random.Random) -> bool | None:
        (line,) = statistics.call_lines(calls_of(dice, times, size))
        return quoted(line.took, 4.0)

    return play


def curve_covers(sizes: Sequence[int]) -> World:
    """Make scenarios of these sizes, which differ in how hard they are."""

    def play(dice: random.Random) -> bool | None:
        rates = [dice.betavariate(1, 1) for _ in sizes]
        units = {
            f"{place}": [dice.random() < rate for _ in range(size)]
            for place, (size, rate) in enumerate(zip(sizes, rates, strict=True))
        }
        span = curve.interval_of(units)
        return None if span is None else span[0] <= 0.5 <= span[1]

    return play


def _holds(share: Proportion, truth: float) -> bool | None:
    return None if share.low is None or share.high is None else share.low <= truth <= share.high


def cases() -> Iterator[PlantedCase]:
    case = partial(PlantedCase, covers=True)
    for share in (0.2, 0.4, 0.5, 0.6):
        yield case("Metrics: median wait", f"200 asks, {share:.0%} fall back immediately", unstaffed_covers(share))
    for share in (0.2, 0.4):
        world = f"200 asks, {share:.0%} fall back immediately, 10 after each other"
        yield case("Metrics: median wait", world, unstaffed_covers(share, 10))
    for size in (1, 5, 10):
        yield case("Metrics: in time", f"200 asks, no one there for 20% of times of {size}", in_time_covers(0.2, size))
    for there_h, away_h in ((4, 2), (3, 1), (12, 12)):
        world = f"7 days, someone is there for about {there_h} h, then no one for about {away_h} h"
        yield case("Metrics: in time", world, shifts_covers(there_h, away_h))
    for days, size in ((5, 20), (10, 20), (30, 20)):
        world = f"{days} days of {size} asks, some of them slow"
        if days > 5:  # fewer have no interval of a median
            yield case("Metrics: median wait", world, waits_of_days_cover(days, size))
            yield case("Metrics: answer time", world, answer_times_of_days_cover(days, size))
        yield case("Metrics: used per hour", world, rate_of_days_covers(days, size))
        world = f"{days} days of {size} asks, on some of which most are declined"
        yield case("Metrics: declined by an expert", world, declined_covers(days, size))
    world = "7 days of 40 asks around the clock, some of them slow"
    yield case("Metrics: median wait", world, waits_of_days_cover(7, 40, 24))
    yield case("Metrics: used per hour", world, rate_of_days_covers(7, 40, 24))
    for patience in (240, 120, 60):
        world = f"100 asks, median 60 s, agents give up after {patience} s"
        yield case("Metrics: median wait", world, given_up_covers(patience))
    yield case("Metrics: median wait for people", "120 asks, a third answered by a model", people_cover)
    for times, size in ((100, 1), (20, 5), (10, 10), (10, 20)):
        world = f"{times} times of {size} calls, each in order or out of order"
        yield case("Metrics: faults of model calls", world, faults_cover(times, size))
        yield case("Metrics: duration of model calls", world, durations_cover(times, size))
    for sizes in ([20] * 3, [20] * 4, [30, 20, 20, 20, 10]):
        world = f"scenarios of {', '.join(map(str, sizes))} episodes"
        yield case("Curve: complete", world, curve_covers(sizes))
