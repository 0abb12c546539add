"""The interval of the share of wrong pairs as snapshots of before have it: changes that do something were normal with
one deviation, and at least `FEW` of them did. Kept so that these snapshots rebuild to the same bytes. Pure. Called by
`exports.assembly.datasets`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from runs.statistics.worth import TAIL, Counts, count_at

FEW, SPREAD = 0.15, 0.25**2


def share_wrong(chances: Sequence[float], readings: Sequence[Sequence[Counts]]) -> tuple[float, float, float]:
    """Return the mean of these chances, with an interval that holds those of all readings of the counts."""
    mean = sum(chances) / len(chances)
    ends = [
        [count_at(tail, [_wrong(share, *counts) for counts in pairs]) / len(pairs) for pairs in readings]
        for share, tail in ((1.0, TAIL), (FEW, 1 - TAIL))
    ]
    return mean, min(mean, *ends[0]), max(mean, *ends[1])


def _wrong(share: float, complete: int, of: int, other: int, others: int) -> float:
    """Return the chance that a change does nothing or the opposite, where this share of changes does something."""
    rates = [((part + 1) / (whole + 2), whole + 2) for part, whole in ((complete, of), (other, others))]
    delta, variance = rates[0][0] - rates[1][0], sum(rate * (1 - rate) / size for rate, size in rates)
    nothing = (1 - share) * NormalDist(0, math.sqrt(variance)).pdf(delta)
    something = share * NormalDist(0, math.sqrt(variance + SPREAD)).pdf(delta)
    chance, keeps = something / (something + nothing), SPREAD / (SPREAD + variance)
    return 1 - chance + chance * NormalDist().cdf(-abs(keeps * delta) / math.sqrt(keeps * variance))
