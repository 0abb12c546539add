"""Tables of a run's results, for its page, its files and its report: rows with names of columns.

Called with the results of `comparison.py` and `compare.py`, and reads shaped rewards; nothing here adds a claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from people.rates import wilson
from people.text import spreadsheets
from runs.models import Plan
from runs.plan import spending
from runs.plan.plans import MAX_SEEDS, PlanDocument, plan_of, repeatable
from runs.show import asking, curve, rewarding
from runs.show.comparison import RunComparison
from runs.statistics.compare import Try
from runs.statistics.contrast import Contrast
from runs.statistics.paired import Interval, cluster_interval, pass_all, pass_at

Row = dict[str, Any]
EDGE = 10
"""With fewer complete or other tasks than this, a mean of shares counts as near its edge."""


class Mean(NamedTuple):
    """A mean over tasks, with its 95% interval if there are enough tasks and none shares an answer with another."""

    share: float
    span: Interval | None

    @property
    def words(self) -> str:
        return f"{self.share:.3f}" + (f" [{self.span[0]:.2f}, {self.span[1]:.2f}]" if self.span else "")


@dataclass(frozen=True)
class Repeat:
    """pass@k and pass^k of each arm, as means over the tasks with k counted seeds in every arm."""

    k: int
    tasks: int
    any_of: dict[str, Mean]
    all_of: dict[str, Mean]

    @property
    def pairs(self) -> list[tuple[Mean, Mean]]:
        """Both shares of each arm, in the order of the arms."""
        return [(share, self.all_of[arm]) for arm, share in self.any_of.items()]


def repeats(tries: Iterable[Try], arms: Sequence[str]) -> list[Repeat]:
    """Return a row for each k that is a power of two and has a task, and for the most seeds of a task; empty if no task
    has two seeds in all arms, and while tries are open: those that ended first are not like the others."""
    tries = list(tries)
    if any(one.is_open for one in tries):
        return []
    counted: dict[str, dict[str, list[bool]]] = defaultdict(lambda: {arm: [] for arm in arms})
    asked: dict[tuple[str, str], set[str]] = defaultdict(set)
    for attempt in tries:
        if attempt.complete is not None and attempt.arm in arms:
            counted[attempt.task][attempt.arm].append(attempt.complete)
            for answer in attempt.shared:
                asked[attempt.arm, answer].add(attempt.task)
    # tasks that share an answer are not independent, so the arm has no interval
    joined = {arm for (arm, _), tasks in asked.items() if len(tasks) > 1}
    most = max((min(len(seeds) for seeds in task.values()) for task in counted.values()), default=0)
    rows = []
    for k in sorted({*(2**power for power in range(most.bit_length())), most}) if most > 1 else ():
        enough = [task for task in counted.values() if min(len(seeds) for seeds in task.values()) >= k]
        means = ({arm: _mean(how, [task[arm] for task in enough], k, arm not in joined) for arm in arms} for how in HOW)
        rows.append(Repeat(k, len(enough), *means))
    return rows


HOW: tuple[Callable[[int, int, int], float | None], ...] = (pass_at, pass_all)


def _mean(
    how: Callable[[int, int, int], float | None], tasks: Sequence[Sequence[bool]], k: int, are_alone: bool
) -> Mean:
    # never None: these tasks have k seeds
    values = [how(len(seeds), sum(seeds), k) or 0.0 for seeds in tasks]
    mean, span = cluster_interval(values, [1] * len(values))
    return Mean(mean, bounded(sum(values), len(values), span) if span and are_alone else None)


def bounded(total: float, tasks: int, span: Interval) -> Interval:
    """Return the interval of a mean of shares. Near 0 and 1 tasks that would vary may be missing among the few, and the
    interval of their spread covers 71%; a mean of shares varies no more than a rate, whose interval is then used."""
    low, high = max(0.0, span[0]), min(1.0, span[1])
    if min(total, tasks - total) < EDGE:
        rate = wilson(total, tasks)
        # the wider of both
        low, high = min(low, rate[0]), max(high, rate[1])
    return low, high


def plan_now(plan: Plan) -> PlanDocument:
    """Return the current plan of a run: with the seeds that were added, as many as a plan can have."""
    return plan_of({**plan.document, "seeds": min(plan.seeds, MAX_SEEDS)})


def plan_file(plan: Plan) -> str:
    """Return the plan of a run as YAML that launches the same run elsewhere."""
    first = plan.tries.filter(seed=0, arm__place=0).order_by("position")
    more = (
        f"# --add-seeds {plan.seeds - MAX_SEEDS} plans the other seeds of this run.\n" if plan.seeds > MAX_SEEDS else ""
    )
    return more + repeatable(plan_now(plan), [one.task for one in first.only("scenario", "task_idx")])


def of_tries(comparison: RunComparison) -> list[Row]:
    """Return every planned try, in the planned order."""
    return [
        {
            "task": attempt.task,
            "scenario": attempt.scenario,
            "arm": attempt.arm,
            "seed": attempt.seed,
            "wave": attempt.wave,
            "position": attempt.position,
            "complete": "" if attempt.complete is None else int(attempt.complete),
            "excluded": attempt.excluded,
            "offered": "" if attempt.offered is None else int(attempt.offered),
            "chance": "" if attempt.chance is None else attempt.chance,
            "asked": int(attempt.asked),
            "human_s": round(attempt.human_s, 1),
        }
        for attempt in comparison.tries
    ]


def of_scenarios(contrasts: Iterable[Contrast]) -> list[Row]:
    """Return raw differences by scenario, ordered by shrunken difference: for description, without a test."""
    return [
        {
            "arm": contrast.arm,
            "control": contrast.control,
            "scenario": row.scenario,
            "tasks": row.tasks,
            "won": row.won,
            "lost": row.lost,
            "difference": row.delta,
            "shrunk": row.shrunk,
        }
        for contrast in contrasts
        for row in contrast.scenarios
    ]


def of_difficulty(comparison: RunComparison) -> list[Row]:
    """Return raw differences by difficulty: for description, without a test."""
    return [
        {
            "arm": contrast.arm,
            "control": contrast.control,
            "basis": levels.basis,
            "level": level.name,
            "tasks": level.tasks,
            "won": level.won,
            "lost": level.lost,
            "control_rate": level.control_rate,
            "difference": level.delta,
        }
        for contrast, levels in zip(comparison.contrasts, comparison.levels, strict=True)
        if levels is not None
        for level in levels.levels
    ]


def of_repeats(comparison: RunComparison) -> list[Row]:
    """Return pass@k and pass^k of every arm with their intervals, one row for each."""
    return [
        {"k": repeat.k, "arm": arm, "tasks": repeat.tasks}
        | {
            column: value
            for name, mean in (("pass@k", repeat.any_of[arm]), ("pass^k", repeat.all_of[arm]))
            for column, value in zip(_with_ends(name), (mean.share, *(mean.span or ("", ""))), strict=True)
        }
        for repeat in repeats(comparison.tries, [arm.name for arm in comparison.arms])
        for arm in repeat.any_of
    ]


def _with_ends(name: str) -> list[str]:
    return [name, f"{name} low", f"{name} high"]


def of_completions(comparison: RunComparison) -> list[Row]:
    """Return the running number of complete tries of each arm, in the planned order, without excluded and open ones."""
    counted: dict[str, list[int]] = {arm.name: [0, 0] for arm in comparison.arms}
    rows: list[Row] = []
    for attempt in comparison.tries:
        if attempt.complete is not None:
            both = counted[attempt.arm]
            both[0] += 1
            both[1] += attempt.complete
            rows.append({"arm": attempt.arm, "counted": both[0], "complete": both[1], "rate": both[1] / both[0]})
    return rows


TABLES: dict[str, tuple[list[str] | Callable[[], list[str]], Callable[[RunComparison], list[Row]]]] = {
    "tries": (
        [
            *("task", "scenario", "arm", "seed", "wave", "position", "complete", "excluded"),
            *("offered", "chance", "asked", "human_s"),
        ],
        of_tries,
    ),
    "scenarios": (
        ["arm", "control", "scenario", "tasks", "won", "lost", "difference", "shrunk"],
        lambda comparison: of_scenarios(comparison.contrasts),
    ),
    "difficulty": (
        ["arm", "control", "basis", "level", "tasks", "won", "lost", "control_rate", "difference"],
        of_difficulty,
    ),
    "repeats": (["k", "arm", "tasks", *_with_ends("pass@k"), *_with_ends("pass^k")], of_repeats),
    "rewards": (rewarding.columns, lambda comparison: rewarding.rows(comparison.plan)),
    "costs": (spending.COLUMNS, lambda comparison: spending.table(spending.costs_of(comparison.plan.run))),
    "asking": (asking.COLUMNS, asking.rows),
    "curve": (curve.COLUMNS, curve.rows),
    "completions": (["arm", "counted", "complete", "rate"], of_completions),
}
"""Columns and rows by name, which is also that of the file."""


def in_csv(name: str, comparison: RunComparison) -> str:
    """Return a table as CSV."""
    columns, rows_of = TABLES[name]
    rows, names = rows_of(comparison), dict.fromkeys(columns() if callable(columns) else columns)
    # stored rewards can have components that their profile has lost since
    names |= dict.fromkeys(column for row in rows for column in row)
    return spreadsheets.in_csv(list(names), ([row.get(column, "") for column in names] for row in rows))
