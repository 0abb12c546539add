"""What asking at random reaches, by how often it asks: estimated from offers that were drawn by turn.

An episode whose offers were drawn with one chance is weighed by how much likelier its draws are with another. So the
weighed mean is that of random offers at the other rate, whatever they change on the way. A gate is compared with these:
success is concave in asks, so a straight line between two rules is below any rule. Pure. Called by a run's curve.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from people.rates import wilson
from runs.statistics.gating import DrawnDecision
from runs.statistics.offers import FEWEST
from runs.statistics.paired import Interval, cluster_interval

RATES = tuple(number / 20 for number in range(1, 19))


@dataclass(frozen=True)
class DrawnEpisode:
    """One counted episode: the chance of each of its draws, how many offered, and what came of it."""

    scenario: str
    chance: float
    offered: int
    decisions: int
    asks: int
    complete: bool

    def weight(self, rate: float) -> float:
        """Return how much likelier its draws are at this rate."""
        odds = self.offered * math.log(rate / self.chance)
        return math.exp(odds + (self.decisions - self.offered) * math.log((1 - rate) / (1 - self.chance)))


@dataclass(frozen=True)
class RandomAsking:
    """Random offers at one rate: asks per task, and the share of complete episodes with its 95% interval."""

    rate: float
    per_task: float
    complete: float
    interval: Interval


def episodes_of(decisions: Iterable[DrawnDecision]) -> list[DrawnEpisode]:
    """Return the episodes of decisions. One without a decision has no draw, and is not among them."""
    grouped: dict[str, list[DrawnDecision]] = defaultdict(list)
    for decision in decisions:
        grouped[decision.episode].append(decision)
    return [
        DrawnEpisode(
            mine[0].unit,
            mine[0].chance,
            sum(each.offered for each in mine),
            len(mine),
            sum(each.asked for each in mine),
            mine[0].complete,
        )
        for mine in grouped.values()
    ]


def random_asking(episodes: Sequence[DrawnEpisode]) -> list[RandomAsking]:
    """Return what random offers reach at each rate of which enough is left after the weighing, by asks per task."""
    rows = [row for rate in RATES if (row := _at(rate, episodes)) is not None]
    return sorted(rows, key=lambda row: row.per_task)


def _at(rate: float, episodes: Sequence[DrawnEpisode]) -> RandomAsking | None:
    """Return the weighed means at a rate; None if they rest on fewer than `FEWEST` episodes."""
    nearest = min({one.chance for one in episodes}, key=lambda chance: abs(chance - rate), default=0.0)
    mine = [(one, one.weight(rate)) for one in episodes if one.chance == nearest]
    total = sum(weight for _, weight in mine)
    if not mine or total**2 / sum(weight**2 for _, weight in mine) < FEWEST:
        return None
    sums: dict[str, float] = defaultdict(float)
    sizes: dict[str, float] = defaultdict(float)
    for episode, weight in mine:
        sums[episode.scenario] += weight * episode.complete
        sizes[episode.scenario] += weight
    complete, span = cluster_interval(list(sums.values()), list(sizes.values()))
    if span is None:
        return None
    effective = round(total**2 / sum(weight**2 for _, weight in mine))
    low, high = wilson(round(complete * effective), effective)
    wide = max(0.0, min(low, span[0])), min(1.0, max(high, span[1]))
    return RandomAsking(rate, sum(weight * one.asks for one, weight in mine) / total, complete, wide)
