"""Help by draw with a planted effect: how often the printed interval covers it. Pure."""

from __future__ import annotations

import itertools
import random

from runs.statistics.compare import Try
from runs.statistics.deciding import statements
from runs.statistics.offers import Effect, effects

CHANCES, EPISODES, RUNS = (0.1, 0.2, 0.5), (60, 100, 200, 400), 500
RATES = {"5 to 70%": (0.05, 0.7, 0.2), "at most 2%": (0.0, 0.02, 0.01)}
"""How many complete without an offer, from and to, and what an offer adds on average."""
DRAWN = statements(["drawn"], "drawn", ["drawn"])


def drawn(chance: float, episodes: int, number: int, rates: str = "5 to 70%") -> tuple[Effect, float]:
    """Return what a run says of an offer, and its true effect on the run's episodes."""
    tries, gain = tries_of(random.Random(f"{chance}/{episodes}/{number}"), chance, episodes, RATES[rates])
    [found] = effects(tries, DRAWN)
    return found, gain


def tries_of(
    dice: random.Random, chance: float, episodes: int, rates: tuple[float, float, float]
) -> tuple[list[Try], float]:
    """Return episodes that drew an offer with this chance, and what it adds to them on average."""
    tries, gains = [], []
    least, most, uplift = rates
    for place in range(episodes):
        base, gain = dice.uniform(least, most), dice.choice([0.0, 1.5 * uplift])
        offered = dice.random() < chance
        complete = dice.random() < min(1.0, base + gain * offered)
        gains.append(min(1.0, base + gain) - base)
        tries.append(Try(f"s/{place}", "s", "drawn", 0, place, complete=complete, offered=offered, chance=chance))
    return tries, sum(gains) / len(gains)


def coverage(runs: int = RUNS) -> list[tuple[str, float, int, int, int]]:
    """Return for each rate, chance and size how many of the printed intervals cover, and how many were printed."""
    rows = []
    for rates, chance, episodes in itertools.product(RATES, CHANCES, EPISODES):
        found = [drawn(chance, episodes, number, rates) for number in range(runs)]
        printed = [(one.interval, truth) for one, truth in found if one.interval is not None]
        held = sum(span[0] <= truth <= span[1] for span, truth in printed)
        rows.append((rates, chance, episodes, held, len(printed)))
    return rows
