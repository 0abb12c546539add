"""Help by draw with a planted effect: how often the printed interval covers it. Pure."""

from __future__ import annotations

import random

from runs.statistics.compare import Try
from runs.statistics.deciding import statements
from runs.statistics.offers import Effect, effects

CHANCES, EPISODES, RUNS = (0.1, 0.2, 0.5), (60, 100, 200, 400), 500
DRAWN = statements(["drawn"], "drawn", ["drawn"])


def drawn(chance: float, episodes: int, number: int, uplift: float = 0.2) -> tuple[Effect, float]:
    """Return what a run says of an offer that adds `uplift` on average, and the effect on its episodes."""
    dice = random.Random(f"{chance}/{episodes}/{number}")
    tries, gains = [], []
    for place in range(episodes):
        base, gain = dice.uniform(0.05, 0.7), dice.choice([0.0, 1.5 * uplift])
        offered = dice.random() < chance
        complete = dice.random() < min(1.0, base + gain * offered)
        gains.append(min(1.0, base + gain) - base)
        tries.append(Try(f"s/{place}", "s", "drawn", 0, place, complete=complete, offered=offered, chance=chance))
    [found] = effects(tries, DRAWN)
    return found, sum(gains) / len(gains)


def coverage(runs: int = RUNS) -> list[tuple[float, int, int, int]]:
    """Return for each chance and size how many of the printed intervals cover, and how many were printed."""
    rows = []
    for chance in CHANCES:
        for episodes in EPISODES:
            found = [drawn(chance, episodes, number) for number in range(runs)]
            printed = [(one.interval, truth) for one, truth in found if one.interval is not None]
            rows.append((chance, episodes, sum(span[0] <= truth <= span[1] for span, truth in printed), len(printed)))
    return rows
