"""What a change is worth that was picked because its fork shows a difference.

A difference that is picked because it is large is too large, and its interval misses. So the difference of a fork is
read beside those of all forks that were asked, also those that show nothing: some share of the changes does nothing,
the others differ by little or by much (a mixture of scales up to 100 points, as in adaptive shrinkage, Stephens 2017;
with a weak prior of all shares, as forks are few). A posterior does not change with how its fork was picked. Its
interval holds that of the plain counts, too: no prior rules out what the branches do not. Pure. Called by
`exports.select.measured`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul

from people.rates import crossing, exact
from runs.statistics.forked import ForkArm

CELLS = 100
"""Rates are read at the middles of this many cells, so that differences are whole points."""
POINTS = range(1 - CELLS, CELLS)
SCALES = (0.1, 0.25, math.inf)
"""How much changes move the rate that do something: normal around 0 with these deviations, or any difference alike."""
SHARES = (0.65, 0.1, 0.245, 0.005)
"""The prior shares of changes that do nothing, and of those that do something, by scale. Few are decisive, until forks
show more."""
FORKS = 20
"""The prior weighs as much as this many forks."""
ROUNDS = 60
FEW = 0.15
"""An interval of the share of wrong pairs always allows for as few changes that do something: the likelihood of the
share is that of a model, which is too sure."""
DEVIANCE = 3.84
"""What the 95% interval of the share of changes that do nothing allows for (likelihood ratio)."""
FINE = 1e-6
TAIL = 0.025
Counts = tuple[int, ...]
"""Complete and all branches of the treated arm, then of the control."""


@dataclass(frozen=True)
class ChangePrior:
    """The shares of changes that do nothing, and of those that do something, by scale; and the largest share that does
    nothing which the forks allow for."""

    shares: tuple[float, ...] = SHARES
    most: float = 1.0

    def where(self, nothing: float) -> ChangePrior:
        """Return this prior where another share of the changes does nothing."""
        doing = 1 - self.shares[0]
        return ChangePrior((nothing, *(share * (1 - nothing) / doing for share in self.shares[1:])))


@dataclass(frozen=True)
class ChangeWorth:
    """What a change is worth, treated minus control: its mean and 95% interval. `wrong` is the chance that it does
    nothing or the opposite of what its fork shows, `least` and `most` that chance if all changes do something, and if
    as few do as the forks allow for."""

    mean: float
    low: float
    high: float
    wrong: float
    least: float
    most: float

    @property
    def wrongs(self) -> tuple[float, float, float]:
        return self.wrong, self.least, self.most


def learned(arms: Sequence[tuple[ForkArm, ForkArm]]) -> ChangePrior:
    """Return what all forks that were asked say of changes like theirs."""
    many = Counter(_counts(*pair) for pair in arms if all(arm.known for arm in pair))
    seen = [(number, _chances(*counts)) for counts, number in many.items()]
    total = FORKS + many.total()
    shares: tuple[float, ...] = SHARES
    for _ in range(ROUNDS):
        sums = [FORKS * share for share in SHARES]
        for number, chances in seen:
            parts = [share * chance for share, chance in zip(shares, chances, strict=True)]
            scale = number / sum(parts)
            sums = [before + scale * part for before, part in zip(sums, parts, strict=True)]
        shares = tuple(part / total for part in sums)
    return ChangePrior(shares, _most(shares, seen))


def _most(shares: Sequence[float], seen: Sequence[tuple[int, Sequence[float]]]) -> float:
    """Return the upper end of the interval of the share that does nothing."""
    doing = [(number, chances[0], sum(map(mul, shares[1:], chances[1:])) / (1 - shares[0])) for number, chances in seen]

    def fits(nothing: float) -> float:
        return sum(number * math.log(nothing * none + (1 - nothing) * some) for number, none, some in doing)

    best = max((step / CELLS for step in range(CELLS + 1)), key=fits)
    return max(1 - FEW, crossing(lambda share: fits(best) - fits(share) - DEVIANCE / 2, best, 1.0, FINE))


def worth_of(treated: ForkArm, control: ForkArm, prior: ChangePrior) -> ChangeWorth:
    """Return what the change of a fork is worth; both arms have outcomes."""
    counts = _counts(treated, control)
    plain = treated.complete / treated.known - control.complete / control.known
    _, doing = _posterior(counts, prior)
    mean = sum(map(mul, doing, POINTS)) / CELLS
    ends = [_plain(counts), *_by_scale(counts, prior)]
    # no more than the branches show
    mean = math.copysign(min(abs(mean), abs(plain)), plain) if mean * plain > 0 else 0.0
    wrongs = [
        _wrong(plain > 0, *_posterior(counts, each)) for each in (prior, prior.where(0.0), prior.where(prior.most))
    ]
    return ChangeWorth(mean, min(low for low, _ in ends), max(high for _, high in ends), *wrongs)


def _plain(counts: Counts) -> tuple[float, float]:
    """Return the 95% interval of a difference, from the exact limits of both rates (as Newcombe 1998 does from others):
    with four branches an arm, his leaves out true differences near 100 points."""
    complete, of, other, others = counts
    delta, (low, high), (least, most) = complete / of - other / others, exact(complete, of), exact(other, others)
    down, up = (
        math.hypot(complete / of - low, most - other / others),
        math.hypot(high - complete / of, other / others - least),
    )
    return max(-1.0, delta - down), min(1.0, delta + up)


def worth_alone(treated: ForkArm, control: ForkArm) -> ChangeWorth:
    """Return what a change is worth if no others were asked beside it: by the prior alone."""
    return worth_of(treated, control, ChangePrior())


def share_wrong(pairs: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return the share of pairs that have no effect or the opposite one, with its 95% interval, from the chance of each
    by estimate, at least and at most. The interval allows for as many draws at either end."""
    wrong, least, most = zip(*pairs, strict=True)
    mean = sum(wrong) / len(pairs)
    low, high = (count_at(*end) / len(pairs) for end in ((TAIL, least), (1 - TAIL, most)))
    return mean, min(mean, low), max(mean, high)


def count_at(tail: float, chances: Sequence[float]) -> int:
    """Return the smallest count that draws with these chances exceed at most with the chance `tail`."""
    counts = [1.0]
    for chance in chances:
        counts = [
            same * (1 - chance) + less * chance for same, less in zip([*counts, 0.0], [0.0, *counts], strict=True)
        ]
    below = 0.0
    return next((count for count, part in enumerate(counts) if (below := below + part) >= tail), len(chances))


def _counts(treated: ForkArm, control: ForkArm) -> Counts:
    return treated.complete, treated.known, control.complete, control.known


@lru_cache(maxsize=4096)
def _likelihood(complete: int, of: int, other: int, others: int) -> tuple[float, ...]:
    """Return how likely the counts are at each difference, over all rates that allow for it."""
    up, down = _binomial(complete, of), _binomial(other, others)
    return tuple(sum(map(mul, up[max(0, point) :], down[max(0, -point) :])) / (CELLS - abs(point)) for point in POINTS)


def _binomial(complete: int, of: int) -> list[float]:
    """Return how likely a count is at each rate, relative to the best one."""
    rates = ((cell + 0.5) / CELLS for cell in range(CELLS))
    logs = [complete * math.log(rate) + (of - complete) * math.log1p(-rate) for rate in rates]
    best = max(logs)
    return [math.exp(each - best) for each in logs]


@lru_cache(maxsize=1)
def _slabs() -> list[list[float]]:
    """Return the chance of each difference, by scale."""
    rows = [[math.exp(-((point / CELLS / scale) ** 2) / 2) for point in POINTS] for scale in SCALES]
    return [[part / sum(row) for part in row] for row in rows]


@lru_cache(maxsize=4096)
def _chances(*counts: int) -> tuple[float, ...]:
    """Return how likely the counts are where a change does nothing, and where it does something, by scale."""
    likely = _likelihood(*counts)
    return likely[CELLS - 1], *(sum(map(mul, slab, likely)) for slab in _slabs())


def _posterior(counts: Counts, prior: ChangePrior) -> tuple[float, list[float]]:
    """Return the chance that a change does nothing, and the chance of each difference that it makes."""
    total = sum(map(mul, prior.shares, _chances(*counts)))
    weights = [share / total for share in prior.shares]
    doing = [
        likely * sum(map(mul, weights[1:], at))
        for likely, at in zip(_likelihood(*counts), zip(*_slabs(), strict=True), strict=True)
    ]
    return weights[0] * _chances(*counts)[0], doing


def _wrong(up: bool, nothing: float, doing: Sequence[float]) -> float:
    opposite = doing[: CELLS - 1] if up else doing[CELLS:]
    return nothing + sum(opposite) + doing[CELLS - 1] / 2


def _by_scale(counts: Counts, prior: ChangePrior) -> Iterator[tuple[float, float]]:
    """Yield the interval of a change of each scale that the counts do not rule out: which one it has is not known, so
    all share the error."""
    parts = list(map(mul, prior.shares, _chances(*counts)))
    if parts[0] >= TAIL * sum(parts):
        yield 0.0, 0.0
    for part, slab in zip(parts[1:], _slabs(), strict=True):
        if part >= TAIL * sum(parts):
            below = list(accumulate(map(mul, slab, _likelihood(*counts))))
            tail = below[-1] * TAIL / len(parts)
            yield (
                (POINTS[bisect_left(below, tail)] - 0.5) / CELLS,
                (POINTS[bisect_left(below, below[-1] - tail)] + 0.5) / CELLS,
            )
