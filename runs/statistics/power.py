"""The smallest difference that a run of some size can show: before a launch, from numbers alone.

The normal approximation for paired differences of task means, with the correction 1/delta for whole counts. In place of
a pilot it assumes typical values: 30% of the pairs of episodes end differently, and 30% of that is due to the task.
Pure. Called by `preflight.py`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from people.rates import crossing
from runs.statistics.deciding import PLANNED
from runs.statistics.paired import FEW_UNITS

# shares of pairs that end differently, and of their variance that is due to the task
DISCORDANT, BETWEEN = 0.3, 0.3
POWER = 0.8


def tasks_for(
    delta: float, seeds: int = 1, contrasts: int = 1, discordant: float = DISCORDANT, level: float = PLANNED
) -> float:
    """Return how many paired tasks show a difference in four of five runs. `contrasts` share the `level` of the
    tests at the planned size."""
    variance = _variance(seeds, discordant)
    # two-sided, at the smallest share of the level that Holm can leave
    shown, power_z = NormalDist().inv_cdf(1 - level / 2 / contrasts), NormalDist().inv_cdf(POWER)
    spread = shown * math.sqrt(variance) + power_z * math.sqrt(max(0.0, variance - delta * delta))
    # the last term corrects for whole counts
    return (spread / delta) ** 2 + 1 / delta


def smallest(tasks: int, seeds: int = 1, contrasts: int = 1) -> float | None:
    """Return the smallest difference that this many paired tasks show in four of five runs; None if they show none."""
    largest = math.sqrt(_variance(seeds, DISCORDANT))
    if tasks < FEW_UNITS or tasks_for(largest, seeds, contrasts) > tasks:
        return None
    # not 0: the number of tasks for a difference of 0 is infinite
    return crossing(lambda delta: tasks_for(delta, seeds, contrasts) - tasks, largest, 1e-3)


def _variance(seeds: int, discordant: float) -> float:
    """Return the variance of a task's difference, a mean over seeds."""
    return discordant * (BETWEEN + (1 - BETWEEN) / seeds)
