"""What the split of the error costs: how often a planted difference is shown, against one test at 5%. Pure."""

from __future__ import annotations

from fractions import Fraction

from bench.planted.truth import TREATED, planted
from runs.show.comparison import evaluate
from runs.statistics.compare import Try
from runs.statistics.paired import cluster_interval, mcnemar, sign_flip, tango

PLACES = ((60, 1, 0.17), (60, 1, 0.25), (60, 4, 0.12), (60, 4, 0.17), (300, 1, 0.08), (300, 1, 0.11), (300, 4, 0.05))
RUNS = 2_000


def losses(runs: int = RUNS) -> list[tuple[int, int, float, int, int, int]]:
    """Return how many of these runs one test at 5% shows, and how many are shown now, at any look."""
    rows = []
    for tasks, seeds, uplift in PLACES:
        mine = runs if tasks * seeds < 500 else runs // 2
        before = now = 0
        for number in range(mine):
            run = planted(tasks, seeds, "even", f"power/{number}", uplift=uplift)
            [found], _ = evaluate(run.said, run.tries)
            before += fixed(run.tries, seeds)
            now += found.verdict == "better"
        rows.append((tasks, seeds, uplift, mine, before, now))
    return rows


def fixed(tries: list[Try], seeds: int) -> bool:
    """Return whether one test at 5%, with its interval, shows that the arm is better."""
    sums: dict[str, int] = {}
    for one in tries:
        sums[one.task] = sums.get(one.task, 0) + (1 if one.arm == TREATED else -1) * bool(one.complete)
    ds = [Fraction(one, seeds) for one in sums.values()]
    if seeds == 1:
        won, lost = sum(d > 0 for d in ds), sum(d < 0 for d in ds)
        return won > lost and mcnemar(won, lost) < 0.05 and tango(won, lost, len(ds))[0] > 0
    span = cluster_interval([float(d) for d in ds], [1] * len(ds))[1]
    return sum(ds) > 0 and sign_flip(ds) < 0.05 and span is not None and span[0] > 0
