"""Reads: how a run's training went, step by step: what the trainer reported, and rates counted from the record.

Losses and reward components are the trainer's word. The rates of `episode/` are counted from episodes with a training
step: format errors as the ratio has them, completion by outcomes that count, and rollouts cut off by a limit.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db.models import Count, Q

from curriculum.counting import EXCLUDED, finished_of
from curriculum.models import TrainingStep
from episodes import outcomes
from episodes.models import ExpertMode, Run
from people.audit import inert

WIDTH, HEIGHT, EDGE = 300, 64, 6
SHOWN = 24
"""Series on the page; the file has all."""
CUT_OFF = ("max_steps", "timeout")


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

    @property
    def line(self) -> str:
        """The points of an SVG polyline, `WIDTH` by `HEIGHT`; a constant runs through the middle."""
        every = 1 + (len(self.points) - 1) // WIDTH
        drawn = self.points[::-every][::-1]  # no more points than pixels; the last is one
        first, end = self.points[0][0], self.points[-1][0]
        across = (WIDTH - 2 * EDGE) / max(end - first, 1)
        return " ".join(f"{EDGE + across * (step - first):.1f},{self._y(value)}" for step, value in drawn)

    @property
    def untrained(self) -> str:
        """The height of the first step, whose rollouts the untrained model drew; none for a loss or a single step."""
        return "" if self.name.startswith("loss/") or len(self.points) < 2 else self._y(self.points[0][1])

    def _y(self, value: float) -> str:
        height = self.high - self.low
        return f"{HEIGHT / 2 if not height else EDGE + (HEIGHT - 2 * EDGE) * (self.high - value) / height:.1f}"

    @property
    def dot(self) -> tuple[str, str]:
        """Where the last point stands, which is all that a single step shows."""
        x, _, y = self.line.rpartition(" ")[2].partition(",")
        return x, y


def of_run(run: Run) -> list[Series]:
    """Return every series of a run, rewards first, then rates, then losses, each by name."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for step in TrainingStep.objects.filter(run=run).order_by("training_step"):
        for group, values in (("reward", step.components), ("loss", step.losses)):
            for name, value in numbers(values):
                found[name if name.startswith(f"{group}/") else f"{group}/{name}"][step.training_step] = value
        if step.rollouts:
            found["episode/format_error_rate"][step.training_step] = step.format_errors / step.rollouts
    for name, rates in _rates(run).items():
        found[name] |= rates
    order = {"reward": 0, "episode": 1, "loss": 2}
    names = sorted((name for name in found if found[name]), key=lambda name: (order[name.partition("/")[0]], name))
    return [Series(name, tuple(sorted(found[name].items()))) for name in names]


def numbers(values: object) -> Iterable[tuple[str, float]]:
    """Yield what a trainer reported under a name, as far as it is a number."""
    if isinstance(values, Mapping):
        yield from ((str(name), float(value)) for name, value in values.items() if type(value) in (int, float))


def _rates(run: Run) -> dict[str, dict[int, float]]:
    """Return the shares of a step's finished rollouts that were complete, and that a limit cut off, and the complete
    ones so far: of all rollouts, and of those without and with an expert.
    """
    finished = finished_of(run).filter(training_step__isnull=False)
    counts = finished.values("training_step", "expert").annotate(
        all=Count("pk"), cut=Count("pk", Q(stop_reason__in=CUT_OFF))
    )
    sums: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))

    def add(name: str, step: int, expert: str, part: int, whole: int) -> None:
        for kind in ("", "/solo" if expert == ExpertMode.OFF else "/with_expert"):
            sums[f"episode/{name}{kind}"][step][0] += part
            sums[f"episode/{name}{kind}"][step][1] += whole

    for row in counts:
        add("timeout_rate", row["training_step"] or 0, row["expert"], row["cut"], row["all"])
    proved = outcomes.proved_of(run.project).filter(episode__in=finished).exclude(reward_type__in=EXCLUDED)
    columns = ("episode_id", "episode__training_step", "episode__expert", "reward_type")
    judged = {row[0]: row[1:] for row in proved.order_by("pk").values_list(*columns)}
    for step, expert, reward_type in judged.values():
        add("success_rate", step, expert, reward_type == "complete", 1)
    rates = {name: {step: part / whole for step, (part, whole) in of.items()} for name, of in sums.items()}
    for name in [name for name in sums if "/success_rate" in name]:
        steps = sorted(sums[name])
        told = accumulate(sums[name][step][0] for step in steps)
        rates[name.replace("success_rate", "completions")] = dict(zip(steps, map(float, told), strict=True))
    return rates


def in_csv(series: Iterable[Series]) -> str:
    """Return a row for each step and series. An apostrophe keeps spreadsheets from running names as formulas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["training_step", "name", "value"])
    writer.writerows((step, inert(one.name), value) for one in series for step, value in one.points)
    return text.getvalue()


def events_name(run: Run) -> str:
    """Return a file name that TensorBoard finds."""
    return f"events.out.tfevents.{run.pk}"


def in_events(run: Run, series: Iterable[Series]) -> bytes:
    """Return the series as a TensorBoard event file: a scalar for each step, at the time when it was reported."""
    from tensorboardX.writer import SummaryWriter

    rows = TrainingStep.objects.filter(run=run).values_list("training_step", "at")
    times = {step: at.timestamp() for step, at in rows}
    with TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for one in series:
                for step, value in one.points:
                    writer.add_scalar(one.name, value, step, walltime=times.get(step, run.created_at.timestamp()))
        [file] = Path(folder).iterdir()
        return file.read_bytes()
