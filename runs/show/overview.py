"""Reads: runs as their pages show them: the progress of each arm, and every task with its tries side by side.

Counts outcomes through `visibility`, so that a reviewer who judges an episode blind finds nothing of it here.
Conclusions from the numbers belong to `comparison.py`.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, groupby

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Greatest
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.models import Episode, EpisodeState, OutcomeQuerySet, Run, counted_as
from episodes.stored import run_names, run_sizes
from episodes.stored.run_sizes import RunSize
from episodes.stored.strip import outcome_words
from episodes.visible import visibility
from people.access import Actor, scoped
from people.text.in_words import duration
from runs.models import INFRASTRUCTURE, Plan, PlanState
from runs.plan import replaceable
from runs.plan.plans import briefing_words
from runs.show import comparison, helping
from runs.show.comparison import RunComparison
from runs.show.helping import ArmHelp, WaitingAgents
from runs.statistics.compare import Try
from runs.taskset import probes

WIDTH, BAR = 1000, 10
"""The units of a bar."""
TASKS_SHOWN = 300
COMPARED = 24
"""The most episodes that one page compares."""
PACE_OVER, ENDS = timedelta(hours=1), 5
MARKS_SHOWN = 1000
"""The most tries of the shown tasks at which each has a mark; with more, a page would take seconds."""


@dataclass
class ArmBar:
    """The progress of one arm. `left_out` are episodes that count for neither side."""

    name: str
    expert: str
    briefing: str = ""
    planned: int = 0
    complete: int = 0
    others: int = 0
    finished: int = 0
    faults: int = 0
    cancelled: int = 0
    live: int = 0
    help: ArmHelp | None = None
    """How its asks ended; None without any, and in a list."""

    @property
    def left_out(self) -> int:
        return self.ended - self.complete - self.others

    @property
    def ended(self) -> int:
        return self.finished + self.faults + self.cancelled

    def add(self, state: str, count: int) -> None:
        self.planned += count
        if state == EpisodeState.FINISHED:
            self.finished += count
        elif state == EpisodeState.FAILED:
            self.faults += count
        elif state == EpisodeState.CANCELLED:
            self.cancelled += count
        # the first live state is queued
        elif state in LIVE_STATES[1:]:
            self.live += count

    def count(self, complete: bool | None, count: int) -> None:
        """Count tries on their side; None is neither."""
        if complete is not None:
            self.complete += complete * count
            self.others += (not complete) * count

    @property
    def parts(self) -> list[tuple[str, int, int, int, int]]:
        """Class, place from the left, width, place from the top and height of each part of the bar. Heights differ, so
        that no one needs the color to tell complete ones from others."""
        segments, at = [], 0
        counts = (("ok", self.complete, 10), ("no", self.others, 4), ("flt", self.left_out, 2), ("wk", self.live, 7))
        for css, count, height in counts:
            width = round(WIDTH * count / self.planned) if self.planned else 0
            segments.append((css, at, width, BAR - height, height))
            at += width
        return [part for part in segments if part[2]]


@dataclass
class RunCard:
    """One run of the list. A run without a plan has no arms: its episodes are those of an external loop."""

    run: Run
    plan: Plan | None
    arms: list[ArmBar] = field(default_factory=list)
    left_s: float | None = None
    """Seconds until a running run ends at its pace; None if unknown."""
    broken: int = 0
    """Tries that infrastructure ended without an outcome: a retry replaces them."""
    size: RunSize = RunSize()
    """Of a run without a plan."""
    label: str = ""
    """Its name, with a number if others have the same one."""
    waiting: WaitingAgents | None = None
    """Its agents that wait for a person; None if no one does."""

    @property
    def ended(self) -> int:
        return sum(arm.ended for arm in self.arms)

    @property
    def planned(self) -> int:
        return sum(arm.planned for arm in self.arms)

    @property
    def left(self) -> str:
        return "" if self.left_s is None else f"about {duration(self.left_s)} left"

    @property
    def is_active(self) -> bool:
        return self.plan.state in (PlanState.RUNNING, PlanState.PAUSED) if self.plan else self.size.live > 0


def cards(actor: Actor, runs: Sequence[Run]) -> list[RunCard]:
    """Return these runs with their counts, in ten statements for any number of runs, and some more for each run that
    has a task unfit by probe or ruling, or a finished episode without an outcome for this person."""
    plans = {
        plan.pk: plan
        for plan in Plan.objects.filter(run__in=[run.pk for run in runs]).select_related("run").prefetch_related("arms")
    }
    bars = {
        arm.pk: ArmBar(arm.name, arm.expert, briefing_words(plan.document, arm.name))
        for plan in plans.values()
        for arm in plan.arms.all()
    }
    broken: dict[str, int] = defaultdict(int)
    silent: dict[str, int] = defaultdict(int)
    tries = Episode.objects.filter(planned__plan__in=plans)
    columns = ("planned__plan_id", "planned__arm_id", "state", "fault", "assisted")
    for plan_id, arm_id, state, fault, assisted, count in tries.values_list(*columns).annotate(count=Count("pk")):
        bars[arm_id].add(state, count)
        bars[arm_id].count(counted_as(state, fault, assisted=assisted), count)
        if state == EpisodeState.FINISHED:
            silent[plan_id] += count
        elif state == EpisodeState.FAILED and fault in INFRASTRUCTURE:
            broken[plan_id] += count
    verdicts = visibility.of_project(actor).filter(
        episode__planned__plan__in=plans, episode__state=EpisodeState.FINISHED
    )
    verdicts = verdicts.unaided()
    judged = ("episode__planned__plan_id", "episode__planned__arm_id", "reward_type")
    for plan_id, arm_id, reward_type, count in verdicts.values_list(*judged).annotate(count=Count("pk")):
        # what is left finished without an outcome that this actor sees
        silent[plan_id] -= count
        bars[arm_id].count(counted_as(EpisodeState.FINISHED, "", reward_type), count)
    _leave_out(actor, plans, tries, verdicts, bars)
    for plan_id in [pk for pk, without in silent.items() if without]:
        broken[plan_id] = replaceable.tries_of([plan_id]).count()
    sizes = run_sizes.sizes_of([run.pk for run in runs if run.pk not in plans])
    waiting = helping.waiting_in(plans.values())
    left = _left(plans.values(), waiting)
    labels = run_names.apart(actor.project, {run.pk: run.name for run in runs})
    return [
        RunCard(
            run,
            plan := plans.get(run.pk),
            [bars[arm.pk] for arm in plan.arms.all()] if plan else [],
            left.get(run.pk),
            broken[run.pk],
            sizes.get(run.pk, RunSize()),
            label=labels[run.pk],
            waiting=waiting.get(run.pk),
        )
        for run in runs
    ]


def _leave_out(
    actor: Actor,
    plans: Mapping[str, Plan],
    tries: QuerySet[Episode],
    verdicts: OutcomeQuerySet,
    bars: Mapping[int, ArmBar],
) -> None:
    """Count tries as left out, as a comparison does: of tasks that were known to be unfit before the launch, and of
    scenarios whose pack was replaced during the run."""
    tasks, replaced = probes.ever_unfit(actor.project), _replaced(tries)
    if not tasks and not replaced:
        return
    # once for each run: several rows below are of the same one
    left_out = functools.cache(lambda pk: comparison.left_out(plans[pk]))
    scenarios = {*(task.rpartition("/")[0] for task in tasks), *(scenario for _, scenario in replaced)}
    failed = tries.filter(state=EpisodeState.FAILED, scenario__in=scenarios)
    judged = verdicts.filter(episode__scenario__in=scenarios)
    columns = ("planned__plan_id", "planned__arm_id", "scenario", "task_idx", "state", "fault")
    of_failed = failed.values_list(*columns).annotate(count=Count("pk"))
    of_judged = judged.values_list(*(f"episode__{name}" for name in columns), "reward_type").annotate(count=Count("pk"))
    # failed tries have no outcome, judged ones do: no try is in both
    for plan_id, arm_id, scenario, idx, *ended, count in chain(of_failed, of_judged):
        task = f"{scenario}/{idx}"
        if (plan_id, scenario) in replaced or (task in tasks and task in left_out(plan_id)):
            bars[arm_id].count(counted_as(*ended), -count)


def _replaced(tries: QuerySet[Episode]) -> set[tuple[str, str]]:
    """Return the runs with their scenarios of which they have episodes of several versions."""
    versions = tries.exclude(scenario_digest="").order_by().values_list("planned__plan_id", "scenario")
    several = versions.annotate(versions=Count("scenario_digest", distinct=True)).filter(versions__gt=1)
    return {(str(plan), str(scenario)) for plan, scenario, _ in several}


def _left(plans: Iterable[Plan], waiting: Mapping[str, WaitingAgents]) -> dict[str, float]:
    """Return the time to the end of running runs, at the pace of the last hour or since each was started or resumed.
    Runs with fewer than `ENDS` ended episodes in that time are left out: their pace is unknown. So are those of which
    an agent waits for a person, who sets the pace then."""
    now = timezone.now()
    since = Greatest("planned__plan__changed_at", Value(now - PACE_OVER))
    running = [plan for plan in plans if plan.state == PlanState.RUNNING and plan.changed_at and plan.pk not in waiting]
    tries = Episode.objects.filter(planned__plan__in=running).order_by().values_list("planned__plan_id")
    counted = tries.annotate(
        ended=Count("pk", filter=Q(ended_at__gte=since)), open=Count("pk", filter=Q(state__in=LIVE_STATES))
    )
    began = {plan.pk: max(plan.changed_at, now - PACE_OVER) for plan in running if plan.changed_at}
    return {
        pk: open_ * (now - began[pk]).total_seconds() / ended for pk, ended, open_ in counted if ended >= ENDS and open_
    }


def card_of(compared: RunComparison) -> RunCard:
    """Return a compared run with the counts of its comparison, so that bars and finding agree and are read together."""
    ends = {one.arm: one for one in helping.of_arms(compared.plan, [arm.name for arm in compared.arms])}
    bars = [
        ArmBar(
            arm.name,
            arm.expert,
            arm.briefing,
            planned=arm.planned,
            complete=arm.complete,
            others=arm.others,
            finished=arm.complete + arm.others,
            faults=sum(arm.excluded.values()),
            live=arm.live,
            help=ends.get(arm.name),
        )
        for arm in compared.arms
    ]
    reasons = (*(f"fault {fault}" for fault in INFRASTRUCTURE), replaceable.LOST)
    broken = sum(arm.excluded.get(reason, 0) for arm in compared.arms for reason in reasons)
    waiting = helping.waiting_in([compared.plan])
    left = _left([compared.plan], waiting).get(compared.plan.pk)
    run = compared.plan.run
    label = run_names.apart(run.project, {run.pk: run.name})[run.pk]
    return RunCard(run, compared.plan, bars, left, broken, label=label, waiting=waiting.get(run.pk))


def active(project_runs: QuerySet[Run]) -> QuerySet[Run]:
    """Filter to runs with a plan that is not through, and those of external loops that have a live episode."""
    return project_runs.filter(Q(plan__state__in=[PlanState.RUNNING, PlanState.PAUSED]) | at_work())


def beside(run: Run) -> tuple[Run | None, Run | None]:
    """Return the runs with a plan before and after this one in the list, which is newest first."""
    others = scoped(Run.objects.filter(plan__isnull=False), run.project)
    at = Q(created_at=run.created_at)
    newer = others.filter(Q(created_at__gt=run.created_at) | at & Q(pk__gt=run.pk)).order_by("created_at", "pk")
    older = others.filter(Q(created_at__lt=run.created_at) | at & Q(pk__lt=run.pk)).order_by("-created_at", "-pk")
    return newer.first(), older.first()


def at_work() -> Q:
    """Filter to runs without a plan that have a live episode."""
    return Q(Exists(Episode.objects.live().filter(run=OuterRef("pk"))), plan=None)


@dataclass(frozen=True)
class TryMark:
    """One try in the table of tasks: its episode, and complete, others, left out or open."""

    episode: str
    seed: int
    css: str
    words: str


@dataclass(frozen=True)
class TaskCell:
    """A task under an arm: a mark for each try, or only the counts if a page would have too many marks."""

    arm: str
    complete: int
    counted: int
    marks: list[TryMark]
    tried: list[str]


@dataclass(frozen=True)
class TaskRow:
    """One task with a cell for each arm, in the order of the arms."""

    scenario: str
    idx: str
    arms: list[TaskCell]

    @property
    def compared(self) -> list[str]:
        """Return its first episodes of each arm for the page that compares some; none if there is only one."""
        each = max(1, COMPARED // max(1, len(self.arms)))
        episodes = [episode for cell in self.arms for episode in cell.tried[:each]][:COMPARED]
        return episodes if len(episodes) > 1 else []


def task_rows(tries: Iterable[Try], arms: Sequence[str]) -> tuple[list[TaskRow], int]:
    """Return the first `TASKS_SHOWN` tasks of a run by scenario, and how many more there are."""
    by_task: dict[tuple[str, str], dict[str, list[Try]]] = defaultdict(lambda: {arm: [] for arm in arms})
    for attempt in tries:
        by_task[attempt.scenario, attempt.task][attempt.arm].append(attempt)
    shown = sorted(by_task)[:TASKS_SHOWN]
    marked = sum(len(cell) for key in shown for cell in by_task[key].values()) <= MARKS_SHOWN
    rows = [
        TaskRow(scenario, task.rpartition("/")[2], [_cell(arm, by_task[scenario, task][arm], marked) for arm in arms])
        for scenario, task in shown
    ]
    return rows, len(by_task) - len(shown)


def by_scenario(rows: Sequence[TaskRow]) -> list[tuple[str, list[TaskRow]]]:
    return [(name, list(same)) for name, same in groupby(rows, key=lambda row: row.scenario)]


def _cell(arm: str, tries: Sequence[Try], marked: bool) -> TaskCell:
    counted = [one.complete for one in tries if one.complete is not None]
    marks = [_mark(one) for one in tries] if marked else []
    return TaskCell(arm, sum(counted), len(counted), marks, [one.episode for one in tries])


def _mark(attempt: Try) -> TryMark:
    if attempt.complete is not None:
        css = "complete" if attempt.complete else "others"
        words = outcome_words(css).lower()
    else:
        css, words = ("excluded", attempt.excluded) if attempt.excluded else ("open", "not ended")
    if attempt.offered is not None:
        words += ", help offered" if attempt.offered else ", help withheld"
    return TryMark(attempt.episode, attempt.seed, css, words)
