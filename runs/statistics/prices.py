"""The price of an extra success in human minutes: a ratio of two estimated means, with Fieller's interval, or no ratio.

A price is printed only if the extra successes are shown and its interval is bounded; otherwise only the cost is
printed. Pure. Called by `offers.py` with scores of tries, by `comparison.py` with differences of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runs.statistics.paired import Interval, student_quantile


@dataclass(frozen=True)
class Price:
    """Human minutes more per episode, and per extra success with its 95% interval if there is one."""

    minutes: float
    per_success: float | None
    interval: Interval | None
    sentence: str


def price(minutes: Sequence[float], gains: Sequence[float], *, is_shown: bool) -> Price | None:
    """Price the gains: both hold one difference for each unit. `is_shown`: the gains are a result, in either
    direction. None for fewer than two units."""
    units = len(gains)
    if units < 2:
        return None
    cost, gain = sum(minutes) / units, sum(gains) / units
    ways = units * (units - 1)
    of_cost = sum((one - cost) ** 2 for one in minutes) / ways
    of_gain = sum((one - gain) ** 2 for one in gains) / ways
    of_both = sum((a - cost) * (b - gain) for a, b in zip(minutes, gains, strict=True)) / ways
    amount = f"{abs(cost):.1f}" if abs(cost) >= 0.05 else "<0.1"
    each = f"{amount} human minutes {'more' if cost >= 0 else 'less'} per episode"
    if abs(cost) < 1e-9:
        return Price(cost, None, None, "No extra human time was needed.")
    if abs(cost) < 0.05:
        return Price(cost, None, None, f"Costs {each}.")
    if not is_shown:
        return Price(cost, None, None, f"Costs {each}; extra successes are not shown, so no price per success.")
    if gain < 0:
        return Price(cost, None, None, f"Costs {each} and completes fewer.")
    if cost < 0:
        return Price(cost, None, None, f"Costs {each} and completes more.")
    span = fieller(cost, gain, of_cost, of_gain, of_both, student_quantile(0.975, units - 1))
    if span is None:
        return Price(cost, None, None, f"Costs {each}; the price of a success has no bound.")
    low, high = span
    return Price(cost, cost / gain, span, f"{cost / gain:.1f} human minutes per extra success [{low:.1f}, {high:.1f}].")


def fieller(
    cost: float, gain: float, of_cost: float, of_gain: float, of_both: float, quantile: float
) -> Interval | None:
    """Return the interval of cost / gain from both means, their variances and covariance; None if unbounded."""
    a = gain * gain - quantile * quantile * of_gain
    b = -2 * (cost * gain - quantile * quantile * of_both)
    c = cost * cost - quantile * quantile * of_cost
    if a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
