"""Rates and differences without the verifier's own errors, recomputed from the tries of a report. Pure.

A drawn try has `accepted`: whether blind people accepted its episode, null without a verdict of theirs. Each kind of
outcome counts by the share that people accept of it. The jackknife leaves one task out after the other; Wilson's
interval says how far a share of few errors reaches. What is unknown is counted in every way, and tasks that share an
answer alone and as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from awmclient.checking.numbers import Interval, Z, quantile

FEWEST = 20
"""Tasks with a verdict that each arm needs, by their effective number."""
Counts = dict[str, list[float]]
"""By unit: weight, complete by assumption, then outcomes, those that people judged, and those that they accepted, each
for the verifier's complete ones and for the others."""
COMPLETE, OTHERS = (2, 4, 6), (3, 5, 7)


@dataclass(frozen=True)
class JudgedTry:
    """A try in one way to count it. `accepted` is None if people judged nothing of it; `is_assumed`: its outcome is not
    the verifier's. `unit` is the task, or the first of those that share its answers."""

    task: str
    unit: str
    arm: str
    complete: bool
    accepted: bool | None
    is_assumed: bool = False


Way = Sequence[JudgedTry]
Estimate = tuple[float, Interval]


def ways_of(seen: Iterable[tuple[Mapping[str, Any], bool | None, bool]], arm: str) -> Iterator[Way]:
    """Yield tries with each way to count what people have not judged: as unjudged, for the arm and against it. `seen`
    has rows of a report with whether they are complete, and whether that is assumed."""
    every = list(seen)
    rows = [each for each in every if each[1] is not None]
    fills = [None, True, False] if any(row.get("accepted", True) is None for row, _, _ in rows) else [None]
    for fill, unit_of in product(fills, _ways_to_join(row for row, _, _ in every)):
        yield [
            JudgedTry(
                row["task"], unit_of[row["task"]], row["arm"], bool(complete), _accepted(row, arm, fill), is_assumed
            )
            for row, complete, is_assumed in rows
        ]


def _ways_to_join(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the unit of each task: itself, and where tasks share answers, the first of those, too."""
    readers: dict[int, list[str]] = {}
    alone = {}
    for row in rows:
        alone[row["task"]] = row["task"]
        for key in row.get("shared", ()):
            readers.setdefault(key, []).append(row["task"])
    joined = dict(alone)
    for tasks in readers.values():
        met = {joined[task] for task in tasks}
        if len(met) > 1:
            first = min(met)
            joined = {task: first if unit in met else unit for task, unit in joined.items()}
    return [alone] if joined == alone else [alone, joined]


def _accepted(row: Mapping[str, Any], arm: str, fill: bool | None) -> bool | None:
    if "accepted" not in row or row["accepted"] is not None or fill is None:
        return row.get("accepted")
    return fill is (row["arm"] == arm)


def rate(ways: Iterable[Way], arm: str) -> Estimate | None:
    """Return the rate of an arm as people would have judged it, with its interval; None with too few verdicts."""
    return _hull(_estimate([_counts([(each, 1.0) for each in way if each.arm == arm])]) for way in ways)


def difference(ways: Iterable[Way], arms: tuple[str, str]) -> Estimate | None:
    """Return the difference of two arms, over tasks with an outcome in both, each with the mean of its seeds."""

    def of(way: Way) -> Estimate | None:
        sizes: dict[tuple[str, str], int] = {}
        for each in way:
            sizes[each.task, each.arm] = sizes.get((each.task, each.arm), 0) + 1
        valid = [each for each in way if all((each.task, arm) in sizes for arm in arms)]
        return _estimate(
            [_counts([(each, 1 / sizes[each.task, arm]) for each in valid if each.arm == arm]) for arm in arms]
        )

    return _hull(map(of, ways))


def _hull(estimates: Iterable[Estimate | None]) -> Estimate | None:
    every = list(estimates)
    spans = [one[1] for one in every if one is not None]
    if not every or every[0] is None or len(spans) < len(every):
        return None
    return every[0][0], (min(low for low, _ in spans), max(high for _, high in spans))


def _counts(tries: Iterable[tuple[JudgedTry, float]]) -> Counts:
    counts: Counts = {}
    for each, weight in tries:
        row = counts.setdefault(each.unit, [0.0] * 8)
        row[0] += weight
        if each.is_assumed:
            row[1] += weight * each.complete
            continue
        outcome, judged, accepted = COMPLETE if each.complete else OTHERS
        row[outcome] += weight
        if each.accepted is not None:
            row[judged] += weight
            row[accepted] += weight * each.accepted
    return counts


def _value(row: Sequence[float]) -> float:
    if row[0] < 1e-9:
        return 0.0
    parts = (
        row[outcome] * (row[accepted] / row[judged] if row[judged] > 1e-9 else float(outcome == COMPLETE[0]))
        for outcome, judged, accepted in (COMPLETE, OTHERS)
    )
    return (row[1] + sum(parts)) / row[0]


def _estimate(arms: Sequence[Counts]) -> Estimate | None:
    """Return the value of one arm, or of the first less the second, with its interval."""
    units = [_effective(row[COMPLETE[1]] + row[OTHERS[1]] for row in arm.values()) for arm in arms]
    if min(units) < FEWEST:
        return None
    sums = [[math.fsum(column) for column in zip(*arm.values(), strict=True)] for arm in arms]
    value = _less([_value(row) for row in sums])
    names = {name for arm in arms for name in arm}
    squares = sum(
        (_less([_without(*both, name) for both in zip(sums, arms, strict=True)]) - value) ** 2 for name in names
    )
    wide = quantile(min(units) - 1) ** 2 * squares * (len(names) - 1) / len(names)
    down = up = wide
    for place, both in enumerate(zip(sums, arms, strict=True)):
        below, above = _reach(*both)
        # what lowers the second arm raises the difference
        down, up = (down + above, up + below) if place else (down + below, up + above)
    least = -1.0 if len(arms) > 1 else 0.0
    return value, (max(least, value - math.sqrt(down)), min(1.0, value + math.sqrt(up)))


def _less(values: Sequence[float]) -> float:
    return values[0] - sum(values[1:])


def _without(sums: Sequence[float], arm: Counts, unit: str) -> float:
    row = arm.get(unit)
    return _value(sums if row is None else [whole - part for whole, part in zip(sums, row, strict=True)])


def _effective(weights: Iterable[float]) -> float:
    some = [weight for weight in weights if weight]
    return sum(some) ** 2 / sum(weight**2 for weight in some) if some else 0.0


def _reach(sums: Sequence[float], arm: Counts) -> Interval:
    """Return by how much the squares of both distances exceed what the jackknife sees of few errors."""
    down = up = 0.0
    for outcome, judged, accepted in (COMPLETE, OTHERS):
        share = sums[accepted] / sums[judged] if sums[judged] > 1e-9 else float(outcome == COMPLETE[0])
        units = _effective(row[judged] for row in arm.values())
        part = (sums[outcome] / sums[0]) ** 2
        low, high = _wilson(share, units)
        varies = Z * Z * share * (1 - share) / units if units else 0.0
        down += part * max(0.0, (share - low) ** 2 - varies)
        up += part * max(0.0, (high - share) ** 2 - varies)
    return down, up


def _wilson(share: float, of: float) -> Interval:
    """Return the rates from which this share is as far as the normal quantile allows: both roots of its square."""
    if not of:
        return 0.0, 1.0
    a, b, c = 1 + Z * Z / of, 2 * share + Z * Z / of, share * share
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return 0.0 if share == 0 else (b - root) / (2 * a), 1.0 if share == 1 else (b + root) / (2 * a)


def counted(tries: Iterable[tuple[Mapping[str, Any], bool | None]], arms: Sequence[str]) -> dict[str, Any]:
    """Return how many tries of these arms were drawn, and by arm how many people judged and found wrong."""
    drawn = [(row, complete) for row, complete in tries if complete is not None and "accepted" in row]
    judged = {
        arm: [each for each in drawn if each[0]["arm"] == arm and each[0]["accepted"] is not None] for arm in arms
    }
    wrong = {arm: sum(row["accepted"] is not complete for row, complete in mine) for arm, mine in judged.items()}
    return {"drawn": len(drawn), "judged": {arm: len(mine) for arm, mine in judged.items()}, "wrong": wrong}
