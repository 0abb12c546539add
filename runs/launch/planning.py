"""Writes: a planned run from its launch to its end: launch, start, pause, resume, cancel, retry, more seeds.

Owns every change of `runs.models` but the calls of workers, which are in `feeding.py`. All tries of a plan are inserted
at the launch. Leaves playing to `playing.py`.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from awmclient.schema import EpisodeStart, RunStart
from episodes.models import Episode, EpisodeState, ExpertMode, Run, Split, SplitTask
from episodes.record import queueing, recording
from episodes.stored.packs import blockers_of, packs, scenario_digest
from people.access import Actor, may_launch, visible_or_404
from people.errors import Invalid, KeyConflict
from people.record.audit import record
from runs.errors import BadPlan, NoExpertModel, UnknownTask, WrongState
from runs.launch import briefings, foreign_tasks, launching
from runs.launch.feeding import feed
from runs.models import Arm, Plan, PlannedTry, PlanState
from runs.plan import claims, replaceable, servers, spending
from runs.plan.plans import (
    MAX_EPISODES,
    MAX_SEEDS,
    OF_LOOP,
    PlanDocument,
    TaskFilter,
    differing,
)
from runs.statistics.offers import is_for_people, is_offered
from runs.taskset import probes

Task = tuple[str, int, str]
IDX = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True)
class NewTry:
    """One task under one arm with one seed, to be inserted. `experts` says who alone answers, where that was drawn."""

    arm: Arm
    task: Task
    seed: int
    position: int
    offered: bool | None = None
    experts: str = ""

    @property
    def expert(self) -> str:
        return ExpertMode.OFF if self.offered is False else self.arm.expert


def check(document: PlanDocument) -> servers.ServerProfile:
    """Return the environment server of a plan. Raises `UnknownEnvironment`, or `NoExpertModel` for a briefing or
    answers by a model that is not configured."""
    briefings.check(document)
    for arm in document.arms:
        if arm.people is not None and arm.people < 1 and not settings.EXPERT_ENDPOINTS:
            raise NoExpertModel(
                f"No expert model is configured, and models answer episodes of the arm {arm.name}. "
                "Set AWMWEB_EXPERT_BASE_URL and AWMWEB_EXPERT_MODEL, or `people: 1`."
            )
    return servers.profile(document.environment)


def launch(actor: Actor, document: PlanDocument, key: str = "") -> tuple[Plan, bool]:
    """1. check the right, 2. ask a further environment server what it is and offers, and for its tasks, before any lock
    is held, 3. the run with all its tries; the same key and plan give the same run back, and false."""
    may_launch(actor)
    at = check(document)
    if at.name == servers.BUILTIN:
        return _launch(actor, document, key, None, None)
    server = servers.discover(at)
    tasks = foreign_tasks.tasks_of(actor, document, at, server) if server.plain else None
    return _launch(actor, document, key, server, tasks)


@transaction.atomic
def _launch(
    actor: Actor,
    document: PlanDocument,
    key: str,
    server: servers.ServerReport | None,
    known: Sequence[Task] | None,
) -> tuple[Plan, bool]:
    """1. the run, 2. find tasks and policies, and fix what the run will say, 3. insert every try and its queued
    episode, 4. start, unless it is planned for later."""
    most = ExpertMode.most(arm.expert for arm in document.arms)
    run, made = recording.open_run(actor, RunStart(name=document.name, key=key or None, expert=most))
    if not made:
        return _known(run, document), False
    tasks = shuffled(known or _of_packs(actor, document, server), document.shuffle)
    _refuse_no_registry(document, tasks)
    if len(tasks) * len(document.arms) * document.seeds > MAX_EPISODES:
        raise BadPlan(f"The plan has more than {MAX_EPISODES:,} episodes.")
    said = claims.made(document, [f"{scenario}/{idx}" for scenario, idx, _ in tasks], probes.unfit(actor.project))
    plan = Plan.objects.create(
        run=run,
        document=document.model_dump(),
        digest=document.digest,
        claims=said.stored(),
        claims_digest=said.digest,
        control=document.control,
        seeds=document.seeds,
        parallel=min(document.parallel, (server and server.sessions) or document.parallel),
        prices=spending.prices_now(),
        server=server.stored() if server else {},
    )
    arms = [
        Arm(plan=plan, name=arm.name, place=place, expert=arm.expert, policy=arm.policy or document.policy)
        for place, arm in enumerate(document.arms)
    ]
    Arm.objects.bulk_create(arms)
    _insert(actor, plan, _cells(plan, arms, tasks, range(document.seeds)), wave=0)
    record(actor, "run.launched", run.pk, document.name)
    if document.start:
        _begin(actor, plan)
    return plan, True


@transaction.atomic
def keep_server(run: str, found: dict[str, Any]) -> dict[str, Any]:
    """Store what a server offers that was full or silent at the launch, and return what counts: what the first episode
    found out is the promise that all are held to."""
    plan = Plan.objects.select_for_update().get(run=run)
    if not plan.server.get("digest"):
        plan.server = found
        plan.save(update_fields=["server"])
    stored: dict[str, Any] = plan.server
    return stored


def _refuse_no_registry(document: PlanDocument, tasks: Sequence[Task]) -> None:
    """Refuse a registry as expert where no task has one. Tasks without one can stand beside: there, no question is
    right."""
    arm = next((one.name for one in document.arms if one.experts), None)
    if arm is not None and not any(blockers_of(scenario, idx) for scenario, idx, _ in tasks):
        raise BadPlan(f"The arm {arm} asks the registry of blockers, and no task of the plan has one.")


def _known(run: Run, document: PlanDocument) -> Plan:
    """Return the plan of a run that has this key already. Raises `KeyConflict`, which names the fields that differ."""
    known = Plan.objects.filter(run=run).first()
    if known is not None and known.digest == document.digest:
        return known
    others = ["name"] if run.name != document.name else []
    if known is not None:
        others += [f"plan.{name}" for name in differing(known.document, document)]
    if known is None or not others:
        others.append("plan")
    raise KeyConflict(recording.other_values(f"The key {run.key!r} was already used for a run", others))


def tasks_of(actor: Actor, document: PlanDocument) -> list[Task]:
    """Return the tasks that a plan names, in the order of packs and lists, or of its server's own list. Raises
    `BadPlan`, also where there is none, `UnknownTask` or `NotPlayable`."""
    at = servers.profile(document.environment)
    server = None if at.name == servers.BUILTIN else servers.report_of(at)
    if server is not None and server.plain:
        return foreign_tasks.tasks_of(actor, document, at, server)
    return _of_packs(actor, document, server)


def _of_packs(actor: Actor, document: PlanDocument, server: servers.ServerReport | None) -> list[Task]:
    try:
        found = _selected(actor, document)
    except UnknownTask as unknown:
        # its own tasks are known once it responds
        if server is None or not server.problem:
            raise
        raise UnknownTask(f"{unknown.message} The server {document.environment} {server.words}.") from unknown
    if not found:
        raise BadPlan(f"The plan selects no task{_without_scripts(document)}.")
    return found


def _without_scripts(document: PlanDocument) -> str:
    """Return which scripts a filter wants of each task; "" for lists, splits and models."""
    is_filter = isinstance(document.tasks, TaskFilter) and not document.tasks.split
    policies = {arm.policy or document.policy for arm in document.arms} if is_filter else set()
    scripts = sorted(one.removeprefix("script:") for one in policies if one.startswith("script:"))
    return f": none that fits the filter has the script {' and '.join(scripts)}" if scripts else ""


def _selected(actor: Actor, document: PlanDocument) -> list[Task]:
    wanted = document.tasks
    # a task that is listed twice is one task
    if isinstance(wanted, list):
        return [_named(one, document.texts or {}) for one in dict.fromkeys(wanted)]
    if wanted.split:
        if not Split.objects.filter(project=actor.project, name=wanted.split).exists():
            raise BadPlan(f"plan.tasks.split: There is no split named {wanted.split!r}.")
        listed = SplitTask.objects.filter(
            split__project=actor.project, split__name=wanted.split, side=wanted.side
        ).values_list("task", flat=True)
        # sorted, because a split keeps no order
        return [_named(one) for one in sorted(listed) if _matches(one.rpartition("/")[0], wanted)][: wanted.limit]
    found = [
        (scenario, idx, text)
        for pack in packs()
        for scenario in sorted(pack.scenarios)
        if _matches(scenario, wanted) and (wanted.partial or not pack.scenario(scenario).partial)
        for idx, text in enumerate(pack.tasks(scenario))
        if _is_playable(document, scenario, idx)
    ]
    return found[: wanted.limit]


def _named(key: str, texts: Mapping[str, str] = MappingProxyType({})) -> Task:
    scenario, _, idx = key.rpartition("/")
    # one task has one spelling: 00 would be the task 0 a second time
    if not scenario or not IDX.fullmatch(idx):
        raise BadPlan(f"plan.tasks: {key[:100]!r} is not a task such as workflow_automation_1/0.")
    return scenario, int(idx), texts.get(key) or launching.task_text(scenario, int(idx))


def _matches(scenario: str, wanted: TaskFilter) -> bool:
    return any(fnmatch.fnmatchcase(scenario, pattern) for pattern in wanted.scenarios)


def _is_playable(document: PlanDocument, scenario: str, idx: int) -> bool:
    """Tell whether every arm can play a task: a filter leaves others out, a list that names one is refused."""
    names = {arm.policy or document.policy for arm in document.arms}
    scripts = {name.partition(":")[2] for name in names if name.startswith("script:")}
    return scripts <= set(launching.pack_with(scenario).scripts(scenario, idx)) if scripts else True


def shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Return all tasks in one shuffled order; the e-process reads them in it."""
    order = list(tasks)
    random.Random(seed).shuffle(order)
    return order


def _cells(plan: Plan, arms: Sequence[Arm], tasks: Sequence[Task], seeds: range) -> list[NewTry]:
    chances, shares = chances_of(plan), people_of(plan)
    simulated = {arm["name"] for arm in plan.document["arms"] if arm.get("experts")}

    def offered(arm: Arm, task: str, seed: int) -> bool | None:
        chance = chances.get(arm.name)
        return None if chance is None else is_offered(plan.pk, arm.name, task, seed, chance)

    def experts(arm: Arm, task: str, seed: int) -> str:
        if arm.name in simulated:
            return "registry"
        share = shares.get(arm.name)
        if share is None:
            return ""
        return "people" if is_for_people(plan.pk, arm.name, task, seed, share) else "models"

    return [
        NewTry(arm, task, seed, place, offered(arm, key, seed), experts(arm, key, seed))
        for place, task, key in ((place, task, f"{task[0]}/{task[1]}") for place, task in enumerate(tasks))
        for seed in seeds
        for arm in arms
    ]


def chances_of(plan: Plan) -> dict[str, float]:
    """Return the chance of an offer by arm, for arms that draw it."""
    return {arm["name"]: arm["offer"] for arm in plan.document["arms"] if arm.get("offer") is not None}


def people_of(plan: Plan) -> dict[str, float]:
    """Return the share of episodes that people alone answer by arm, for arms that draw it."""
    return {arm["name"]: arm["people"] for arm in plan.document["arms"] if arm.get("people") is not None}


def _insert(actor: Actor, plan: Plan, cells: Sequence[NewTry], wave: int) -> None:
    limits = {name: plan.document[name] for name in OF_LOOP if name in plan.document}
    policies = {name: launching.policy_named(name) | limits for name in {cell.arm.policy for cell in cells}}
    rules = rules_of(plan)
    seen = _seen_before(plan, {cell.task[0] for cell in cells}) if rules else set()
    # each pair of task and policy once: a plan can have a hundred thousand cells
    for scenario, idx, policy in {(*cell.task[:2], cell.arm.policy) for cell in cells}:
        launching.playable(scenario, idx, policies[policy])
    starts = [
        _start(plan, cell, policies[cell.arm.policy] | _asking(plan, cell, rules.get(cell.arm.name), seen))
        for cell in cells
    ]
    episodes = queueing.queue_many(actor, plan.run, starts, plan.document["max_steps"])
    chances = chances_of(plan)
    rows = [
        PlannedTry(
            plan=plan,
            arm=cell.arm,
            scenario=cell.task[0],
            task_idx=cell.task[1],
            seed=cell.seed,
            wave=wave,
            position=cell.position,
            episode=episode,
            offered=cell.offered,
            chance=chances.get(cell.arm.name),
        )
        for cell, episode in zip(cells, episodes, strict=True)
    ]
    PlannedTry.objects.bulk_create(rows, batch_size=queueing.BATCH)


def _start(plan: Plan, cell: NewTry, policy: dict[str, Any], again: int = 0) -> EpisodeStart:
    scenario, idx, text = cell.task
    # the key of the replaced episode stays taken
    suffix = f"/try{again}" if again else ""
    return EpisodeStart(
        key=f"{plan.pk}/{cell.arm.place}/{scenario[:100]}/{idx}/{cell.seed}{suffix}",
        run=plan.pk,
        environment=plan.document.get("environment", servers.BUILTIN),
        task=text,
        scenario=scenario,
        task_idx=idx,
        scenario_digest=_version(plan, scenario),
        arm=cell.arm.name,
        seed=cell.seed,
        policy=policy | ({"experts": cell.experts} if cell.experts else {}) | _gates(plan, cell.arm),
        expert=cell.expert,
    )


def _gates(plan: Plan, arm: Arm) -> dict[str, Any]:
    """Return the tools whose calls wait for an approval in this arm, as an episode's policy holds them."""
    found = next((one.get("approve") for one in plan.document["arms"] if one["name"] == arm.name), None)
    return {"approve": found} if found else {}


def rules_of(plan: Plan) -> dict[str, Any]:
    """Return the rule of when to ask by arm, for arms that have one: its words, or a whole gate."""
    return {arm["name"]: arm["ask"] for arm in plan.document["arms"] if arm.get("ask") is not None}


def _seen_before(plan: Plan, scenarios: Collection[str]) -> set[tuple[str, int | None]]:
    """Return the tasks of these scenarios with an ended episode from before the run was launched."""
    earlier = Episode.objects.filter(project=plan.run.project, ended_at__lt=plan.run.created_at)
    rows = earlier.filter(scenario__in=scenarios).order_by().values_list("scenario", "task_idx").distinct()
    return {(scenario, idx) for scenario, idx in rows if idx is not None}


def _asking(plan: Plan, cell: NewTry, rule: Any, seen: Collection[tuple[str, int | None]]) -> dict[str, Any]:
    """Return the rule of when to ask as an episode's policy holds it: a gate by its digest, as the plan has it whole.
    A retry keeps it, with its draws."""
    if rule is None:
        return {}
    key = hashlib.sha256(f"{plan.pk}\n{cell.arm.name}\n{cell.task[0]}/{cell.task[1]}\n{cell.seed}".encode()).hexdigest()
    said = rule if isinstance(rule, str) else rule["digest"]
    return {"ask": {"rule": said, "key": key, "seen": cell.task[:2] in seen}}


def _version(plan: Plan, scenario: str) -> str | None:
    """Return the loaded version of a scenario; None on servers that have packs of their own."""
    is_ours = plan.document.get("environment", servers.BUILTIN) == servers.BUILTIN
    return (scenario_digest(scenario) or None) if is_ours else None


def _locked(actor: Actor, run_id: str) -> Plan:
    run = visible_or_404(Run.objects.all(), actor, run_id)
    plan = Plan.objects.select_for_update().filter(run=run).first()
    if plan is None:
        raise WrongState("This run has no plan: an external loop starts and ends its episodes.")
    return plan


def _set(actor: Actor, plan: Plan, state: str) -> None:
    plan.state, plan.changed_by, plan.changed_at = state, actor.name, timezone.now()
    ended = state in (PlanState.FINISHED, PlanState.CANCELLED)
    plan.ended_at = plan.changed_at if ended else None
    plan.save(update_fields=["state", "changed_by", "changed_at", "started_at", "ended_at", "waves", "seeds"])


def _begin(actor: Actor, plan: Plan) -> None:
    briefings.pin(plan)
    plan.started_at = plan.started_at or timezone.now()
    _set(actor, plan, PlanState.RUNNING)
    transaction.on_commit(functools.partial(feed, plan.pk))


@transaction.atomic
def pause(actor: Actor, run_id: str) -> Plan:
    """Begin no further episode. Those at work go on to their end. Idempotent."""
    may_launch(actor)
    plan = _locked(actor, run_id)
    if plan.state == PlanState.PAUSED:
        return plan
    if plan.state != PlanState.RUNNING:
        raise WrongState(f"Only a running run can be paused; this one is {plan.state}.")
    # a paused run turns their calls away, so they have to be called again later
    plan.tries.filter(episode__state=EpisodeState.QUEUED).update(called_at=None)
    _set(actor, plan, PlanState.PAUSED)
    record(actor, "run.paused", plan.run_id)
    return plan


@transaction.atomic
def resume(actor: Actor, run_id: str) -> Plan:
    """Start a planned run, or go on with a paused one. Idempotent."""
    may_launch(actor)
    plan = _locked(actor, run_id)
    if plan.state == PlanState.RUNNING:
        return plan
    if plan.state not in (PlanState.PLANNED, PlanState.PAUSED):
        raise WrongState(f"Only a planned or paused run can be resumed; this one is {plan.state}.")
    # one that was interrupted or parked meanwhile came back to the queue, and its call was turned away
    plan.tries.filter(episode__state=EpisodeState.QUEUED).update(called_at=None)
    record(actor, "run.resumed", plan.run_id, f"was {plan.state}")
    _begin(actor, plan)
    return plan


@transaction.atomic
def cancel(actor: Actor, run_id: str) -> Plan:
    """Cancel all its live episodes; those that ended are kept, and no loop reopens one that was lost. Idempotent."""
    may_launch(actor)
    plan = _locked(actor, run_id)
    if plan.state == PlanState.CANCELLED:
        return plan
    if plan.state == PlanState.FINISHED:
        raise WrongState("The run has finished.")
    # before its episodes: the end of one would otherwise call for the next try
    _set(actor, plan, PlanState.CANCELLED)
    record(actor, "run.cancelled", plan.run_id)
    queueing.cancel_unbegun(actor, plan.run, "the run was cancelled")
    of_run = Episode.objects.filter(run=plan.run)
    # those of a lost loop are not live, but it could still reopen them
    for pk in list((of_run.live() | of_run.cut_off()).values_list("pk", flat=True)):
        recording.cancel(actor, pk, "the run was cancelled")
    return plan


@transaction.atomic
def retry(actor: Actor, run_id: str) -> int:
    """Queue another episode for every try that infrastructure ended without an outcome, and return their number. Those
    episodes are kept and no longer count."""
    may_launch(actor)
    plan = _locked(actor, run_id)
    if plan.state == PlanState.CANCELLED:
        raise WrongState("The run is cancelled.")
    broken = replaceable.tries_of([plan.pk]).select_related("arm", "episode")
    rows = list(broken.order_by("wave", "position", "seed", "arm__place"))
    starts = []
    for row in rows:
        launching.refuse_other_version(row.episode)
        # The draw of the offer stays. Drawn again, the side with more faults would be thinned out.
        cell = NewTry(row.arm, (row.scenario, row.task_idx, row.episode.task), row.seed, row.position, row.offered)
        starts.append(_start(plan, cell, row.episode.policy, again=row.tries + 1))
    for row, episode in zip(
        rows, queueing.queue_many(actor, plan.run, starts, plan.document["max_steps"]), strict=True
    ):
        row.episode, row.tries, row.called_at, row.begun_at = episode, row.tries + 1, None, None
    PlannedTry.objects.bulk_update(rows, ["episode", "tries", "called_at", "begun_at"], batch_size=queueing.BATCH)
    if rows and plan.state in (PlanState.FINISHED, PlanState.RUNNING):
        _begin(actor, plan)
    if rows:
        record(actor, "run.retried", plan.run_id, f"{len(rows)} again")
    return len(rows)


@transaction.atomic
def add_seeds(actor: Actor, run_id: str, seeds: int) -> Plan:
    """Plan more seeds of every task and arm, as a wave of their own. What the run says at its planned size stays; the
    anytime statement reads them, too."""
    may_launch(actor)
    if not 1 <= seeds <= MAX_SEEDS:
        raise Invalid(f"seeds: a number from 1 to {MAX_SEEDS}.")
    plan = _locked(actor, run_id)
    if plan.state == PlanState.CANCELLED:
        raise WrongState("The run is cancelled.")
    # the tasks as they were launched: packs can have changed since
    first = plan.tries.filter(seed=0, arm__place=0).order_by("position").select_related("episode")
    for row in first:
        launching.refuse_other_version(row.episode)
    # the text of the episode: one that only a further server knows is in no pack
    tasks = [(row.scenario, row.task_idx, row.episode.task) for row in first]
    arms = list(plan.arms.all())
    if len(tasks) * len(arms) * (plan.seeds + seeds) > MAX_EPISODES:
        raise BadPlan(f"The plan would have more than {MAX_EPISODES:,} episodes.")
    # numbers go on where the earlier seeds ended, so that keys and draws are new
    _insert(actor, plan, _cells(plan, arms, tasks, range(plan.seeds, plan.seeds + seeds)), wave=plan.waves)
    plan.waves, plan.seeds = plan.waves + 1, plan.seeds + seeds
    record(actor, "run.seeds_added", plan.run_id, f"{seeds} more, {plan.seeds} in all")
    if plan.state in (PlanState.FINISHED, PlanState.RUNNING):
        _begin(actor, plan)
    else:
        _set(actor, plan, plan.state)
    return plan
