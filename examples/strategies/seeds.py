"""Ways of training compared over training seeds: one difference a seed, an exact test, and what the seeds could have
shown.

The unit is the seed: a training run is one draw, however many tasks its model is tried on. All ways start from one
model of a seed and play the same tasks, so the datum is a difference within the seed. Several contrasts are tested in
an order that is fixed beforehand, each at the whole level, until one is not shown: with six seeds the smallest p is
.031, which no correction for their number would leave standing. Variances by seed and by task test nothing.

Pure. The tests are those of `runs/statistics/paired.py`, the words those of `sentences.py` there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from statistics import NormalDist, fmean, stdev

from people.rates import student_quantile
from people.text.in_words import count
from runs.statistics import deciding
from runs.statistics.paired import FEW_UNITS, Interval, sign_flip
from runs.statistics.power import POWER
from runs.statistics.sentences import p_text, points, span_text

ENUMERATED = 10
"""The most seeds whose power counts every flip; more are taken for normal."""
DRAWS = 1000
UNEVEN = 1e-12


@dataclass(frozen=True)
class SeedContrast:
    """One way of training against another: its difference in each seed, and what they allow to be said."""

    arm: str
    control: str
    differences: tuple[float, ...]
    mean: float
    interval: Interval | None
    p: float | None
    seen: float | None
    """The smallest mean difference that as many seeds, as uneven as these, show in four of five repeats."""
    level: float = deciding.PLANNED
    tested: bool = True
    """False behind one that was not shown."""

    @property
    def is_shown(self) -> bool:
        return self.tested and deciding.is_shown(self.p, None, self.interval, self.level)

    @property
    def verdict(self) -> str:
        """better, worse, none or few."""
        if self.interval is None:
            return "few"
        return deciding.word(self.mean) if self.is_shown else "none"

    @property
    def sentence(self) -> str:
        """Say it of shares of success, in points."""
        return self.in_words()

    def in_words(self, up: str = "Better", down: str = "Worse") -> str:
        """Say it of shares, in points. More of something need not be better: `up` and `down` name the directions."""
        seen = None if self.seen is None else math.ceil(100 * self.seen - 1e-9)
        span = "" if self.interval is None else span_text(self.interval)
        least = "" if seen is None else f"{count(seen, 'point')} or more"
        return self._said(points(self.mean), span, least, up if self.mean > 0 else down)

    def in_units(self, unit: str) -> str:
        """Say it of numbers that are no shares."""
        low, high = self.interval or (self.mean, self.mean)
        seen = "" if self.seen is None else f"{self.seen:.2g} {unit} or more"
        return self._said(
            f"{self.mean:+.2g} {unit}", f"[{low:+.2g}, {high:+.2g}]", seen, "More" if self.mean > 0 else "Less"
        )

    def _said(self, size: str, span: str, seen: str, word: str) -> str:
        ups, downs = (sum(d > 0 for d in self.differences), sum(d < 0 for d in self.differences))
        of = count(len(self.differences), "seed")
        if self.interval is None or self.p is None:
            return f"{of} {'is' if len(self.differences) == 1 else 'are'} too few for a result: {size}."
        found = f"over these {of}: {size} {span}, {ups} up, {downs} down"
        test = f"p {p_text(self.p)} (exact sign-flip over seeds)"
        if self.is_shown:
            return f"{word} {found}, {test}."
        if not self.tested:
            return f"Not tested, since one before it in the fixed order was not shown; {found}."
        return f"No difference shown {found}, {test}. Seeds as uneven as these show {seen} in four of five repeats."


def contrast(
    arm: str, control: str, treated: Sequence[float], untreated: Sequence[float], level: float = deciding.PLANNED
) -> SeedContrast:
    """Compare two ways of training by a number of each seed, given in the same order."""
    ds = tuple(a - b for a, b in zip(treated, untreated, strict=True))
    mean, seeds = fmean(ds), len(ds)
    if seeds < FEW_UNITS:
        return SeedContrast(arm, control, ds, mean, None, None, None, level)
    spread = stdev(ds)
    interval, seen = _interval(mean, spread, seeds), smallest(spread, seeds, level)
    return SeedContrast(arm, control, ds, mean, interval, flipped(ds), seen, level)


def flipped(ds: Sequence[float]) -> float:
    """Return the two-sided p of the sum, if the sign of every seed were a fair coin."""
    # in whole numbers, so that a rounding of floats does not break a tie
    whole = [round(d * 10**9) for d in ds]
    if len(whole) > ENUMERATED:
        return sign_flip([Fraction(one, 10**9) for one in whole])
    sums = whole[:1]
    # by symmetry the first one need not be flipped
    for one in whole[1:]:
        sums = [total + sign * one for total in sums for sign in (1, -1)]
    return sum(abs(total) >= abs(sum(whole)) for total in sums) / len(sums)


def in_order(contrasts: Sequence[SeedContrast]) -> list[SeedContrast]:
    """Return contrasts as they may be read: tested in this order, up to and with the first that is not shown."""
    found, open_ = [], True
    for one in contrasts:
        found.append(replace(one, tested=open_))
        open_ = open_ and found[-1].is_shown
    return found


def _interval(mean: float, spread: float, seeds: int) -> Interval:
    if spread < UNEVEN:
        return mean, mean
    wide = _quantile(0.975, seeds - 1) * spread / math.sqrt(seeds)
    return mean - wide, mean + wide


@cache
def _quantile(p: float, freedom: int) -> float:
    return student_quantile(p, freedom)


def smallest(spread: float, seeds: int, level: float = deciding.PLANNED) -> float | None:
    """Return the smallest mean difference that is shown in four of five repeats, where differences of seeds are normal
    with this standard deviation; None if no difference could be."""
    if seeds < FEW_UNITS:
        return None
    if seeds > ENUMERATED:
        reach = _quantile(1 - level / 2, seeds - 1) + NormalDist().inv_cdf(POWER)
        return spread * reach / math.sqrt(seeds)
    return spread * _spreads(seeds, level)


@cache
def _spreads(seeds: int, level: float) -> float:
    """Return that difference in standard deviations, by enumerating the flips of drawn seeds."""
    low, high = 0.0, 4.0
    chance = random.Random(seeds)  # noqa: S311 - the same draws each time
    draws = [[chance.gauss(0, 1) for _ in range(seeds)] for _ in range(DRAWS)]
    for _ in range(12):
        middle = (low + high) / 2
        shown = sum(_shows([middle + z for z in draw], level) for draw in draws)
        low, high = (low, middle) if shown >= POWER * DRAWS else (middle, high)
    return high


def _shows(ds: Sequence[float], level: float) -> bool:
    """Return whether seeds with these differences show one: their sum is far out among all flips, and so is 0 from
    their interval."""
    mean = fmean(ds)
    return mean > 0 and _interval(mean, stdev(ds), len(ds))[0] > 0 and flipped(ds) < level


@dataclass(frozen=True)
class Components:
    """Where the differences of a table of seeds by tasks come from: a mixed model with both as random effects."""

    mean: float
    seeds: float
    tasks: float
    rest: float
    """Variances."""

    def share(self, part: float) -> float:
        whole = self.seeds + self.tasks + self.rest
        return part / whole if whole else 0.0


def components(table: Sequence[Sequence[float]]) -> Components | None:
    """Return the variance components of a whole table, a row for each seed: the moment estimates, which are those of
    restricted likelihood where none is negative; None for less than two rows or columns."""
    rows, columns = len(table), len(table[0]) if table else 0
    if rows < 2 or columns < 2:
        return None
    by_row, by_column = [fmean(row) for row in table], [fmean(column) for column in zip(*table, strict=True)]
    mean = fmean(by_row)
    of_rows = columns * sum((one - mean) ** 2 for one in by_row) / (rows - 1)
    of_columns = rows * sum((one - mean) ** 2 for one in by_column) / (columns - 1)
    left = sum(
        (value - by_row[i] - by_column[j] + mean) ** 2 for i, row in enumerate(table) for j, value in enumerate(row)
    ) / ((rows - 1) * (columns - 1))
    return Components(mean, max(0.0, (of_rows - left) / columns), max(0.0, (of_columns - left) / rows), left)


@dataclass(frozen=True)
class Reached:
    """In how many seeds several conditions hold together, and in how many each alone."""

    together: int
    seeds: int
    alone: Mapping[str, int]


def reached(conditions: Sequence[Mapping[str, bool]]) -> Reached:
    """Count conditions, given for each seed by name."""
    names = list(conditions[0]) if conditions else []
    alone = {name: sum(one[name] for one in conditions) for name in names}
    return Reached(sum(all(one.values()) for one in conditions), len(conditions), alone)
