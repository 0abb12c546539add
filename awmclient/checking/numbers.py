"""Exact tests and intervals, written a second time: `awmclient.check` shares no line with what wrote a report. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

Z = NormalDist().inv_cdf(0.975)
GRID, FEWEST_EFFECTIVE, MOST_BITS = 2**17, 3, 4_000_000_000
Interval = tuple[float, float]


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p of a fair coin."""
    n = won + lost
    return float(min(Fraction(1), Fraction(2 * sum(math.comb(n, k) for k in range(min(won, lost) + 1)), 2**n)))


def sign_flip(sums: Sequence[Fraction]) -> float | None:
    """Return the exact two-sided p of a sum whose signs are fair coins, by counting all sign patterns in one large
    integer; None if that would take too long."""
    scale = math.lcm(*(one.denominator for one in sums))
    values = [int(one * scale) for one in sums]
    if (total := sum(map(abs, values))) > GRID:
        values = [round(value * GRID / total) for value in values]
    shared = math.gcd(*values) or 1
    sizes = [abs(value) // shared for value in values if value]
    seen, total, width = abs(sum(values)) // shared, sum(sizes), len(sizes) + 1
    if total * width * len(sizes) > MOST_BITS:
        return None
    ways = 1
    for size in sizes:
        # slot k holds the number of patterns whose units with a plus sum to k
        ways += ways << (size * width)
    mask, least = (1 << width) - 1, -(-(total + seen) // 2)
    tail = sum((ways >> (place * width)) & mask for place in range(least, total + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2 ** len(sizes)))) if seen else 1.0


def tango(won: int, lost: int, n: int) -> Interval:
    """Return the score interval of a paired difference (Tango 1998); all that is possible of no task."""
    if not n:
        return -1.0, 1.0

    def score(d: float) -> float:
        b, c = -won - lost + (2 * n - won + lost) * d, -lost * d * (1 - d)
        q = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * q + d * (1 - d))
        distance = won - lost - n * d
        return 0.0 if abs(distance) < 1e-12 else distance / math.sqrt(variance) if variance > 0 else math.inf * distance

    here = (won - lost) / n
    low = -1.0 if here == -1 else root(lambda d: score(d) - Z, -1 + 1e-12, here)
    return low, 1.0 if here == 1 else root(lambda d: score(d) + Z, here, 1 - 1e-12)


def jackknife(sums: Sequence[float], sizes: Sequence[int]) -> Interval | None:
    """Return the interval of a mean over units that are left out one after the other (CV3)."""
    total, of = sum(sums), sum(sizes)
    effective = of**2 / sum(size**2 for size in sizes)
    if len(sums) < 2 or effective < FEWEST_EFFECTIVE:
        return None
    mean = total / of
    left = [(total - one) / (of - size) - mean for one, size in zip(sums, sizes, strict=True)]
    error = math.sqrt((len(sums) - 1) / len(sums) * sum(one**2 for one in left))
    wide = Z**2 / (len(sums) + Z**2) if error < 1e-12 else quantile(effective - 1) * error
    return max(-1.0, mean - wide), min(1.0, mean + wide)


def quantile(freedom: float) -> float:
    """Return the 97.5% quantile of Student's t, by its density in steps of Simpson's rule on a finite angle."""
    # with t = sqrt(freedom) tan(a) the density is cos(a) ** (freedom - 1) over its own integral
    whole = math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)) * math.sqrt(math.pi) / 2

    def short(angle: float) -> float:
        steps = 400
        width = angle / steps
        weights = (1 if n in (0, steps) else 4 if n % 2 else 2 for n in range(steps + 1))
        area: float = width / 3 * sum(w * math.cos(n * width) ** (freedom - 1) for n, w in enumerate(weights))
        return 0.475 - area / whole / 2

    return math.sqrt(freedom) * math.tan(root(short, 0.0, math.pi / 2 - 1e-9))


def root(falls: Any, low: float, high: float) -> float:
    """Return where a falling function is 0, by halving; an end if it has one sign."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > 0 else (low, middle)
    return (low + high) / 2


def holm(ps: Sequence[float]) -> list[float]:
    adjusted, highest = [0.0] * len(ps), 0.0
    for place, number in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        highest = max(highest, min(1.0, ps[number] * (len(ps) - place)))
        adjusted[number] = highest
    return adjusted
