"""A negative control of comparisons: an arm against itself, its own seeds of each task split in two at random.

The same method reads both halves, so what it says of them is what luck alone says. The split is a function of the
names, so that no one can draw it again. Pure.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from runs.statistics import deciding
from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import Statement

WORDS = "A negative control, two random halves of the seeds of {}:"
FIRST, SECOND = "one half", "the other half"


def against_itself(tries: Sequence[Try], arm: str) -> str:
    """Return what a comparison says of two random halves of an arm's planned seeds; "" while one is open, or where each
    task has one seed only."""
    mine = [each for each in tries if each.arm == arm and each.wave == 0]
    by_task: dict[str, list[Try]] = defaultdict(list)
    for each in mine:
        by_task[each.task].append(each)
    if not by_task or any(each.is_open for each in mine) or min(map(len, by_task.values())) < 2:
        return ""
    halves = []
    for task, seeds in by_task.items():
        lots = random.Random(f"{arm}/{task}")  # noqa: S311
        shuffled = lots.sample(sorted(seeds, key=lambda each: each.seed), len(seeds))
        names = lots.sample((FIRST, SECOND), 2)
        halves += [
            # asks without an answer would be said first, and are the same in both
            replace(each, arm=names[place % 2], answered=0, unanswered=0)
            for place, each in enumerate(shuffled)
        ]
    claim = Statement(FIRST, SECOND, deciding.PLANNED, deciding.RUNNING)
    return contrasts(halves, [claim])[0].sentence
