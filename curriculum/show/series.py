"""Reads: a run's training, step by step: the values that the trainer reported, and rates counted from the record.

Losses and reward components are the trainer's own values. The rates of `episode/` are counted from episodes with a
training step: format errors as the ratio uses them, completion by outcomes that count, and rollouts cut off by a limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db.models import Count, Q

from curriculum.counting import EXCLUDED, finished_of
from curriculum.models import TrainingStep
from episodes.models import ExpertMode, Run
from episodes.stored import outcomes
from people.text import spreadsheets

CUT_OFF = ("max_steps", "timeout", "cut_off")
Counts = dict[int, tuple[int, int]]
"""Part and whole by training step."""


@dataclass(frozen=True)
class Series:
    """One quantity by training step. `points` are in the order of steps."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]

    @property
    def low(self) -> float:
        return min(value for _, value in self.points)

    @property
    def high(self) -> float:
        return max(value for _, value in self.points)


def of_run(run: Run, counts: Mapping[str, Counts] | None = None) -> list[Series]:
    """Return every series of a run: rewards, then rates, then losses, each by name. `counts` are its `rates_of`, if the
    caller already has them."""
    by_name: dict[str, dict[int, float]] = defaultdict(dict)
    for step in TrainingStep.objects.filter(run=run).order_by("training_step"):
        for group, values in (("reward", step.components), ("loss", step.losses)):
            for name, value in numbers(values):
                # A trainer can report `reward/x` or `x`: both are one series.
                by_name[name if name.startswith(f"{group}/") else f"{group}/{name}"][step.training_step] = value
        if step.rollouts:
            by_name["episode/format_error_rate"][step.training_step] = step.format_errors / step.rollouts
    counts = rates_of(run) if counts is None else counts
    for name, by_step in counts.items():
        by_name[name] |= {step: part / whole for step, (part, whole) in by_step.items()}
        if "/success_rate" in name:
            steps = sorted(by_step)
            so_far = accumulate(by_step[step][0] for step in steps)
            by_name[name.replace("success_rate", "completions")] = dict(zip(steps, map(float, so_far), strict=True))
    # The page has charts for the first 24: what a trainer rewards goes before its losses.
    order = {"reward": 0, "episode": 1, "loss": 2}
    names = sorted((name for name in by_name if by_name[name]), key=lambda name: (order[name.partition("/")[0]], name))
    return [Series(name, tuple(sorted(by_name[name].items()))) for name in names]


def numbers(values: object) -> Iterable[tuple[str, float]]:
    """Yield the numbers among the values that a trainer reported under a name."""
    if isinstance(values, Mapping):
        # Not by `isinstance`: a boolean is an int, and no curve.
        yield from ((str(name), float(value)) for name, value in values.items() if type(value) in (int, float))


def rates_of(run: Run) -> dict[str, Counts]:
    """Count a step's finished rollouts that a limit cut off, that had an expert, and that were complete: in total,
    without and with an expert."""
    finished = finished_of(run).filter(training_step__isnull=False)
    counts = finished.values("training_step", "expert").annotate(
        all=Count("pk"), cut=Count("pk", Q(stop_reason__in=CUT_OFF))
    )
    sums: dict[str, Counts] = defaultdict(lambda: defaultdict(lambda: (0, 0)))

    def add(name: str, step: int, part: int, whole: int) -> None:
        before = sums[f"episode/{name}"][step]
        sums[f"episode/{name}"][step] = (before[0] + part, before[1] + whole)

    def add_by_arm(name: str, step: int, expert: str, part: int, whole: int) -> None:
        for kind in ("", "/solo" if expert == ExpertMode.OFF else "/with_expert"):
            add(f"{name}{kind}", step, part, whole)

    for row in counts:
        step = row["training_step"] or 0
        add_by_arm("timeout_rate", step, row["expert"], row["cut"], row["all"])
        add("expert_rate", step, 0 if row["expert"] == ExpertMode.OFF else row["all"], row["all"])
    proved = outcomes.proved_of(run.project).filter(episode__in=finished).exclude(reward_type__in=EXCLUDED)
    columns = ("episode_id", "episode__training_step", "episode__expert", "reward_type")
    # By ID, so that of several outcomes of an episode the newest stays.
    judged = {row[0]: row[1:] for row in proved.order_by("pk").values_list(*columns)}
    for step, expert, reward_type in judged.values():
        add_by_arm("success_rate", step, expert, reward_type == "complete", 1)
    return dict(sums)


def tasks_of(run: Run) -> dict[str, dict[int, int]]:
    """Count the tasks of each step: of all rollouts, of those without and of those with an expert. Rollouts of a task
    come in a group and are alike, so a rate knows no more than that many."""
    finished = finished_of(run).filter(training_step__isnull=False).order_by()
    # Tasks without a scenario share one key, and only their texts distinguish them.
    rows = finished.values_list("training_step", "expert", "scenario", "task_idx").annotate(
        texts=Count("task", distinct=True)
    )
    counts: dict[str, dict[int, dict[tuple[str, int | None], int]]] = defaultdict(lambda: defaultdict(dict))
    for step, expert, scenario, idx, texts in rows:
        for kind in ("", "/solo" if expert == ExpertMode.OFF else "/with_expert"):
            by_task = counts[kind][step or 0]
            # Not the sum: rollouts with and without an expert share their tasks.
            by_task[scenario, idx] = max(texts, by_task.get((scenario, idx), 0))
    return {kind: {step: sum(known.values()) for step, known in by_step.items()} for kind, by_step in counts.items()}


def in_csv(series: Iterable[Series]) -> str:
    """Return a row per step and series."""
    rows = ((step, one.name, value) for one in series for step, value in one.points)
    return spreadsheets.in_csv(["training_step", "name", "value"], rows)


def events_name(run: Run) -> str:
    """Return a file name that TensorBoard recognizes."""
    return f"events.out.tfevents.{run.pk}"


def in_events(run: Run, series: Iterable[Series]) -> bytes:
    """Return the series as a TensorBoard event file: one scalar per step, at the time of its report."""
    # Imported here, because only files need it, and no page.
    from tensorboardX.writer import SummaryWriter

    rows = TrainingStep.objects.filter(run=run).values_list("training_step", "at")
    times = {step: at.timestamp() for step, at in rows}
    with TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for curve in series:
                for step, value in curve.points:
                    writer.add_scalar(curve.name, value, step, walltime=times.get(step, run.created_at.timestamp()))
        # The writer makes up a name of time and host; the page gives the file one that stays the same.
        [file] = Path(folder).iterdir()
        return file.read_bytes()
