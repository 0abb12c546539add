"""Writes: calls of workers for the tries of running plans, in the planned order, while `limits.py` leaves room.

The database is the record: `feed` may be called at any time and calls for what is next, so that runs share the workers
and a pause holds what has not begun. Leaves a plan's states to `planning.py`, playing to `playing.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.models import Episode, EpisodeState
from episodes.stored import settled
from people.models import Project
from people.rows import ModelRows
from runs.launch import launching, relay
from runs.models import Plan, PlannedTry, PlanState
from runs.plan import limits

CHUNK = 200
VERIFYING_S = 900
"""An outcome that is still missing after this time no longer holds its run."""
# of each built-in episode these statements are made; the ORM takes longer to write them than the database to
# answer them
BEGUN = """
UPDATE runs_plannedtry AS try SET begun_at = %s WHERE episode_id = %s
RETURNING EXISTS (
    SELECT FROM runs_plan AS plan WHERE plan.run_id = try.plan_id AND plan.state = 'running' AND (
        -- alone, a run that can have no more live episodes than untaken calls gains no room by a start
        plan.parallel > %s
        OR EXISTS (SELECT FROM runs_plan AS other WHERE other.state = 'running' AND other.run_id <> plan.run_id)))
  -- and without a try to call for there is nothing to do
  AND EXISTS (
    SELECT FROM runs_plannedtry AS waiting JOIN episodes_episode AS episode ON episode.id = waiting.episode_id
     WHERE waiting.plan_id = try.plan_id AND waiting.called_at IS NULL AND episode.state = 'queued')
"""
CALLED = """
WITH next AS MATERIALIZED (
    -- computed once: the update and the answer must be about the same tries
    SELECT try.id, try.episode_id, try.wave, try.position, try.seed, arm.place
      FROM runs_plannedtry AS try
      JOIN episodes_episode AS episode ON episode.id = try.episode_id JOIN runs_arm AS arm ON arm.id = try.arm_id
     WHERE try.plan_id = %s AND try.called_at IS NULL AND episode.state = 'queued'
     -- another thread that calls at the same time takes other tries
     ORDER BY try.wave, try.position, try.seed, arm.place LIMIT %s FOR UPDATE OF try SKIP LOCKED
), called AS (
    UPDATE runs_plannedtry AS try SET called_at = %s FROM next WHERE try.id = next.id
)
SELECT episode_id FROM next ORDER BY wave, position, seed, place
"""
_EPISODE = ModelRows(
    Episode, only={"id", "key", "created_at", "scenario", "task_idx", "environment", "arm", "policy", "run", "fork"}
)
_PROJECT, _PLAN = ModelRows(Project), ModelRows(Plan, only={"run", "state", "document"})
QUEUED = f"""
SELECT {_EPISODE.columns("episode")}, {_PROJECT.columns("project")}, {_PLAN.columns("plan")}
  FROM episodes_episode AS episode JOIN people_project AS project ON project.id = episode.project_id
  -- single episodes, such as those of the demo, have no try
  LEFT JOIN runs_plannedtry AS try ON try.episode_id = episode.id
  LEFT JOIN runs_plan AS plan ON plan.run_id = try.plan_id
 WHERE episode.id = %s AND episode.state = 'queued'
"""
_FED = ModelRows(Plan, only={"run", "document", "parallel", "state", "ended_at"})
# under the plan's lock: two threads that feed one run would both fill the same room
FED = f"SELECT {_FED.columns()} FROM runs_plan WHERE run_id = %s AND state = 'running' FOR UPDATE"
# another that ends at the same time takes another one
NEXT = """
UPDATE runs_plannedtry SET called_at = %s WHERE id = (
    SELECT try.id
      FROM runs_plan AS plan
      JOIN runs_plannedtry AS try ON try.plan_id = plan.run_id
      JOIN episodes_episode AS episode ON episode.id = try.episode_id JOIN runs_arm AS arm ON arm.id = try.arm_id
     WHERE plan.run_id = %s AND plan.state = 'running' AND try.called_at IS NULL AND episode.state = 'queued'
       -- beside another running run the workers are shared, and how many are live must be counted
       AND NOT EXISTS (SELECT FROM runs_plan AS other WHERE other.state = 'running' AND other.run_id <> plan.run_id)
       -- so it must if an arm has a limit of its own
       AND NOT plan.document @? '$.arms[*].parallel ? (@ != null)'
       -- and if a model does not respond
       AND NOT EXISTS (SELECT FROM runs_modeloutage)
     ORDER BY try.wave, try.position, try.seed, arm.place LIMIT 1 FOR UPDATE OF try SKIP LOCKED
) RETURNING episode_id
"""


@transaction.atomic
def feed(run_id: str, relays: bool = False) -> int:
    """Call workers for the next tries, as many as all limits leave room for; finish a run with no try left. The thread
    that ended an episode `relays`: it takes the first itself, unless another run waits for threads, too."""
    plan = _FED.first(FED, [run_id])
    if plan is None:
        return 0
    asked = limits.limited(plan)
    # before counting: two runs that ask one endpoint would both take its last place
    limits.lock(asked.values())
    running = limits.loads()
    # a run without a live or waiting try is in no load
    mine = running.pop(plan.pk, limits.RunLoad(plan.parallel))
    if not mine.arms and not _has_live(plan.pk) and not _is_being_verified(plan.pk):
        plan.state, plan.ended_at = PlanState.FINISHED, timezone.now()
        plan.save(update_fields=["state", "ended_at"])
        return 0
    room = limits.room(mine, running.values())
    called = _call(plan, mine, asked, room, limits.away(plan)) if room > 0 else []
    is_alone = limits.share(mine, running.values()) is None
    for episode_id in called:
        transaction.on_commit(functools.partial(_wake, episode_id, relays and is_alone))
    return len(called)


def _wake(episode_id: str, relays: bool) -> None:
    if not (relays and relay.thread.take(episode_id)):
        launching.wake_worker(episode_id)


def _call(plan: Plan, mine: limits.RunLoad, asked: dict[str, str], room: int, away: Collection[str]) -> list[str]:
    """Note calls for the next tries within the limits of arms and endpoints, and return their episodes. Arms whose
    model is `away` get none."""
    of_arms = {
        name: most - mine.arms.get(name, limits.LiveTries()).live for name, most in limits.arm_limits(plan).items()
    }
    if not of_arms and not asked and not away:
        return _call_first(plan, room)
    of_endpoints = {one.name: one.room for one in limits.endpoints(plan, asked.values())}
    full = [*away, *(name for name, left in of_arms.items() if left <= 0)]
    full += [arm for arm, name in asked.items() if of_endpoints.get(name, 1) <= 0]
    ordered = plan.tries.filter(called_at=None, episode__state=EpisodeState.QUEUED)
    ordered = ordered.order_by("wave", "position", "seed", "arm__place")
    open_ = ordered.exclude(arm__name__in=full).values_list("episode_id", "arm__name")
    # the first in the planned order that fit can be far down, behind thousands of a full arm
    called = limits.chosen(open_.iterator(chunk_size=CHUNK), room, of_arms, asked, of_endpoints)
    PlannedTry.objects.filter(episode__in=called).update(called_at=timezone.now())
    return called


def _call_first(plan: Plan, room: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(CALLED, [plan.pk, room, timezone.now()])
        return [pk for (pk,) in cursor.fetchall()]


def feed_all() -> None:
    """Feed every running run, the one with the fewest episodes at work first: a lost call must cost a delay only."""
    running = limits.loads()
    runs = Plan.objects.filter(state=PlanState.RUNNING).values_list("pk", flat=True)
    for run_id in sorted(runs, key=lambda pk: running[pk].all.busy if pk in running else 0):
        feed(str(run_id))


def queued(episode_id: str) -> Episode | None:
    """Return what must be known of a queued episode before it begins, with its project and the plan of its run; None if
    it is not queued."""
    with connection.cursor() as cursor:
        cursor.execute(QUEUED, [episode_id])
        row = cursor.fetchone()
    if row is None:
        return None
    episode, (project, plan) = _EPISODE.made(row), (row[_EPISODE.width :], row[_EPISODE.width + _PROJECT.width :])
    episode.project = _PROJECT.made(project)
    if plan[0] is not None:
        PlannedTry(episode=episode, plan=_PLAN.made(plan))  # which `episode.planned` then is
    return episode


def begun(episode: Episode) -> None:
    """1. note that a worker has begun an episode, 2. call for the next where that leaves room: a run has few calls at a
    time that no worker has taken, and fewer beside others. A run alone that may have no more live episodes than calls
    gains no room by it."""
    with connection.cursor() as cursor:
        cursor.execute(BEGUN, [timezone.now(), episode.pk, limits.AHEAD])
        gains = any(row for (row,) in cursor.fetchall())
    if gains and episode.run_id:
        transaction.on_commit(functools.partial(feed, episode.run_id))


def episode_ended(episode: Episode, reason: str) -> None:
    """Make room for the next when an episode ends: for its run, and for others that wait for the same model.
    Registered with `ending.on_end`."""
    if limits.is_limited(episode):
        transaction.on_commit(feed_all)
    elif episode.run_id and (taken := _next_of(episode.run_id)):
        transaction.on_commit(functools.partial(_wake, taken, relays=True))
    elif episode.run_id:
        transaction.on_commit(functools.partial(feed, episode.run_id, relays=True))


def verified(episode: Episode) -> None:
    """Finish the run of an episode that now has an outcome, or a reason for none, if it was the last of it."""
    if episode.run_id and not _has_live(episode.run_id):
        feed(episode.run_id)


def _has_live(run_id: str) -> bool:
    return PlannedTry.objects.filter(plan=run_id, episode__state__in=LIVE_STATES).exists()


def _is_being_verified(run_id: str) -> bool:
    """Return whether the verifier of an episode may still run: who reads a finished run expects all its outcomes."""
    since = timezone.now() - timedelta(seconds=VERIFYING_S)
    return settled.unverified().filter(planned__plan=run_id, fault="", ended_at__gt=since).exists()


def _next_of(run_id: str) -> str:
    """Call for the next try for the thread that ends one, in the same transaction: with nothing but the run itself to
    limit how many are live, these stay as many as they were, and need not be counted. Else nothing."""
    if not relay.thread.is_free or limits.may_limit(run_id):
        return ""
    with connection.cursor() as cursor:
        cursor.execute(NEXT, [timezone.now(), run_id])
        return "".join(pk for (pk,) in cursor.fetchall())


def is_held(episode: Episode) -> bool:
    """Return whether a queued episode must not begin: its run is planned, paused or ended."""
    planned = getattr(episode, "planned", None)
    return planned is not None and planned.plan.state != PlanState.RUNNING
