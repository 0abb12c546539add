"""A rate's interval, and what intervals of few units need: their effective number, and Student's t. Pure.

Called wherever a share is shown or exported."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution: 95% lie between -Z and Z."""


def wilson(part: float, of: float) -> tuple[float, float]:
    """Return the 95% interval of a rate (Wilson 1927), within 0 and 1; all of 0 to 1 without cases. `part` can be a
    sum of shares."""
    if not of:
        return 0.0, 1.0
    rate, square = part / of, Z * Z / of
    middle = rate + square / 2
    reach = Z * math.sqrt(rate * (1 - rate) / of + square / (4 * of))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    # at the ends the formula errs by a rounding, which a chart would draw
    return 0.0 if part == 0 else low, 1.0 if part == of else high


@lru_cache(maxsize=4096)
def exact(part: int, of: int) -> tuple[float, float]:
    """Return the exact 95% interval of a rate (Clopper and Pearson 1934): wider than `wilson`, it
    holds at every rate."""
    tail = 0.025
    low = crossing(lambda rate: tail - _beta(rate, part, of - part + 1), part / of, 0.0) if part else 0.0
    high = crossing(lambda rate: _beta(rate, part + 1, of - part) - 1 + tail, part / of, 1.0) if part < of else 1.0
    return low, high


def effective(sizes: Sequence[float]) -> float:
    """Return the number of equally large units with the same weight: G* = (sum N)^2 / sum N^2."""
    return sum(sizes) ** 2 / sum(one * one for one in sizes) if sizes else 0.0


def crossing(function: Callable[[float], float], inside: float, outside: float, fine: float = 1e-10) -> float:
    """Return where a function that is below 0 at `inside` and not below 0 at `outside` changes, as `fine` as that.

    False position needs a third of the steps of bisection. Bisection takes over at every third step, because a function
    that is steep at its end would stall false position there, and if a value is not finite.

    """
    low, high, step = function(inside), function(outside), 0
    if high < 0:
        return outside
    while abs(outside - inside) > fine:
        step += 1
        middle = (inside + outside) / 2
        if step % 3 and math.isfinite(low) and math.isfinite(high):
            # slightly beyond the guess, toward the longer side, so that both ends converge
            guess = inside - low * (outside - inside) / (high - low)
            middle = guess + math.copysign(0.4 * fine, middle - guess)
        value = function(middle)
        if value < 0:
            inside, low = middle, value
        else:
            outside, high = middle, value
    return outside


@lru_cache(maxsize=4096)
def student_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t for p > 0.5, by bisection of its distribution; `freedom` may be a fraction."""
    high = 2.0
    while student(high, freedom) < p:
        high *= 2
    return crossing(lambda t: student(t, freedom) - p, 0.0, high)


def student(t: float, freedom: float) -> float:
    """Return P(T <= t) for t >= 0."""
    return 1 - 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Lentz's way to evaluate one)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    # the fraction converges fast on this side only; the other follows by symmetry
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for i in range(1, 300):
        for step in (
            i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i)),
            -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1)),
        ):
            d = 1 / (1 + step * d)
            c = 1 + step / c
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value
