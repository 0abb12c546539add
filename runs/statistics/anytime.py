"""The e-process: the statement about a paired difference while its run continues, valid however often it is read.

A bettor starts with 1 and bets against "the difference is m". Its capital after the units read is E(m), and the chance
that E(m) ever reaches 1/alpha is at most alpha if m is true (Ville). It is the uniform mixture of all fixed bets that
cannot lose everything (a universal portfolio), for which differences need bounds and no symmetry: arms whose seeds vary
unequally break the sign-flip twin of this test. With one seed and tasks as units, E(0) depends on wins and losses only.
Seeds added later are a *wave* of their own: its bets start with the capital of the earlier waves, so E is the product.
Units are read in the planned order and only the complete prefix of a wave, because completion order would favor fast
episodes. Pure. Called by `compare.py`.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from people.rates import crossing
from runs.statistics.paired import Interval

# bets at which the mixture is evaluated, as nodes of a quadrature
NODES = 200
# a difference of 1 or -1 would need an infinite bet
EDGE = 1 - 1e-9
FINE = 1e-7
"""How close the ends of an interval are to where evidence begins, on its outer side."""


@dataclass(frozen=True, order=True)
class Unit:
    """The sum of a unit's task differences, and its number of tasks. `most` is the size of the largest unit read up to
    this one: bets are parts of what it can lose."""

    total: float
    size: int = 1
    most: int = 1


@dataclass(frozen=True)
class Wave:
    """The complete prefix of the units planned together."""

    units: tuple[Unit, ...]

    @cached_property
    def counted(self) -> Counter[Unit]:
        # equal units move each bet alike, so their gains are computed once
        return Counter(self.units)


def _legendre(count: int) -> list[tuple[float, float]]:
    """Return nodes and weights of Gauss and Legendre on (0, 1); the weights sum to 1."""
    nodes = []
    for i in range(count):
        # Newton's method from the usual first guess; `now` is the polynomial at x, by its recurrence
        x = math.cos(math.pi * (i + 0.75) / (count + 0.5))
        for _ in range(100):
            before, now = 1.0, x
            for k in range(2, count + 1):
                before, now = now, ((2 * k - 1) * x * now - (k - 1) * before) / k
            slope = count * (x * now - before) / (x * x - 1)
            x, old = x - now / slope, x
            if abs(x - old) < 1e-15:
                break
        # half of the usual weight, because (0, 1) is half as long as (-1, 1)
        nodes.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return nodes


GRID = _legendre(NODES)


def log_e(waves: Sequence[Wave], m: float = 0.0) -> float:
    """Return log E(m): the strength of evidence from the units read so far against a difference of m."""
    bets = _bets(m)
    return sum(_log_mean(_logs(wave, bets, m)) for wave in waves if wave.units)


def _bets(m: float) -> list[float]:
    """Return the bets of all nodes against a difference of m: from all on less to all on more."""
    # beyond these ends a difference of 1 or -1 would lose more than everything
    return [-1 / (1 - m) + (1 / (1 - m) + 1 / (1 + m)) * th for th, _ in GRID]


def _logs(wave: Wave, bets: Sequence[float], m: float) -> list[float]:
    """Return the log of the capital of each bet after the units of a wave."""
    logs = [0.0] * NODES
    for unit, times in wave.counted.items():
        if away := (unit.total - m * unit.size) / unit.most:
            logs = [log + times * gain for log, gain in zip(logs, _gains(bets, away), strict=True)]
    return logs


def _gains(bets: Sequence[float], away: float) -> list[float]:
    """Return the log of each bet's gain or loss on a unit that ends this far from m."""
    # 1e-300: a bet at an end can lose everything, and the log of 0 is an error
    return [math.log1p(max(-1 + 1e-300, bet * away)) for bet in bets]


def interval(waves: Sequence[Wave], alpha: float = 0.05) -> Interval:
    """Return the differences without evidence against them at this level, valid at every look."""
    # the order inside a wave does not matter here, so looks with the same counts share one search
    return _interval(tuple(Wave(tuple(sorted(wave.units))) for wave in waves), alpha)


@lru_cache(maxsize=4096)
def _interval(waves: tuple[Wave, ...], alpha: float) -> Interval:
    units = [one for wave in waves for one in wave.units]
    if not units:
        return -1.0, 1.0
    # Ville: the chance that the capital ever reaches 1 / alpha is at most alpha
    limit = -math.log(alpha)
    here = sum(one.total for one in units) / sum(one.size for one in units)
    # the search begins at the mean of all units, inside of the edges
    here = max(-0.9999, min(0.9999, here))
    if log_e(waves, here) >= limit:  # waves that contradict each other leave no difference without evidence against it
        return -1.0, 1.0
    low = crossing(lambda m: log_e(waves, m) - limit, here, -EDGE, FINE)
    high = crossing(lambda m: log_e(waves, m) - limit, here, EDGE, FINE)
    # no evidence up to the edge
    return (-1.0 if low <= -EDGE else low), (1.0 if high >= EDGE else high)


def first_crossing(waves: Sequence[Wave], alpha: float = 0.05) -> tuple[int, int, float] | None:
    """Return the unit, counted from 1, at which E against "no difference" first reached 1/alpha, the direction and E at
    that unit; None if it never did. Once reached, the statement stays."""
    # `owned` is the capital of the earlier waves, with which the bets of the next one start
    limit, owned, total, read, bets = -math.log(alpha), 0.0, 0.0, 0, _bets(0.0)
    for wave in waves:
        logs = [0.0] * NODES
        gains = {unit: _gains(bets, unit.total / unit.most) for unit in wave.counted if unit.total}
        for unit in wave.units:
            read += 1
            total += unit.total
            # at m = 0 a unit without a difference moves no bet
            if unit.total:
                logs = list(map(operator.add, logs, gains[unit]))
            # a mean is never above its largest part
            if owned + max(logs) >= limit and owned + (now := _log_mean(logs)) >= limit:
                # math.exp overflows above 709
                return read, 1 if total > 0 else -1, math.exp(min(700.0, owned + now))
        owned += _log_mean(logs)
    return None


def _log_mean(logs: Sequence[float]) -> float:
    most = max(logs)
    # the largest is taken out first, so that no power overflows
    return most + math.log(sum(_weighed(logs, most)))


def _weighed(logs: Sequence[float], most: float) -> Iterator[float]:
    return (weight * math.exp(one - most) for one, (_, weight) in zip(logs, GRID, strict=True))
