"""Writes: a planned run from its launch to its end: launch, start, pause, resume, cancel, retry, more seeds.

Owns the states of a plan. Leaves its tasks to `selecting.py`, its tries to `cells.py`, which inserts all of them at
the launch, the calls of workers to `feeding.py`, and playing to `playing.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from awmclient.schema import RunStart
from episodes.models import Episode, EpisodeState, ExpertMode, Run
from episodes.record import ending, queueing, recording
from people.access import Actor, may_launch, visible_or_404
from people.errors import Invalid, KeyConflict
from people.record.audit import record
from runs.errors import BadPlan, NoExpertModel, WrongState
from runs.launch import briefings, cells, foreign_tasks, launching, selecting, slots
from runs.launch.feeding import feed
from runs.models import Arm, Plan, PlannedTry, PlanState
from runs.plan import claims, limits, replaceable, servers, spending
from runs.plan.plans import (
    MAX_EPISODES,
    MAX_SEEDS,
    PlanDocument,
    differing,
)
from runs.taskset import probes


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
    """1. check the right, 2. ask model servers for their slots, and a further environment server what it is and offers,
    and for its tasks, before any lock is held, 3. the run with all its tries; the same key and plan give the same run
    back, and false."""
    may_launch(actor)
    at = check(document)
    slots.look(limits.endpoint_of(arm.policy or document.policy) for arm in document.arms)
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
    listed_tasks: Sequence[selecting.Task] | None,
) -> tuple[Plan, bool]:
    """1. the run, 2. find tasks and policies, and fix what the run will say, 3. insert every try and its queued
    episode, 4. start, unless it is planned for later."""
    most = ExpertMode.most(arm.expert for arm in document.arms)
    run, made = recording.open_run(actor, RunStart(name=document.name, key=key or None, expert=most))
    if not made:
        return _known(run, document), False
    tasks = selecting.shuffled(listed_tasks or selecting.of_packs(actor, document, server), document.shuffle)
    selecting.refuse_no_registry(document, tasks)
    if len(tasks) * len(document.arms) * document.seeds > MAX_EPISODES:
        raise BadPlan(f"The plan has more than {MAX_EPISODES:,} episodes.")
    claim_set = claims.made(document, [f"{scenario}/{idx}" for scenario, idx, _ in tasks], probes.unfit(actor.project))
    plan = Plan.objects.create(
        run=run,
        document=document.model_dump(),
        digest=document.digest,
        claims=claim_set.stored(),
        claims_digest=claim_set.digest,
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
    cells.insert(actor, plan, cells.made(plan, arms, tasks, range(document.seeds)), wave=0)
    record(actor, "run.launched", run.pk, document.name)
    if document.start:
        _begin(actor, plan)
    return plan, True


@transaction.atomic
def keep_server(run: str, report: dict[str, Any]) -> dict[str, Any]:
    """Store what a server offers that was full or silent at the launch, and return what counts: what the first episode
    found out is the promise that all are held to."""
    plan = Plan.objects.select_for_update().get(run=run)
    if not plan.server.get("digest"):
        plan.server = report
        plan.save(update_fields=["server"])
    stored: dict[str, Any] = plan.server
    return stored


def _known(run: Run, document: PlanDocument) -> Plan:
    """Return the plan of a run that has this key already. Raises `KeyConflict`, which names the fields that differ."""
    plan = Plan.objects.filter(run=run).first()
    if plan is not None and plan.digest == document.digest:
        return plan
    others = ["name"] if run.name != document.name else []
    if plan is not None:
        others += [f"plan.{name}" for name in differing(plan.document, document)]
    if plan is None or not others:
        others.append("plan")
    raise KeyConflict(recording.other_values(f"The key {run.key!r} was already used for a run", others))


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
        ending.cancel(actor, pk, "the run was cancelled")
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
        task = row.scenario, row.task_idx, row.episode.task
        cell = cells.NewTry(row.arm, task, row.seed, row.position, row.offered)
        starts.append(cells.start_of(plan, cell, row.episode.policy, again=row.tries + 1))
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
    cells.insert(actor, plan, cells.made(plan, arms, tasks, range(plan.seeds, plan.seeds + seeds)), wave=plan.waves)
    plan.waves, plan.seeds = plan.waves + 1, plan.seeds + seeds
    record(actor, "run.seeds_added", plan.run_id, f"{seeds} more, {plan.seeds} in all")
    if plan.state in (PlanState.FINISHED, PlanState.RUNNING):
        _begin(actor, plan)
    else:
        _set(actor, plan, plan.state)
    return plan
