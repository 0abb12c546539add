"""The e-process: the statement about a paired difference while its run continues, valid however often it is read.

A bettor starts with 1 and bets against "the difference is m". Its capital after the units read is E(m), and the chance
that E(m) ever reaches 1/alpha is at most alpha if m is true (Ville). With one seed and tasks as units it is the uniform
mixture of all fixed bets (a universal portfolio; at m = 0 it depends on wins and losses only). With several seeds it is
the sign-flip twin, scaled by `scale`. Seeds added later are a *wave* of their own: its bets start with the capital of
the earlier waves, so E is the product. Units are read in the planned order and only the complete prefix of a wave,
because completion order would favor fast episodes. Pure. Called by `compare.py`.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from runs.statistics.paired import Interval, crossing

NODES = 200
EDGE = 1 - 1e-9


@dataclass(frozen=True, order=True)
class Unit:
    """The sum of a unit's task differences, and its number of tasks."""

    total: float
    size: int = 1


@dataclass(frozen=True)
class Wave:
    """The complete prefix of the units planned together. `scale` is sqrt(mean planned tasks per unit / seeds); None for
    one seed and single tasks, for which the plain bet is sharper."""

    units: tuple[Unit, ...]
    scale: float | None = None

    @cached_property
    def counted(self) -> Counter[Unit]:
        return Counter(self.units)


def _legendre(count: int) -> list[tuple[float, float]]:
    """Return nodes and weights of Gauss and Legendre on (0, 1); the weights sum to 1."""
    nodes = []
    for i in range(count):
        x = math.cos(math.pi * (i + 0.75) / (count + 0.5))
        for _ in range(100):
            before, now = 1.0, x
            for k in range(2, count + 1):
                before, now = now, ((2 * k - 1) * x * now - (k - 1) * before) / k
            slope = count * (x * now - before) / (x * x - 1)
            x, old = x - now / slope, x
            if abs(x - old) < 1e-15:
                break
        nodes.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return nodes


GRID = _legendre(NODES)


def log_e(waves: Sequence[Wave], m: float = 0.0) -> float:
    """Return log E(m): the strength of evidence from the units read so far against a difference of m."""
    return sum(
        _log_mean([sum(n * _gain(wave, one, th, m) for one, n in wave.counted.items()) for th, _ in GRID])
        for wave in waves
        if wave.units
    )


def interval(waves: Sequence[Wave], alpha: float = 0.05) -> Interval:
    """Return the differences without evidence against them at this level, valid at every look."""
    # the order inside a wave does not matter here, so looks with the same counts share one search
    return _interval(tuple(Wave(tuple(sorted(wave.units)), wave.scale) for wave in waves), alpha)


@lru_cache(maxsize=4096)
def _interval(waves: tuple[Wave, ...], alpha: float) -> Interval:
    units = [one for wave in waves for one in wave.units]
    if not units:
        return -1.0, 1.0
    limit = -math.log(alpha)
    here = sum(one.total for one in units) / sum(one.size for one in units)
    here = max(-0.9999, min(0.9999, here))
    low = crossing(lambda m: log_e(waves, m) - limit, here, -EDGE)
    high = crossing(lambda m: log_e(waves, m) - limit, here, EDGE)
    return (-1.0 if low <= -EDGE else low), (1.0 if high >= EDGE else high)


def first_crossing(waves: Sequence[Wave], alpha: float = 0.05) -> tuple[int, int, float] | None:
    """Return the unit, counted from 1, at which E against "no difference" first reached 1/alpha, the direction and E at
    that unit; None if it never did. Once reached, the statement stays."""
    limit, owned, total, read = -math.log(alpha), 0.0, 0.0, 0
    for wave in waves:
        logs = [0.0] * NODES
        gains = {unit: [_gain(wave, unit, th, 0.0) for th, _ in GRID] for unit in wave.counted if unit.total}
        for unit in wave.units:
            read += 1
            total += unit.total
            if unit.total:
                logs = list(map(operator.add, logs, gains[unit]))
            # a mean is never above its largest part
            if owned + max(logs) >= limit and owned + (now := _log_mean(logs)) >= limit:
                return read, 1 if total > 0 else -1, math.exp(min(700.0, owned + now))
        owned += _log_mean(logs)
    return None


def _gain(wave: Wave, unit: Unit, th: float, m: float) -> float:
    """Return the log of one node's gain or loss on a unit."""
    away = unit.total - m * unit.size
    if wave.scale is None:
        return math.log1p(max(-1 + 1e-300, (-1 / (1 - m) + (1 / (1 - m) + 1 / (1 + m)) * th) * away))
    x = -2 * math.atanh(2 * th - 1) / wave.scale * away
    return math.log(2) - (x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)))


def _log_mean(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(sum(_weighed(logs, most)))


def _weighed(logs: Sequence[float], most: float) -> Iterator[float]:
    return (weight * math.exp(one - most) for one, (_, weight) in zip(logs, GRID, strict=True))
