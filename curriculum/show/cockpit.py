"""Reads: the values of the page Curriculum and the positions of its marks. Leaves markup to the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curriculum import next_tasks
from curriculum.models import Decision, TrainingStep
from curriculum.rules import ratio
from curriculum.rules.levels import ENOUGH
from curriculum.rules.plan import CurriculumPlan
from curriculum.rules.ratio import PHASES, Help, Measured, Phase, Strategy
from curriculum.show import charts, series
from curriculum.show.generations import SampledTurn, of_step
from episodes.models import Run
from episodes.stored import run_names
from people.access import scoped
from people.models import Project
from people.rates import wilson
from people.text.figures import Chart

RUNS_SHOWN, TASKS_SHOWN, LINKS_SHOWN, SERIES_SHOWN = 50, 100, 8, 24
DRAWN_TOGETHER = ("episode/format_error_rate", "episode/success_rate", "episode/completions", "episode/expert_rate")
"""Name prefixes of series that share a chart with others."""
STATES = {
    next_tasks.SERVED: "Served",
    next_tasks.LOCKED: "Locked",
    next_tasks.SKIPPED: "Skipped",
    next_tasks.HELD_OUT: "Held out",
    next_tasks.RULED: "Ruled at fault",
    next_tasks.UNFIT: "Unfit by probe",
}


def runs_of(project: Project) -> list[tuple[str, str]]:
    """Return the runs with training steps, newest first."""
    trained = TrainingStep.objects.filter(run__project=project).values("run")
    rows = scoped(Run.objects.filter(pk__in=trained), project).order_by("-created_at")
    return list(run_names.apart(project, dict(rows.values_list("pk", "name")[:RUNS_SHOWN])).items())


def percent(measured: Measured | None) -> int | None:
    return None if measured is None or measured.rate is None else round(measured.rate * 100)


def headline(plan: CurriculumPlan, coming: Help) -> str:
    """Return the finding of the page in one sentence."""
    expert, _ = ratio.group(plan.strategy, coming.phase, plan.group_size)
    share = f"{expert} of {plan.group_size} rollouts get an expert"
    if plan.strategy != Strategy.ADAPTIVE:
        return f"{plan.strategy.value.capitalize()}: {share}."
    if coming.override:
        return f"{coming.phase.value.capitalize()}, held by {coming.override.by}: {share}."
    rate = percent(coming.looked_at)
    if coming.looked_at is None or rate is None:
        return f"{coming.phase.value.capitalize()}: {share}, no step is measured yet."
    alone = ratio.phase_of(coming.looked_at, coming.phase)
    more = "" if alone == coming.phase else f", not yet enough for {alone.value.capitalize()}"
    why = f"{rate}% of step {coming.looked_at.step} were format errors{more}"
    return f"{coming.phase.value.capitalize()}: {share}; {why}."


def phases(plan: CurriculumPlan, coming: Help) -> list[dict[str, Any]]:
    """Return the three phases with their help, and which one applies."""
    rows = []
    for phase in Phase:
        expert, solo = ratio.group(plan.strategy, phase, plan.group_size)
        marks = [True] * expert + [False] * solo if plan.group_size <= 16 else []
        about = {"name": phase.value.capitalize(), "limit": PHASES[phase].limit, "expert": expert, "solo": solo}
        rows.append({**about, "marks": marks, "now": phase == coming.phase, "value": phase.value})
    return rows


@dataclass(frozen=True)
class Moving:
    """What moves the help, as the page says it: the finding, the step that it was read from, and the phases."""

    coming: Help
    headline: str
    rate: int | None
    """Format errors of the step that was looked at, in percent."""
    phases: list[dict[str, Any]]


def moving(plan: CurriculumPlan, coming: Help) -> Moving:
    return Moving(coming, headline(plan, coming), percent(coming.looked_at), phases(plan, coming))


@dataclass(frozen=True)
class DecisionForm:
    """The form of a decision. `typed` and `problem` are of one that was refused."""

    is_allowed: bool
    typed: Mapping[str, str]
    problem: str
    choices: tuple[tuple[str, str], ...] = tuple((f"override:{one}", f"Hold at {one.capitalize()}") for one in Phase)
    untils: Sequence[tuple[str, Any]] = tuple(Decision.Until.choices)


def links_of(run: Run) -> list[tuple[str, str]]:
    """Return the external pages that a trainer named for its run: `metadata.links`, name to web address."""
    links = (run.metadata or {}).get("links")
    rows = links.items() if isinstance(links, dict) else ()
    # A trainer wrote these: `javascript:` in a link would run in a member's browser.
    web = ("https://", "http://")
    return [(str(name)[:60], url) for name, url in rows if isinstance(url, str) and url.startswith(web)][:LINKS_SHOWN]


@dataclass(frozen=True)
class Generations:
    """Turns of one training step, the trainer's report of it, and the steps before and after it."""

    step: int
    before: int | None
    after: int | None
    reported: list[tuple[str, float]]
    turns: list[SampledTurn]


def generations_of(run: Run, number: int | None) -> Generations | None:
    """Return the turns of the wanted step, else of the last one; None without a reported step."""
    steps = {one.training_step: one for one in TrainingStep.objects.filter(run=run).order_by("training_step")}
    if not steps:
        return None
    numbers = list(steps)
    # Without a report of the wanted step, the page shows the last one.
    place = numbers.index(number) if number in steps else len(numbers) - 1
    shown = steps[numbers[place]]
    return Generations(
        step=numbers[place],
        before=numbers[place - 1] if place else None,
        after=numbers[place + 1] if place + 1 < len(numbers) else None,
        reported=sorted(series.numbers(shown.components)),
        turns=of_step(run, numbers[place]),
    )


@dataclass(frozen=True)
class Charts:
    """The charts of a run. `small` are those of many series: rewards, then rates without another chart, then losses."""

    history: list[Chart]
    completions: list[Chart]
    small: list[Chart]
    more: int
    """The number of series that only the file has."""


def charts_of(run: Run, plan: CurriculumPlan, helps: Sequence[Help], file: str) -> Charts:
    """Return the charts of the page; `file` is the address of all series as CSV."""
    counts, tasks = series.rates_of(run), series.tasks_of(run)
    curves = series.of_run(run, counts)
    measured = next_tasks.measured_steps(run)
    path = charts.help_path(helps, plan.strategy, plan.group_size, file) if measured else None
    by_name = {one.name: one for one in curves}
    others = [one for one in curves if not one.name.startswith(DRAWN_TOGETHER)]
    return Charts(
        history=[one for one in (charts.format_errors(measured, helps, tasks.get("", {}), file), path) if one],
        completions=[one for one in (charts.success(counts, tasks, file), charts.completions(by_name, file)) if one],
        small=[charts.small(one) for one in others[:SERIES_SHOWN]],
        more=max(0, len(others) - SERIES_SHOWN),
    )


def level_rows(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the levels with the conditions that are missing to open the next one."""
    rows = []
    for place, level in enumerate(content["levels"]):
        # the episodes of a task are alike, so the mean knows no more than its tasks
        low, high = wilson((level["mean"] or 0) * level["tasks"], level["tasks"])
        above = "" if level["above"] < 0 else f"solo rate above {level['above']:g}"
        upper = content["levels"][place - 1]["above"] if place else None
        words = above if upper is None else f"{level['above']:g} to {upper:g}" if above else f"{upper:g} or below"
        bar = {"low": round(low * 100, 1), "width": round((high - low) * 100, 1)} if level["episodes"] else None
        rows.append({**level, "words": words, "bar": bar, "at": round((level["mean"] or 0) * 100, 1), "enough": ENOUGH})
    return rows


@dataclass(frozen=True)
class Tasks:
    """The first tasks of a state, and the number of tasks in each state."""

    state: str
    rows: list[dict[str, Any]]
    counts: list[tuple[str, str, int]]

    @property
    def of(self) -> int:
        return next((count for name, _, count in self.counts if name == self.state), 0)


def tasks_of(run: Run, content: dict[str, Any], state: str) -> Tasks:
    counts = [(name, words, sum(row["state"] == name for row in content["tasks"])) for name, words in STATES.items()]
    rows = [row for row in content["tasks"] if row["state"] == state][:TASKS_SHOWN]
    elsewhere = _runs_of(run, [row for row in rows if not row["solo"] + row["helped"]])
    task_rows = []
    for row in rows:
        low, high = wilson(row["solo_solved"], row["solo"])
        rate = row["solo_solved"] / row["solo"] if row["solo"] else None
        bar = {"x": round(low * 150, 1), "width": round((high - low) * 150, 1), "at": round((rate or 0) * 150, 1)}
        opens = elsewhere.get(row["task"], run.pk)
        task_rows.append({**row, "rate": rate, "low": low, "high": high, "bar": bar, "opens": opens})
    return Tasks(state, task_rows, counts)


def _runs_of(run: Run, rows: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    """Return by task what the rows of tasks without a counted episode open: this run, all runs (""), or nothing."""
    recorded = run.project.episodes.filter(scenario__in={row["scenario"] for row in rows}).order_by()
    there: dict[tuple[str, int | None], set[str | None]] = {}
    for run_id, scenario, idx in recorded.values_list("run_id", "scenario", "task_idx").distinct():
        there.setdefault((scenario, idx), set()).add(run_id)
    by_task: dict[str, str | None] = {}
    for row in rows:
        runs = there.get((row["scenario"], row["task_idx"]), set())
        by_task[row["task"]] = run.pk if run.pk in runs or row["scenario"] is None else "" if runs else None
    return by_task


def story(run: Run) -> list[Decision]:
    """Return people's decisions about a run, newest first."""
    return list(Decision.objects.filter(run=run).order_by("-made_at", "-pk")[:RUNS_SHOWN])
