"""Which tasks come next: their weights by a named method, and a draw that a snapshot and a seed decide.

Pure. Methods:

- *uniform*: every task that is served weighs the same.
- *uncertainty*: the standard deviation of the solo solve rate under a uniform prior, Beta(1 + solved, 1 + failed)
  (Gelman et al., Bayesian Data Analysis, 2.4; uncertainty sampling after Lewis and Gale 1994), times 4, so that a
  task without episodes weighs about 1.15.
- *regret*: solve rate with an expert minus solve rate alone, each with the same prior, never below the floor. The
  helped rollouts are the antagonist of PAIRED (Dennis et al. 2020, arXiv:2012.02096).
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

FLOOR = 0.05
"""The lowest weight of a served task: a task without regret is still drawn sometimes."""


@dataclass(frozen=True)
class Rates:
    """The counts of one task: counted and complete episodes, solo and with an expert."""

    solo: int = 0
    solo_solved: int = 0
    helped: int = 0
    helped_solved: int = 0


def uniform(_rates: Rates) -> float:
    return 1.0


def uncertainty(rates: Rates) -> float:
    a, b = 1 + rates.solo_solved, 1 + rates.solo - rates.solo_solved
    deviation = math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
    return max(FLOOR, 4 * deviation)


def regret(rates: Rates) -> float:
    alone = (1 + rates.solo_solved) / (2 + rates.solo)
    helped = (1 + rates.helped_solved) / (2 + rates.helped)
    return max(FLOOR, helped - alone)


METHODS: dict[str, Callable[[Rates], float]] = {"uniform": uniform, "uncertainty": uncertainty, "regret": regret}


def draw(
    weights: Iterable[tuple[str, float]], count: int, *, snapshot: str, seed: int, without: Container[str] = ()
) -> list[str]:
    """Return `count` different tasks, each with a probability by its weight (Efraimidis and Spirakis 2006).

    The same weights, snapshot and seed give the same tasks in the same order on every machine: Python guarantees the
    sequence of `random()` for a seed. Tasks in `without` do not change the numbers of the others.

    """
    # Both enter the hash: one seed draws other tasks from another snapshot.
    numbers = random.Random(int.from_bytes(hashlib.sha256(f"{snapshot}\n{seed}".encode()).digest())).random
    # The logarithm of u ** (1 / weight) has its order and does not underflow; 1 - u is never 0.
    # Sorted, so that each task has the same random number in whatever order the caller lists them.
    keys = [(math.log(1.0 - numbers()) / weight, task) for task, weight in sorted(weights) if weight > 0]
    return [task for _, task in heapq.nlargest(count, (one for one in keys if one[1] not in without))]
