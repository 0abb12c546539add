"""Tests and intervals of paired differences, from numbers alone.

Sources: McNemar's exact test as two-sided binomial; Tango 1998, score interval of a paired difference; the sign-flip
test on unit sums; the cluster jackknife (CV3) with t(G*-1); Holm 1979; shrinkage of DerSimonian and Laird 1986; pass@k
of arXiv 2107.03374 and pass^k of 2406.12045; Newcombe 1998, difference of two rates. Pure: no Django, no randomness.
Called by `compare.py`; `anytime.py` has what may be read before the end.
"""

from __future__ import annotations

import cmath
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

from people.rates import Z, crossing, effective, student_quantile, wilson

FEW_UNITS, FEW_EFFECTIVE = 6, 3
"""With five units the smallest p of a sign-flip test is .0625, which is never significant."""
GRID = 2**17
"""The grid of a sign-flip test, as parts of the total of all sums; finer sums are rounded to it."""
SMALLEST_P = 1e-300
"""A smaller p is as good as this one, and none is 0: a test never proves anything."""
Interval = tuple[float, float]


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p of `won` against `lost` discordant pairs; 1 if there are none."""
    n, ways, tail = won + lost, 1, 0
    # whole numbers: exact for any number of pairs
    for i in range(min(won, lost) + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return max(SMALLEST_P, min(1.0, 2 * tail / (1 << n)))


def newcombe(part: int, of: int, other: int, others: int) -> Interval:
    """Return the interval of a difference of two rates from their own ones (Newcombe 1998, method 10)."""
    (low, high), (least, most) = wilson(part, of), wilson(other, others)
    share, two = part / of, other / others
    return share - two - math.hypot(share - low, most - two), share - two + math.hypot(high - share, two - least)


def tango(won: int, lost: int, n: int, z: float = Z) -> Interval:
    """Return the score interval of the paired difference (won - lost) / n."""
    if n == 0:
        return -1.0, 1.0

    def score(d: float) -> float:
        # the quadratic of Tango 1998, whose root maximizes the likelihood at a difference of d
        a, b, c = 2 * n, -won - lost + (2 * n - won + lost) * d, -lost * d * (1 - d)
        q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)  # restricted estimate of P(loss)
        variance, distance = n * (2 * q + d * (1 - d)), won - lost - n * d
        # at the estimate itself 0 divided by 0
        if abs(distance) < 1e-12:
            return 0.0
        return math.copysign(math.inf, distance) if variance <= 0 else distance / math.sqrt(variance)

    here = (won - lost) / n
    low = -1.0 if here == -1 else crossing(lambda d: score(d) - z, here, -1 + 1e-12)
    return low, 1.0 if here == 1 else crossing(lambda d: -score(d) - z, here, 1 - 1e-12)


def sign_flip(sums: Sequence[Fraction | int]) -> float:
    """Return the two-sided p of the sum, if every unit's sign were a fair coin, to 12 digits.

    Sums whose common part is finer than the `GRID`-th of their total, such as means over 16, 15 and 14 seeds, are
    rounded to that. The test of rounded sums keeps its error: flips of them are as likely.
    """
    # over one denominator all sums are whole numbers
    scale = math.lcm(*(Fraction(one).denominator for one in sums)) if sums else 1
    signed = [int(one * scale) for one in sums]
    total = sum(map(abs, signed))
    if total > GRID:
        signed = [round(one * GRID / total) for one in signed]
    # a common factor would only repeat the same points
    shared = math.gcd(*signed) or 1
    sizes = Counter(abs(one) // shared for one in signed if one)
    # `seen` is how far the drawn sum is from 0
    total, seen = sum(v * n for v, n in sizes.items()), abs(sum(signed)) // shared
    # the units with a plus sum to half of that and half of the total
    p = float(f"{2 * _tail(sizes, total, -(-(total + seen) // 2)):.12g}") if seen else 1.0
    return max(SMALLEST_P, min(1.0, p))


def _tail(sizes: Counter[int], total: int, first: int) -> float:
    """Return the chance that the sizes whose coin shows a plus sum to `first`, which is above half, or more.

    Their sum takes whole values, so that finitely many points of its characteristic function give its distribution. The
    coins are tilted until `first` is the mean, and the result is corrected for the tilt. A small chance then errs by a
    small part of itself, not of 1.

    """
    groups = sizes.most_common()  # the largest first: they show earliest that a point adds nothing
    tilt = crossing(lambda h: sum(v * n / (1 + math.exp(-h * v)) for v, n in groups) - first, 0.0, 40.0)
    coins = [(v, n, 1 / (1 + math.exp(-tilt * v))) for v, n in groups]
    back = sum(n * (tilt * v - math.log(2 * p)) for v, n, p in coins) - tilt * first
    # one point more than the largest sum, so that no value wraps around
    points, chance = total + 1, 0.0
    for point in range(points // 2 + 1):
        angle = 2 * math.pi * point / points
        step = cmath.exp(-tilt - 1j * angle)
        term = cmath.exp(-1j * angle * first) * (1 - step ** (points - first)) / (1 - step)
        for v, n, p in coins:
            term *= (1 - p + p * cmath.exp(1j * angle * v)) ** n
            # every further factor is at most 1
            if abs(term) < 1e-18:
                break
        # points above half are the conjugates of those below
        chance += term.real * (1 if point in (0, points - point) else 2)
    return math.exp(back) * max(0.0, chance) / points


def cluster_interval(sums: Sequence[float], sizes: Sequence[float], z: float = Z) -> tuple[float, Interval | None]:
    """Return the mean difference and its CV3 interval; None with too few units, a floor if nothing varies."""
    groups, tasks = len(sums), sum(sizes)
    delta = sum(sums) / tasks
    weight = effective(sizes)
    # the t distribution has one degree of freedom less than the effective number of units
    if groups < 2 or weight < FEW_EFFECTIVE:
        return delta, None
    left = ((total - size * delta) / (tasks - size) for total, size in zip(sums, sizes, strict=True))
    # how far the mean moves without each unit
    error = math.sqrt((groups - 1) / groups * sum(one * one for one in left))
    wide = _floor(groups, z) if error < 1e-12 else _reach(error, weight, z)
    return delta, (max(-1.0, delta - wide), min(1.0, delta + wide))


def bounded_interval(
    lows: Sequence[float], highs: Sequence[float], sizes: Sequence[float], z: float = Z
) -> Interval | None:
    """Return an interval that holds the CV3 interval of all sums between these ends, or None with too few units: from
    the lowest mean to the highest one, with the error of the ends that are farthest from the middle."""
    groups, tasks = len(sizes), sum(sizes)
    weight = effective(sizes)
    if groups < 2 or weight < FEW_EFFECTIVE:
        return None
    low, high = sum(lows) / tasks, sum(highs) / tasks
    middle = (low + high) / 2
    ends = zip(lows, highs, sizes, strict=True)
    left = (max(abs(least - size * middle), abs(most - size * middle)) / (tasks - size) for least, most, size in ends)
    wide = _reach(math.sqrt((groups - 1) / groups * sum(one * one for one in left)), weight, z)
    shares = [(least / size, most / size) for least, most, size in zip(lows, highs, sizes, strict=True)]
    if max(least for least, _ in shares) <= min(most for _, most in shares):  # nothing varies in one of the ways
        wide = max(wide, _floor(groups, z))
    return max(-1.0, low - wide), min(1.0, high + wide)


def _reach(error: float, weight: float, z: float) -> float:
    return student_quantile(NormalDist().cdf(z), weight - 1) * error


def _floor(groups: int, z: float) -> float:
    """Return the upper end of Wilson's interval for a rate of 0: where nothing varies."""
    return z * z / (groups + z * z)


def hull(now: Interval | None, first: Interval | None) -> Interval | None:
    """Return the interval that holds both; that of now if the other has none."""
    return now if now is None or first is None else (min(now[0], first[0]), max(now[1], first[1]))


def holm(ps: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p of several planned contrasts, in their order."""
    adjusted, highest = [0.0] * len(ps), 0.0
    for place, number in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        # the smallest p is multiplied by their number, the next by one less; none ends below the one before
        highest = max(highest, min(1.0, ps[number] * (len(ps) - place)))
        adjusted[number] = highest
    return adjusted


def shrink(means: Sequence[float], variances: Sequence[float]) -> tuple[float, list[float]]:
    """Return the variance between groups, and each mean drawn toward the overall mean by its share of noise.

    The best of many groups is partly so by chance. Its shrunken mean is a better guide to which group to read first.
    Without noise, or with one group, nothing is drawn.

    """
    if len(means) < 2 or not all(variances):
        return 0.0, list(means)
    weights = [1 / one for one in variances]
    total, mean = sum(weights), _weighed_mean(means, weights)
    spread = sum(w * (d - mean) ** 2 for d, w in zip(means, weights, strict=True))
    # their moment estimate; chance can make it negative
    between = max(0.0, (spread - len(means) + 1) / (total - sum(w * w for w in weights) / total))
    # again, now with the variance between the groups in the weights
    mean = _weighed_mean(means, [1 / (v + between) for v in variances])
    return between, [mean + between / (between + v) * (d - mean) for d, v in zip(means, variances, strict=True)]


def _weighed_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(d * w for d, w in zip(values, weights, strict=True)) / sum(weights)


def pass_at(n: int, complete: int, k: int) -> float | None:
    """Return the chance that at least one of k tries out of n is complete; None if k exceeds n."""
    # 1 minus the chance that all k are among the tries that are not complete
    return None if k > n else 1 - math.comb(n - complete, k) / math.comb(n, k)


def pass_all(n: int, complete: int, k: int) -> float | None:
    """Return the chance that all of k tries out of n are complete; None if k exceeds n."""
    return None if k > n else math.comb(complete, k) / math.comb(n, k)
