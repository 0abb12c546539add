"""Writes: start, append steps, signs of life, and waiting.

Owns every change of a live episode but those of an ask, which are in `ask_steps.py`, and of its steps, in
`appending.py`. Leaves its end to `ending.py`.
Called by the API, by our own worker and by the sweep.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from awmclient.schema import (
    EpisodeStart,
    RunStart,
    StepCommon,
)
from episodes import events
from episodes.errors import EpisodeEnded, NotWaiting
from episodes.models import Episode, EpisodeState, ExpertMode, Origin, Run
from episodes.record import continuing
from episodes.record.appending import (
    Append,
    append_alone,
    name_of,
    note,
    refuse_other_loop,
    reopen_or_refuse,
)
from episodes.stored.entries import StepEntry, entries_of
from episodes.stored.policies import policy_facts
from episodes.visible import trajectory
from people.access import Actor, holds, is_id, may_launch, may_record, may_start_runs, records, scoped, visible_or_404
from people.errors import Invalid, KeyConflict, NotFound, WrongScope
from people.models import Project
from people.rows import ModelRows

INTERRUPTED, RESUMED = "interrupted", "resumed"
PARKED, UNPARKED = "parked", "unparked"
CONTINUED = ("parent", "branch_seq")
"""Fields of a start that are no columns of its episode: where it goes on from another."""
_WHOLE, _ROW = ModelRows(Episode), ModelRows(Episode, without={"tools"})
"""An episode as writes look at it is without its tools, which are most of a row."""
LOCKED = f"SELECT {_ROW.columns()} FROM episodes_episode WHERE id = %s AND project_id = %s FOR UPDATE"
# with the line of the history that says so
BEGUN = f"""
WITH begun AS (
  -- conditional, so that a task that runs twice starts the episode once
  UPDATE episodes_episode
     SET state = 'running', heartbeat_at = %(now)s, worker = %(worker)s, parked_at = NULL,
         started_at = coalesce(started_at, %(now)s), attempt = attempt + 1, attempt_seq = last_seq
   WHERE id = %(id)s AND state = 'queued' AND origin <> 'external' RETURNING {_WHOLE.columns()}
), noted AS (
  -- the history line is in the same statement: neither exists without the other
  INSERT INTO episodes_episodeevent (episode_id, at, verb, actor, reason)
  SELECT id, %(now)s, CASE attempt WHEN 1 THEN 'started' ELSE %(resumed)s END, %(actor)s,
         CASE attempt WHEN 1 THEN '' ELSE format('attempt %%s, from step %%s', attempt, last_seq + 1) END FROM begun
)
SELECT * FROM begun
"""
_on_queued: list[Callable[[str], None]] = []


def on_queued(callback: Callable[[str], None]) -> None:
    """Register what calls a worker, with an episode's id, after a parked episode is queued again."""
    _on_queued.append(callback)


def refuse_archive(project: Project) -> None:
    """Refuse to archive while a loop is at work: it could not record its end. Registered with
    `projects.before_archive`.
    """
    live = scoped(Episode.every.live(), project).count()
    if live:
        some = "1 episode is" if live == 1 else f"{live} episodes are"
        raise Invalid(f"{some} still live. Cancel or finish them first.")


LAUNCHERS_OWN = {"levels", "reference"}
"""Fields of a curriculum's plan: with both, the tasks that are served would tell the solve rates of any run."""


def start_run(actor: Actor, plan: RunStart) -> tuple[Run, bool]:
    """Create a run; one of an agent's token allows its episodes at most a plain expert. The same key gives the same run
    back, and false. Raises `KeyConflict` if that run was started with another body.
    """
    run, made = open_run(actor, plan)
    if not made:
        others = differing(run, _run_fields(plan))
        if hasattr(run, "plan"):  # its expert mode follows from its arms, and what is said now has no plan
            others = [name for name in others if name != "expert" or "expert" in plan.model_fields_set] + ["plan"]
        if others:
            raise KeyConflict(other_values(f"The key {plan.key!r} was already used for a run", others))
    return run, made


def open_run(actor: Actor, plan: RunStart) -> tuple[Run, bool]:
    """Create a run, or return the one of this key, and false. Caller compares what that one was started with."""
    may_start_runs(actor)
    if plan.expert == "informed" and not holds(actor, may_launch):
        raise WrongScope("Creating a run with expert mode informed requires a token of scope launch.")
    asked = (plan.metadata or {}).get("curriculum")
    if isinstance(asked, dict) and LAUNCHERS_OWN & asked.keys() and not holds(actor, may_launch):
        raise WrongScope("A curriculum with levels or a reference of its own requires a token of scope launch.")
    about = {"key": plan.key or "", "created_by": actor.name, **_run_fields(plan)}
    # The unique key decides between two requests at one moment: the second reads the row of the first.
    try:
        # A savepoint, because after a failed insert PostgreSQL refuses every statement of the transaction.
        with transaction.atomic():
            return Run.objects.create(project=actor.project, **about), True
    except IntegrityError:
        return Run.objects.get(project=actor.project, key=plan.key), False


def _run_fields(plan: RunStart) -> dict[str, Any]:
    fields = {"arm": plan.arm or "", "policy": plan.policy or {}, "metadata": plan.metadata or {}}
    return {"name": plan.name, **fields, "expert": plan.expert}


def start_episode(
    actor: Actor,
    plan: EpisodeStart,
    *,
    state: str = EpisodeState.RUNNING,
    max_steps: int | None = None,
    origin: str = Origin.EXTERNAL,
) -> tuple[Episode, bool]:
    """1. check the right, 2. the run must be of this project and allow the help, 3. insert; the same key gives the same
    episode back."""
    may_record(actor)
    run = visible_or_404(Run.objects.all(), actor, plan.run) if plan.run else None
    refuse_help(actor, run, plan.expert)
    now = timezone.now()
    started_at = None if state == EpisodeState.QUEUED else now
    about: dict[str, Any] = {"state": state, "max_steps": max_steps, "started_at": started_at, "heartbeat_at": now}
    parent = continuing.parent_of(actor, plan)
    if parent is not None:
        about["knowledge"] = continuing.knowledge_of(parent, plan.branch_seq or 1)
    episode = unsaved(actor, plan, run, origin=origin, **about)
    digest = episode.body_digest
    # the unique key decides between two requests at one moment, as for runs
    try:
        with transaction.atomic():
            episode.save(force_insert=True)
            if parent is not None:
                continuing.link(episode, parent, plan.branch_seq or 1)
            note(episode, "started" if state != EpisodeState.QUEUED else "queued", actor)
            announce(episode)
    except IntegrityError:
        episode = Episode.every.get(project=actor.project, key=plan.key)
        # a digest also differs between a field that was left out and one that was sent empty
        if episode.body_digest != digest:
            fields = plan.model_dump(exclude={"key", "run", *CONTINUED})
            others = differing(episode, {**fields, "run_id": run.pk if run else None})
            others += [] if continuing.is_linked(episode, plan) else [*CONTINUED]
            if others:
                used = f"The key {plan.key!r} was already used for an episode"
                raise KeyConflict(other_values(used, others)) from None
        return episode, False
    return episode, True


def unsaved(actor: Actor, plan: EpisodeStart, run: Run | None, **about: Any) -> Episode:
    """Return the row of a new episode, which the caller saves."""
    policy = plan.policy or {}
    return Episode(
        project=actor.project,
        key=plan.key,
        body_digest=digest_of(plan.model_dump(exclude_unset=True)),
        run=run,
        tools=[tool.model_dump() for tool in plan.tools or []],
        policy=policy,
        **policy_facts(policy),
        started_by=actor.name,
        token=actor.token.pk if actor.token else "",
        **plan.model_dump(exclude={"key", "run", "tools", "policy", *CONTINUED}, exclude_none=True),
        **about,
    )


def differing(stored: object, fields: Mapping[str, Any]) -> list[str]:
    """Return the fields in which what is said now differs from what is stored; an empty value is as good as none."""
    # columns cannot tell a field that was left out from one that was sent empty
    unsaid: tuple[Any, ...] = (None, "", [], {})
    both = {name: (getattr(stored, name), value) for name, value in fields.items()}
    others = [name for name, (one, other) in both.items() if one != other and not (one in unsaid and other in unsaid)]
    return [name.removesuffix("_id") for name in others]


def other_values(used: str, others: Sequence[str]) -> str:
    """Return the message of a conflict, which names the fields."""
    return f"{used} with different values of: {', '.join(others)}."


def refuse_help(actor: Actor, run: Run | None, mode: str) -> None:
    """Raise if an agent's token asks for a higher expert mode than its run allows.

    An informed expert can read the verifier, so an agent must not choose one itself; admins, researchers and launch
    tokens decide for each episode.
    """
    most = run.expert if run is not None else ExpertMode.PLAIN
    if ExpertMode.most([mode, most]) == most or holds(actor, may_launch):
        return
    why = f"The run {run.name} allows" if run is not None else "Episodes without a run are limited to"
    raise WrongScope(f"{why} expert mode {most}. To allow more, create the run with a token of scope launch.")


def begin(episode_id: str, worker: str = "") -> Episode | None:
    """Start a queued episode with one conditional update, so that a task that runs twice starts it once, and return it
    in its new state; None if it is not queued.

    `worker` names the process that runs it.
    """
    about = {"id": episode_id, "now": timezone.now(), "worker": worker, "resumed": RESUMED, "actor": name_of(None)}
    # a savepoint would cost two more round trips, and nothing here is rolled back alone
    with transaction.atomic(savepoint=False):
        episode = _WHOLE.first(BEGUN, about)
        if episode is not None:
            announce(episode)
    return episode


def append_steps(actor: Actor, episode_id: str, steps: Sequence[StepCommon], attempt: int | None = None) -> int:
    """Append one batch in a transaction and return its last number. A batch without steps is refused, as over HTTP.

    Raises EpisodeEnded for an `attempt` that another one has taken over from.
    """
    return append_steered(actor, episode_id, steps, attempt)[0]


def append_steered(
    actor: Actor, episode_id: str, steps: Sequence[StepCommon], attempt: int | None = None
) -> tuple[int, bool]:
    """Append as `append_steps`; return beside the number whether a person has something for the loop."""
    if not steps:
        raise Invalid("No steps.")
    append = Append(actor, episode_id, entries_of(steps), attempt=attempt)
    return append_alone(append), append.steered


def locked(actor: Actor, episode_id: str, attempt: int | None = None) -> Episode:
    """Lock and return the episode. Raises EpisodeEnded for an attempt that another one has taken over from."""
    episode = _ROW.first(LOCKED, [episode_id, actor.project.pk]) if is_id(episode_id) else None
    if episode is None:
        raise NotFound
    if attempt not in (None, episode.attempt):
        raise EpisodeEnded
    return episode


def digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def tell_steps(episode: Episode, entries: Sequence[StepEntry]) -> None:
    events.publish_steps(events.episode_topic(episode.pk), episode.pk, [trajectory.as_sent(entry) for entry in entries])
    announce(episode, last=entries[-1].action)


def announce(episode: Episode, last: str | None = None) -> None:
    """Publish an episode's progress to its page and to lists of live episodes."""
    fields = (episode.state, episode.last_seq, episode.stop_reason, episode.fault)
    frame = events.episode_frame(episode.pk, *fields, episode.strip, last)
    events.publish(events.episode_topic(episode.pk), frame)
    events.publish(events.queue_topic(episode.project_id), frame)


def _touch(episode: Episode) -> None:
    Episode.every.filter(pk=episode.pk).update(heartbeat_at=timezone.now())


def hear(actor: Actor, episode_id: str) -> None:
    """Note any call of a loop about its live episode as a sign of life; it does not reopen a lost one."""
    # a person who looks at the page is no sign of life of the loop
    if records(actor) and is_id(episode_id):
        scoped(Episode.every.live(), actor.project).filter(pk=episode_id).update(heartbeat_at=timezone.now())


@transaction.atomic
def heartbeat(actor: Actor, episode_id: str, attempt: int | None = None) -> Episode:
    """1. note the sign of life, 2. reopen an episode that was given up for lost."""
    may_record(actor)
    episode = locked(actor, episode_id, attempt)
    refuse_other_loop(actor, episode.origin)
    # only a heartbeat of the loop itself undoes the loss; an end that someone chose stays
    if not episode.is_live and episode.is_cut_off:
        reopen_or_refuse(episode, actor)
        announce(episode)
    _touch(episode)
    return episode


@transaction.atomic
def park_now(actor: Actor, episode_id: str) -> Episode:
    """Park a waiting episode at its loop's request. Idempotent.

    Silence does not fail it from here on. An answer queues it, and the loop's next step lets it run again.
    Raises `NotWaiting` if none of its asks is open.
    """
    may_record(actor)
    episode = locked(actor, episode_id)
    refuse_other_loop(actor, episode.origin)
    if episode.state != EpisodeState.PARKED and not park(episode.pk):
        raise NotWaiting
    episode.refresh_from_db()
    return episode


@transaction.atomic
def park(episode_id: str, attempt: int | None = None, why: str = "waits for an answer") -> bool:
    """Let a waiting episode go on waiting without a process; its attempt has ended. Caller holds the episode's lock and
    has seen what it waits for, which `why` names. Idempotent. False if another attempt has taken over."""
    waiting = Episode.every.filter(pk=episode_id, state=EpisodeState.WAITING)
    if attempt is not None:
        waiting = waiting.filter(attempt=attempt)
    # conditional: an answer can arrive between the caller's look and this statement
    if waiting.update(state=EpisodeState.PARKED, parked_at=timezone.now(), worker="") != 1:
        parked = Episode.every.filter(pk=episode_id, state=EpisodeState.PARKED)
        return attempt is not None and parked.filter(attempt=attempt).exists()  # it may not have heard that it had
    episode = Episode.every.get(pk=episode_id)
    note(episode, PARKED, None, why)
    announce(episode)
    return True


def unpark(episode: Episode, why: str) -> None:
    """Queue a parked episode for any worker, or for its own loop, now that it waits for nothing. Caller saves its
    state."""
    episode.state = EpisodeState.QUEUED
    note(episode, UNPARKED, None, why)
    # an external loop gets the answer by its own waiting request
    for callback in _on_queued if episode.is_builtin else ():
        # after the commit: a worker that is called earlier finds the episode still parked
        transaction.on_commit(functools.partial(callback, episode.pk))
