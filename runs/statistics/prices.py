"""The price of an extra success in human minutes: a ratio of two estimated means, with Fieller's interval, or no ratio.

A price is printed only if the extra successes are shown. Its interval is printed whether they are or not, and says "at
least" where it has no upper end: one that is printed only for large gains covers 72% at 33 tasks, because gains that
are shown are often too large by chance. Pure. Called by `offers.py` with scores of tries, by `compare.py` with
differences of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

from people.rates import effective, student_quantile
from runs.statistics.paired import Interval, hull

Units = Sequence[Sequence[int]]
"""The places of what is not independent, a list for each unit."""


@dataclass(frozen=True)
class Price:
    """Human minutes more per episode, and per extra success with its 95% interval if there is one; else `least` is its
    lower end, where it has no upper one."""

    minutes: float
    per_success: float | None
    interval: Interval | None
    sentence: str
    least: float | None = None


def price(minutes: Sequence[float], gains: Sequence[float], *, is_shown: bool, joined: Units = ()) -> Price | None:
    """Price the gains: both hold one difference for each task or draw. `is_shown`: the gains are a result, in either
    direction. `joined` are the places of those that share an answer, a list for each unit: the interval then holds that
    of these units and that of each alone. None for fewer than two."""
    if len(gains) < 2:
        return None
    cost, gain = sum(minutes) / len(gains), sum(gains) / len(gains)
    # rounding aside, no minutes
    if abs(cost) < 1e-9:
        return Price(cost, None, None, "No extra human time was needed.")
    if abs(cost) < 0.05:
        return Price(cost, None, None, f"{costs(cost)}.")
    alone: Units = [[place] for place in range(len(gains))]
    ways = [alone] if len(joined) in (0, len(gains)) else [alone, joined]
    errors = [_errors(minutes, gains, units) for units in ways]
    spans = [fieller(cost, gain, *each) for each in errors]
    span = None if None in spans else reduce(hull, spans)
    if cost > 0 and gain > 0 and is_shown and span is not None:
        words = f"{cost / gain:.1f} human minutes per extra success [{span[0]:.1f}, {span[1]:.1f}]."
        return Price(cost, cost / gain, span, words)
    lead = costs(cost)
    if is_shown and gain < 0:
        return Price(cost, None, None, f"{lead} and completes fewer.")
    if is_shown and cost < 0:
        return Price(cost, None, None, f"{lead} and completes more.")
    lead += "; the price of a success has no bound" if is_shown else "; extra successes are not shown"
    if span is not None and span[0] > 0:
        return Price(cost, None, span, f"{lead}. An extra success costs {span[0]:.1f} to {span[1]:.1f} minutes.")
    lows = [each[0] if each else at_least(cost, gain, *of) for each, of in zip(spans, errors, strict=True)]
    least = min((low for low in lows if low is not None), default=0.0)
    if span is None and None not in lows and least > 0:
        words = f"{lead}. An extra success, if any, costs at least {least:.1f} minutes."
        return Price(cost, None, None, words, least)
    return Price(cost, None, None, f"{lead}, so no price per success.")


def _errors(minutes: Sequence[float], gains: Sequence[float], units: Units) -> tuple[float, float, float, float]:
    """Return the variances of the mean cost and of the mean gain, their covariance, and the quantile of their t: by how
    far both move without each unit, as in `cluster_interval`."""
    number, sizes = len(gains), [len(unit) for unit in units]

    def moves(values: Sequence[float]) -> list[float]:
        mean = sum(values) / number
        return [sum(values[place] - mean for place in unit) / (number - len(unit)) for unit in units]

    costs_move, gains_move, scale = moves(minutes), moves(gains), (len(units) - 1) / len(units)
    of_cost, of_gain, of_both = (
        scale * sum(map(mul, *each))
        for each in ((costs_move, costs_move), (gains_move, gains_move), (costs_move, gains_move))
    )
    return of_cost, of_gain, of_both, student_quantile(0.975, effective(sizes) - 1)


def costs(minutes: float) -> str:
    """Return the beginning of a price: human minutes more or less per episode."""
    amount = f"{abs(minutes):.1f}" if abs(minutes) >= 0.05 else "<0.1"
    return f"Costs {amount} human minutes {'more' if minutes >= 0 else 'less'} per episode"


def at_least(cost: float, gain: float, of_cost: float, of_gain: float, of_both: float, quantile: float) -> float | None:
    """Return the lowest price of a gain that the same cost and gain leave possible, where Fieller's interval has no
    upper end; None if the cost itself may be none."""
    # prices x with a x * x + b x + c <= 0 are those that Fieller's test does not refuse
    a = gain * gain - quantile * quantile * of_gain
    b = -2 * (cost * gain - quantile * quantile * of_both)
    c = cost * cost - quantile * quantile * of_cost
    if a >= 0 or c <= 0 or cost <= 0:
        return None
    # outside its roots, one of which is negative: a cost without a gain, or with a loss
    return max((-b + sign * math.sqrt(b * b - 4 * a * c)) / (2 * a) for sign in (1, -1))


def fieller(
    cost: float, gain: float, of_cost: float, of_gain: float, of_both: float, quantile: float
) -> Interval | None:
    """Return the interval of cost / gain from both means, their variances and covariance; None if unbounded."""
    a = gain * gain - quantile * quantile * of_gain
    b = -2 * (cost * gain - quantile * quantile * of_both)
    c = cost * cost - quantile * quantile * of_cost
    # the gain can be 0, so its reciprocal has no bound
    if a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
