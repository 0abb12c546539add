"""What a change is worth that was picked because its fork shows a difference.

A difference that is picked because it is large is too large, and its interval misses. So the difference of a fork is
read beside those of all forks that were asked, also those that show nothing: some share of the changes does nothing,
the others are normal around 0 (empirical Bayes, with a weak prior of both, as forks are few). A posterior does not
change with how its fork was picked. Pure. Called by `exports.select.measured`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from people.rates import crossing
from runs.statistics.forked import ForkArm

FORKS, DOING = 20, 0.35
"""The prior weighs as much as this many forks, and in this share of them the change does something."""
FEW = 0.15
"""The smallest share of changes that do something which an interval allows for."""
SPREAD = 0.25**2
"""The prior variance of the changes that do something: most move the rate by less than 25 points."""
ROUNDS = 60
FINE = 1e-6
NORMAL = NormalDist()


@dataclass(frozen=True)
class ChangePrior:
    """The share of changes that do something, and the variance of what these do."""

    share: float = DOING
    spread: float = SPREAD


@dataclass(frozen=True)
class ChangeWorth:
    """What a change is worth, treated minus control: its mean and 95% interval, and the chance that it does nothing or
    the opposite of what its fork shows."""

    mean: float
    low: float
    high: float
    wrong: float


def difference_of(treated: ForkArm, control: ForkArm) -> tuple[float, float]:
    """Return a difference of two rates with its variance, each rate with one more case of both ends (Agresti and Caffo
    2000): four of four are no proof that nothing varies."""
    rates = [((arm.complete + 1) / (arm.known + 2), arm.known + 2) for arm in (treated, control)]
    (rate, _), (other, _) = rates
    return rate - other, sum(part * (1 - part) / of for part, of in rates)


def learned(arms: Sequence[tuple[ForkArm, ForkArm]]) -> ChangePrior:
    """Return what all forks that were asked say of changes like theirs."""
    numbers = [difference_of(*pair) for pair in arms if all(arm.known for arm in pair)]
    prior = ChangePrior()
    for _ in range(ROUNDS):
        doing, squares = FORKS * DOING, FORKS * DOING * SPREAD
        for delta, variance in numbers:
            chance = _does_something(delta, variance, prior)
            keeps = prior.spread / (prior.spread + variance)
            doing += chance
            squares += chance * ((keeps * delta) ** 2 + keeps * variance)
        prior = ChangePrior(doing / (FORKS + len(numbers)), squares / doing)
    return prior


def worth_of(treated: ForkArm, control: ForkArm, prior: ChangePrior) -> ChangeWorth:
    """Return what the change of a fork is worth; both arms have outcomes."""
    delta, variance = difference_of(treated, control)
    chance, keeps = _does_something(delta, variance, prior), prior.spread / (prior.spread + variance)
    mean, spread = keeps * delta, math.sqrt(keeps * variance)

    def doing(at: float) -> float:
        return chance * NORMAL.cdf((at - mean) / spread)

    def below(at: float) -> float:
        return doing(at) + (1 - chance if at >= 0 else 0.0)

    up = 1 if delta > 0 else -1
    wrong = 1 - chance + chance * NORMAL.cdf(-up * mean / spread)

    def quantile(share: float) -> float:
        # a search ends beside the changes that do nothing, and its interval would leave them out
        if doing(0.0) < share <= below(0.0):
            return 0.0
        return max(-1.0, min(1.0, crossing(lambda at: below(at) - share, -1.0, 1.0, FINE)))

    return ChangeWorth(chance * mean, quantile(0.025), quantile(0.975), wrong)


def share_wrong(pairs: Sequence[tuple[float, ForkArm, ForkArm]]) -> tuple[float, float, float]:
    """Return the share of pairs that have no effect or the opposite one, with its 95% interval, from the chance of each
    and its arms. The share of changes that do something is an estimate, too: the interval goes from where all do to
    where `FEW` do, and allows for as many draws at either end."""
    mean = sum(chance for chance, _, _ in pairs) / len(pairs)
    ends = []
    for share, tail in ((1.0, 0.025), (FEW, 0.975)):
        chances = [worth_of(treated, control, ChangePrior(share)).wrong for _, treated, control in pairs]
        ends.append(_count_at(tail, chances) / len(pairs))
    return mean, min(mean, ends[0]), max(mean, ends[1])


def _count_at(tail: float, chances: Sequence[float]) -> int:
    """Return the smallest count that draws with these chances exceed at most with the chance `tail`."""
    counts = [1.0]
    for chance in chances:
        counts = [
            same * (1 - chance) + less * chance for same, less in zip([*counts, 0.0], [0.0, *counts], strict=True)
        ]
    below = 0.0
    return next((count for count, part in enumerate(counts) if (below := below + part) >= tail), len(chances))


def worth_alone(treated: ForkArm, control: ForkArm) -> ChangeWorth:
    """Return what a change is worth if no others were asked beside it: by the prior alone, with an interval that also
    holds where every change does something."""
    change, doing = worth_of(treated, control, ChangePrior()), worth_of(treated, control, ChangePrior(share=1.0))
    return replace(change, low=min(change.low, doing.low), high=max(change.high, doing.high))


def _does_something(delta: float, variance: float, prior: ChangePrior) -> float:
    """Return the chance that a change does something, after its difference was seen."""
    nothing = (1 - prior.share) * NormalDist(0, math.sqrt(variance)).pdf(delta)
    something = prior.share * NormalDist(0, math.sqrt(variance + prior.spread)).pdf(delta)
    return something / (something + nothing)
