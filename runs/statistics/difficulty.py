"""A run's differences by the difficulty of its tasks, known from other episodes than the compared ones.

Tasks that the control failed look as if an arm gained on them, even if it changes nothing: some failed by chance, and
chance does not repeat. So a task's level comes from episodes before the launch or, if too few tasks have those, from
half of the control's seeds, which are then left out of the difference. For description, without a test: it shows where
a difference comes from, and is no claim about a level. Pure. Called by `comparison.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runs.statistics.compare import Try
from runs.statistics.contrast import Contrast
from runs.statistics.sentences import points

LEVELS = {"easy": 0.5, "medium": 0.1, "hard": -1.0}
"""A task has the first level whose bound is below its solve rate. These are the curriculum's default levels."""
UNKNOWN = "unknown"
FEWEST = 4
"""The fewest earlier episodes of a task with a known level."""
EARLIER = "solve rate of earlier episodes without an expert"
OTHER_SEEDS = "solve rate of half of the control's seeds, left out of the difference"


@dataclass(frozen=True)
class DifficultyLevel:
    """The tasks of one level: raw counts for description, no p. Rates are means over tasks."""

    name: str
    tasks: int
    won: int
    lost: int
    control_rate: float
    treated_rate: float

    @property
    def delta(self) -> float:
        return self.treated_rate - self.control_rate

    @property
    def difference(self) -> str:
        """The difference as a page shows it, such as `+18 points`."""
        return points(self.delta)


@dataclass(frozen=True)
class ByDifficulty:
    """The levels of one contrast, the easiest first, and where the levels come from."""

    basis: str
    levels: list[DifficultyLevel]


def by_difficulty(
    contrast: Contrast, tries: Sequence[Try], earlier: Mapping[str, tuple[int, int]]
) -> ByDifficulty | None:
    """Group a contrast's tasks by level. `earlier` holds (complete, counted) episodes by task. None while the run
    continues, if the verdict is withheld, and if no data decide the levels."""
    if contrast.state != "final" or contrast.verdict == "withheld":
        return None
    seeds: dict[str, tuple[list[Try], list[Try]]] = defaultdict(lambda: ([], []))
    for attempt in tries:
        if attempt.arm in (contrast.control, contrast.arm):
            seeds[attempt.task][attempt.arm == contrast.arm].append(attempt)
    levels = {task: level_of(*earlier.get(task, (0, 0))) for task in seeds}
    # all tasks by one basis: levels of two kinds in one table could not be compared
    if 2 * sum(level != UNKNOWN for level in levels.values()) >= len(levels):
        pairs = [(levels[task], _rate(control), _rate(treated)) for task, (control, treated) in seeds.items()]
        return _grouped(EARLIER, pairs)
    halves = {task: _halves(control) for task, (control, _) in seeds.items()}
    pairs = [
        # half of the seeds are few, so a single one gives a level
        (level_of(*_counts(basis), 1), _rate(compared), _rate(seeds[task][1]))
        for task, (basis, compared) in halves.items()
    ]
    return _grouped(OTHER_SEEDS, [one for one in pairs if one[0] != UNKNOWN])


def level_of(complete: int, counted: int, fewest: int = FEWEST) -> str:
    """Return the level of a task by its complete and its counted episodes."""
    if counted < fewest:
        return UNKNOWN
    # the last bound is below every rate
    return next(name for name, above in LEVELS.items() if complete / counted > above)


def _halves(tries: Sequence[Try]) -> tuple[list[Try], list[Try]]:
    """Split by seed, not by outcome: the first half decides the level, the others are compared."""
    ordered = sorted(tries, key=lambda attempt: attempt.seed)
    return ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]


def _counts(tries: Iterable[Try]) -> tuple[int, int]:
    results = [one.complete for one in tries if one.complete is not None]
    return sum(results), len(results)


def _rate(tries: Iterable[Try]) -> float | None:
    complete, counted = _counts(tries)
    return complete / counted if counted else None


def _grouped(basis: str, pairs: Iterable[tuple[str, float | None, float | None]]) -> ByDifficulty | None:
    """Group (level, rate of the control, rate of the arm); a task without a counted try in both is left out."""
    by_level: dict[str, list[tuple[float, float]]] = {name: [] for name in (*LEVELS, UNKNOWN)}
    for level, control, treated in pairs:
        if control is not None and treated is not None:
            by_level[level].append((control, treated))
    rows = [_level(name, both) for name, both in by_level.items() if both]
    return ByDifficulty(basis, rows) if rows else None


def _level(name: str, both: Sequence[tuple[float, float]]) -> DifficultyLevel:
    won, lost = sum(b > a for a, b in both), sum(b < a for a, b in both)
    return DifficultyLevel(
        name, len(both), won, lost, sum(a for a, _ in both) / len(both), sum(b for _, b in both) / len(both)
    )
