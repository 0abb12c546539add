"""Briefings of planned runs: a person writes them, a run pins them, and its agents read them before they begin.

Owns which briefing an episode gets: that of its try, the same for all seeds of a task under an arm. Leaves distilling
to `distilling.py`, which stores its result here, and the step to `awmclient.rollout`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from awmclient.schema import BRIEFING_MAX, SOURCES_MAX
from episodes.models import AGAIN, Episode, EpisodeState, Run
from episodes.stored import outcomes, splits
from episodes.visible import visibility
from people.access import Actor, is_id, may_launch, may_read, scoped, sees_outcomes
from people.errors import Invalid, WrongScope
from people.models import Project
from people.record.audit import record
from people.text.plain_text import clean
from runs.errors import NoExpertModel
from runs.launch import launching
from runs.models import Briefing, Plan, PlannedTry
from runs.plan.plans import HUMAN, MODEL, PlanDocument, PlannedArm

NOT_WRITTEN, NOT_YET = "No one had written one at the start.", "Not distilled yet."
EARLIER = 50
"""The number of earlier episodes of a task that a person can choose as sources."""
Task = tuple[str, int]


@transaction.atomic
def write(
    actor: Actor, scenario: str, task_idx: int, text: str, sources: Sequence[str] = (), *, saw_outcomes: bool = False
) -> Briefing:
    """Write a person's briefing of a task; it counts for runs that start from now on.

    It counts as informed if its author says so, or if the author sees the outcome of a source. Raises `Invalid` or
    `UnknownTask`.
    """
    may_launch(actor)
    launching.task_text(scenario, task_idx)
    text, sources = text.strip(), list(dict.fromkeys(sources))
    # no text column takes U+0000
    if not text or len(text) > BRIEFING_MAX or text != text.replace("\x00", ""):
        raise Invalid(f"text: a briefing has 1 to {BRIEFING_MAX:,} characters.")
    if len(sources) > SOURCES_MAX:
        raise Invalid(f"sources: at most {SOURCES_MAX} episodes.")
    ended = _of_task(actor.project, scenario, task_idx).filter(pk__in=[one for one in sources if is_id(one)])
    ended_ids = set(ended.values_list("pk", flat=True))
    if unknown := [one for one in sources if one not in ended_ids]:
        raise Invalid(f"sources: {unknown[0][:40]!r} is no ended episode of this task.")
    # an author from whom the outcome is withheld has not seen it
    sees = saw_outcomes or visibility.of_episodes(actor, sources).exists()
    briefing = Briefing.objects.create(
        project=actor.project,
        scenario=scenario,
        task_idx=task_idx,
        text=text,
        source=Briefing.Source.HUMAN,
        author=actor.name,
        privilege="sees_verifier" if sees else "blind",
        sources=sources,
    )
    record(actor, "briefing.written", briefing.task, f"{len(text):,} characters, {briefing.privilege}")
    return briefing


def _of_task(project: Project, scenario: str, task_idx: int) -> QuerySet[Episode]:
    ended = scoped(Episode.objects.all(), project).filter(scenario=scenario, task_idx=task_idx)
    return ended.filter(state=EpisodeState.FINISHED).order_by("-ended_at", "-pk")


def earlier(actor: Actor, scenario: str, task_idx: int) -> list[Episode]:
    """Return the newest ended episodes of a task, for a person to look at."""
    return list(_of_task(actor.project, scenario, task_idx).select_related("run")[:EARLIER])


def usable(project: Project) -> QuerySet[Episode]:
    """Return the episodes that a model can learn from: ended without a fault, no branch, none that continues a prompt,
    and without verifier access. `is_held_out` filters held-out tasks."""
    rows = scoped(Episode.objects.all(), project).filter(state=EpisodeState.FINISHED, fault="", knowledge="")
    # what an informed agent says can carry what only the verifier knows
    return rows.exclude(visibility.was_informed()).order_by("-ended_at", "-pk")


def is_held_out(held_out: Collection[str], task: str, split: str, run: Run | None) -> bool:
    """Return whether a split, its loop or its run excludes an episode from learning."""
    is_evaluation = run is not None and bool(run.metadata.get("evaluation"))
    return task in held_out or not splits.is_training_name(split) or is_evaluation


def newest(project: Project, tasks: Iterable[Task]) -> dict[Task, Briefing]:
    """Return the newest briefing by a person for each of these tasks."""
    keys = set(tasks)
    rows = scoped(Briefing.objects.filter(run=None), project).filter(scenario__in={name for name, _ in keys})
    # in the order of writing: the last one of a task wins
    by_task = {(row.scenario, row.task_idx): row for row in rows.order_by("at", "pk")}
    return {task: row for task, row in by_task.items() if task in keys}


def model_of(name: str) -> str:
    """Return the expert model of `model` or `model:NAME`. Raises `NoExpertModel`."""
    which = name.partition(":")[2] or next(iter(settings.EXPERT_ENDPOINTS), "")
    if which not in settings.EXPERT_ENDPOINTS:
        names = ", ".join(settings.EXPERT_ENDPOINTS) or "none"
        raise NoExpertModel(f"There is no expert model {which or name!r}; configured: {names}.")
    return which


def check(document: PlanDocument) -> None:
    """Refuse a plan whose models are not configured. Raises `NoExpertModel`."""
    for arm in document.arms:
        if (arm.briefing or "").startswith(MODEL):
            model_of(str(arm.briefing))


def arms_of(plan: Plan) -> dict[str, PlannedArm]:
    """Return the arms of a plan that brief their agents, by name."""
    return {arm["name"]: PlannedArm.model_validate(arm) for arm in plan.document["arms"] if arm.get("briefing")}


def pin(plan: Plan) -> None:
    """Assign people's current briefings to every try of the arms that use them, once, when the run starts; tries of
    seeds that are added later get the briefing of their task. The caller must hold the plan's lock."""
    for name, arm in arms_of(plan).items():
        tries = plan.tries.filter(arm__name=name)
        first = tries.filter(wave=0)
        if plan.started_at is None and arm.briefing == HUMAN:
            for (scenario, idx), briefing in newest(
                plan.run.project, first.values_list("scenario", "task_idx")
            ).items():
                first.filter(scenario=scenario, task_idx=idx).update(briefing=briefing)
        for scenario, idx, briefing_id in first.filter(seed=0, briefing__isnull=False).values_list(
            "scenario", "task_idx", "briefing_id"
        ):
            tries.filter(scenario=scenario, task_idx=idx, briefing=None).update(briefing=briefing_id)


def keep(row: PlannedTry, **fields: Any) -> Briefing:
    """Store the result of distilling for all tries of a task under an arm; the first stored row stays."""
    task = {"scenario": row.scenario, "task_idx": row.task_idx}
    place = {"run": row.plan.run, "arm": row.arm.name, **task}
    try:
        # `distilled_once` decides between two workers; the savepoint keeps the transaction of the second usable
        with transaction.atomic():
            fields = {"source": Briefing.Source.LLM, **fields}
            briefing = Briefing.objects.create(project=row.plan.run.project, **place, **fields)
    except IntegrityError:
        briefing = Briefing.objects.get(**place)
    PlannedTry.objects.filter(plan=row.plan, arm=row.arm, briefing=None, **task).update(briefing=briefing)
    return briefing


def is_briefed(episode: Episode) -> bool:
    """Return whether the arm of an episode briefs its agents; for a rerun, which is in no plan, whether it can."""
    planned = getattr(episode, "planned", None)
    return episode.key.startswith(AGAIN) if planned is None else episode.arm in arms_of(planned.plan)


def try_of(episode: Episode) -> PlannedTry | None:
    """Return the planned try of an episode; for a rerun, that of the original episode."""
    tries = PlannedTry.objects.select_related("plan__run__project", "arm", "briefing", "episode")
    return tries.filter(episode__in=[episode.pk, episode.key.removeprefix(AGAIN)]).first()


def leads(row: PlannedTry) -> bool:
    """Return whether this try is the one that distills its task's briefing: the first that still waits."""
    same = PlannedTry.objects.filter(plan=row.plan, arm=row.arm, scenario=row.scenario, task_idx=row.task_idx)
    waiting = same.filter(episode__state=EpisodeState.QUEUED, called_at__isnull=False)
    # None if no try waits, as for a rerun of an ended episode
    return waiting.order_by("wave", "seed").values_list("pk", flat=True).first() in (row.pk, None)


def step_of(briefing: Briefing) -> dict[str, Any]:
    """Return the fields of the step that records a briefing."""
    fields = {"text": briefing.text, "source": briefing.source, "author": briefing.author}
    return {**fields, "privilege": briefing.privilege, "sources": briefing.sources}


@dataclass(frozen=True)
class ReadableBriefing:
    """A briefing as one reader sees it: without its text if that is `withheld`."""

    briefing: Briefing
    withheld: bool

    @property
    def text(self) -> str:
        return "" if self.withheld else clean(self.briefing.text)


def of_task(actor: Actor, scenario: str, task_idx: int) -> list[ReadableBriefing]:
    """Return the briefings of a task, the newest first. Not for agents. Raises `UnknownTask`."""
    may_read(actor)
    if not sees_outcomes(actor):
        raise WrongScope("Agent tokens cannot read briefings.")
    launching.task_text(scenario, task_idx)
    rows = scoped(Briefing.objects.select_related("run"), actor.project).filter(scenario=scenario, task_idx=task_idx)
    blind = visibility.judges_blind(actor, scenario, task_idx)
    return [ReadableBriefing(row, blind and row.sees_verifier) for row in rows.order_by("-at", "-pk")[:EARLIER]]


def lacking(actor: Actor, document: PlanDocument, tasks: Collection[tuple[str, int, str]]) -> dict[str, list[str]]:
    """Return by arm the tasks that would have no briefing if this plan were launched now."""
    keys = [(scenario, idx) for scenario, idx, _ in tasks]
    by_arm = {}
    for arm in document.arms:
        if arm.briefing == HUMAN:
            written = newest(actor.project, keys)
            by_arm[arm.name] = [f"{scenario}/{idx}" for scenario, idx in keys if (scenario, idx) not in written]
        elif arm.briefing:
            briefed = _known(actor.project, keys, proved=bool(arm.outcomes))
            by_arm[arm.name] = [f"{scenario}/{idx}" for scenario, idx in keys if (scenario, idx) not in briefed]
    return {name: missing for name, missing in by_arm.items() if missing}


@dataclass(frozen=True)
class OfArm:
    """The number of tasks of an arm with a briefing, and each other task with the reason."""

    arm: str
    spec: PlannedArm
    tasks: int
    lacking: list[tuple[str, str]]

    @property
    def given(self) -> int:
        return self.tasks - len(self.lacking)


def of_run(plan: Plan) -> list[OfArm]:
    """Return the briefings of a run by arm. Before it starts, those of people are the current ones."""
    arms = []
    for name, arm in arms_of(plan).items():
        rows = plan.tries.filter(arm__name=name, wave=0, seed=0).order_by("scenario", "task_idx")
        tries = list(rows.select_related("briefing"))
        now = newest(plan.run.project, [(one.scenario, one.task_idx) for one in tries]) if arm.briefing == HUMAN else {}
        lacking = []
        for row in tries:
            briefing = row.briefing or (now.get((row.scenario, row.task_idx)) if plan.started_at is None else None)
            if briefing is None or not briefing.text:
                why = briefing.reason if briefing else NOT_WRITTEN if arm.briefing == HUMAN else NOT_YET
                lacking.append((row.task, why))
        arms.append(OfArm(name, arm, len(tries), lacking))
    return arms


def _known(project: Project, tasks: Sequence[Task], *, proved: bool) -> set[Task]:
    """Return the tasks with an episode to learn from; if `proved`, with an outcome."""
    rows = usable(project).filter(scenario__in={name for name, _ in tasks}, task_idx__isnull=False)
    if proved:
        rows = rows.filter(pk__in=outcomes.proved_of(project).values("episode"))
    held_out = splits.held_out(project)
    return {
        (row.scenario, int(row.task_idx or 0))
        for row in rows.select_related("run").only("scenario", "task_idx", "split", "run__metadata")
        if not is_held_out(held_out, f"{row.scenario}/{row.task_idx}", row.split, row.run)
    }
