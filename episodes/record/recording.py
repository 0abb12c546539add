"""Writes: start, append steps, outcome, finish, cancel, and what becomes of an episode whose loop is silent.

Owns every change of an episode but those of an ask, which are in `ask_steps.py`, and of its steps, in `appending.py`.
Called by the API, by our own worker and by the sweep.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from awmclient.schema import (
    AT_WORK_STATES,
    DETAIL_MAX,
    EpisodeStart,
    Finish,
    Outcome,
    ReportedOutcome,
    RunStart,
    StepCommon,
)
from awmclient.words.faults import fault_of
from awmenv.attesting import NotAttested
from awmenv.health import Health
from awmenv.models import BuildReport
from episodes import events
from episodes.errors import EpisodeEnded, NotWaiting
from episodes.models import Episode, EpisodeState, ExpertMode, Origin, Run, VerifierOutcome, VerifierVersion
from episodes.record import continuing
from episodes.record.appending import (
    Append,
    append_alone,
    name_of,
    note,
    refuse_other_loop,
    reopen_or_refuse,
)
from episodes.stored.attesting import attested
from episodes.stored.entries import StepEntry, entries_of, entry_of
from episodes.stored.policies import policy_facts
from episodes.stored.settled import NOT_ATTESTED
from episodes.visible import trajectory
from people import measures
from people.access import Actor, holds, is_id, may_launch, may_record, may_start_runs, records, scoped, visible_or_404
from people.errors import Invalid, KeyConflict, NotFound, WrongScope
from people.models import Project
from people.record.audit import record
from people.rows import ModelRows

INTERRUPTED, RESUMED = "interrupted", "resumed"
PARKED, UNPARKED = "parked", "unparked"
CONTINUED = ("parent", "branch_seq")
"""Fields of a start that are no columns of its episode: where it goes on from another."""
IDLE_ATTEMPTS = 3
"""Lost workers in a row without a new step, after which an episode is failed: it may be what ends them."""
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
ENDED = """
WITH ended AS (
  -- every caller holds the row's lock, so the state needs no condition
  UPDATE episodes_episode
     SET state = %(state)s, ended_at = %(now)s, stop_reason = %(stop_reason)s, final_answer = %(answer)s,
         fault = %(fault)s, fault_detail = %(detail)s
   WHERE id = %(id)s RETURNING id
)
INSERT INTO episodes_episodeevent (episode_id, at, verb, actor, reason)
SELECT id, %(now)s, %(state)s, %(actor)s, %(reason)s FROM ended
"""
# the outcome, and only with it what belongs to it: the verifier's step and the digest of the final database
JUDGED = """
WITH stored AS (
  -- a repeated outcome inserts no row, and then nothing below changes either
  INSERT INTO episodes_verifieroutcome
         (episode_id, source, reward_type, reward, details, state_diff, tier, health, partial, session, at, version_id)
  VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
      ON CONFLICT (episode_id, source) WHERE source <> 'superseded' DO NOTHING RETURNING episode_id
), shown AS (
  -- the verification step, which agents never read
  INSERT INTO episodes_step (episode_id, seq, kind, body, cut, at) SELECT episode_id, %s, %s, %s, %s, %s FROM stored
)
UPDATE episodes_episode SET world = %s WHERE id = (SELECT episode_id FROM stored)
"""
OnEnd = Callable[[Episode, str], None]
_on_end: list[OnEnd] = []
_on_queued: list[Callable[[str], None]] = []


def on_end(callback: OnEnd) -> None:
    """Register what must happen in the transaction that ends an episode (an upper app closes its asks)."""
    _on_end.append(callback)


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


@transaction.atomic
def finish(actor: Actor, episode_id: str, end: Finish, attempt: int | None = None) -> Episode:
    """1. lock, 2. accept the same end again, 3. end it, with the fault that its loop names, and close its asks, 4. keep
    the reported outcome, and what the environment server attests of it, 5. tell."""
    may_record(actor)
    # a client repeats a finish whose response was lost
    episode = locked(actor, episode_id, attempt)
    refuse_other_loop(actor, episode.origin)
    if not episode.is_live and _is_same_end(episode, end):
        return episode
    reopen_or_refuse(episode, actor)
    episode.final_answer = end.final_answer
    episode.stop_reason = end.stop_reason
    reason: str = end.stop_reason
    if end.fault is not None:
        episode.fault, episode.fault_detail = named_fault(end), storable(end.detail or "")
        reason = f"{episode.fault}: {episode.fault_detail[:200]}"
    state = EpisodeState.FAILED if end.stop_reason == "error" else EpisodeState.FINISHED
    if end.outcome is not None:
        reported(episode, end.outcome).save()
    _end(episode, state, actor, reason)
    if end.outcome is not None and end.outcome.attestation is not None:
        attest(actor, episode, end.outcome.attestation)
    return episode


def reported(episode: Episode, outcome: ReportedOutcome) -> VerifierOutcome:
    """Return the row of a loop's own judgement, which the caller saves."""
    fields = outcome.model_dump(exclude_none=True, exclude={"attestation"})
    return _outcome(episode, Outcome(source="reported", **fields))


def named_fault(end: Finish) -> str:
    """Return the fault that a loop named. Older clients call a failed model server a fault of the policy."""
    return fault_of(end.detail or "") if end.fault == "policy" else end.fault or ""


def storable(detail: str) -> str:
    """Return the words of a fault as a column of text can hold them."""
    return detail[:DETAIL_MAX].replace("\x00", "").encode("utf-8", "replace").decode()


def attest(actor: Actor, episode: Episode, attestation: dict[str, Any]) -> None:
    """Keep the outcome that a signed statement proves; what it does not prove stays reported, and the history says
    why. A session that two episodes claim at the same time goes to one of them."""
    try:
        outcome, session = attested(episode, episode.final_answer, attestation)
        # a savepoint: a session that is used already must not roll back the end of the episode
        with transaction.atomic():
            record_outcome(actor, episode.pk, outcome, session=session)
    except NotAttested as refused:
        note(episode, NOT_ATTESTED, actor, str(refused))
    except IntegrityError:
        note(episode, NOT_ATTESTED, actor, "the session was used for another episode")


def _is_same_end(episode: Episode, end: Finish) -> bool:
    stored = (episode.stop_reason, episode.final_answer, episode.fault, episode.fault_detail)
    if stored != (end.stop_reason, end.final_answer, named_fault(end), storable(end.detail or "")):
        return False
    kept = VerifierOutcome.objects.filter(episode=episode, source="reported").first()
    if kept is None or end.outcome is None:
        return kept is None and end.outcome is None
    # without the attestation: it was checked when it first arrived
    return (kept.reward_type, kept.reward, kept.details) == (
        end.outcome.reward_type, end.outcome.reward, end.outcome.details or {},
    )  # fmt: skip


def _end(episode: Episode, state: str, actor: Actor | None, reason: str) -> None:
    """End it, say so in its history, close its asks, tell. Caller has set why it ends."""
    episode.state, episode.ended_at = state, timezone.now()
    how: dict[str, Any] = {
        "state": str(state),
        "now": episode.ended_at,
        "stop_reason": episode.stop_reason,
        "answer": None if episode.final_answer is None else json.dumps(episode.final_answer),
        "fault": episode.fault,
        "detail": episode.fault_detail,
    }
    with connection.cursor() as cursor:
        cursor.execute(ENDED, {**how, "id": episode.pk, "actor": name_of(actor), "reason": reason})
    # in this transaction: an ended episode never has an open ask
    for callback in _on_end:
        callback(episode, reason)
    announce(episode)
    if not episode.is_branch:
        ended = functools.partial(measures.count, "awmweb_episodes_ended_total", str(state), episode.fault)
        transaction.on_commit(ended)


@transaction.atomic
def fail(actor: Actor, episode_id: str, fault: str, detail: str, attempt: int | None = None) -> bool:
    """Fail the episode with the fault and cause of a boundary, which never counts as a failed task."""
    episode = locked(actor, episode_id, attempt)
    if not episode.is_live:
        return False
    episode.fault, episode.fault_detail, episode.stop_reason = fault, storable(detail), "error"
    _end(episode, EpisodeState.FAILED, actor, f"{fault}: {episode.fault_detail[:200]}")
    return True


@transaction.atomic
def cancel(actor: Actor, episode_id: str, reason: str) -> Episode:
    """Cancel an episode as a person; its loop hears `episode_ended` at its next word.

    One that failed as lost stays failed, and its loop cannot reopen it any more.
    """
    may_launch(actor)
    episode = locked(actor, episode_id)
    if episode.is_live:
        _end(episode, EpisodeState.CANCELLED, actor, reason)
        record(actor, "stopped episode", episode.pk, reason)
    elif episode.state == EpisodeState.FAILED and episode.is_cut_off:
        episode.stop_reason = "error"
        episode.save(update_fields=["stop_reason"])
        note(episode, "closed", actor, reason)
        record(actor, "stopped episode", episode.pk, reason)
    return episode


@transaction.atomic
def record_outcome(
    actor: Actor,
    episode_id: str,
    outcome: Outcome,
    tier: str = "",
    health: Health | None = None,
    partial: BuildReport | None = None,
    session: str | None = None,
    final: str = "",
    version: VerifierVersion | None = None,
) -> bool:
    """Store an outcome once, the verifier's or that of an environment without one: the row, a verification step after
    the last one, and a frame for people only. The project's queue hears that there is one, not which: among its
    listeners are those who judge blind. False if there is one of this source: the same word again, after an answer that
    got lost.

    The check of the verifier is only in the row. `final` is the digest of the final database; it is stored with the
    record of the world, for certificates. `version` is the repaired verifier that found the outcome.
    """
    episode, now = locked(actor, episode_id), timezone.now()
    verdict = {"reward_type": outcome.reward_type, "reward": outcome.reward}
    # the number after the last one, which `last_seq` does not count
    body = {"seq": episode.last_seq + 1, "kind": "verification", **verdict, "details": outcome.details}
    entry = entry_of(body, now)
    row = _outcome(episode, outcome, tier, health, partial, session)
    world = {**episode.world, "final": final} if final and episode.world else episode.world
    values = [
        *(getattr(row, name) for name in ("episode_id", "source", "reward_type", "reward")),
        # as `JsonText` stores it: JSON with ASCII escapes
        *(json.dumps(value) for value in (row.details, row.state_diff)),
        *(row.tier, json.dumps(row.health), json.dumps(row.partial), session, now),
        version.pk if version is not None else None,
        *(entry.seq, entry.kind, entry.text, entry.cut, entry.at, json.dumps(world)),
    ]
    with connection.cursor() as cursor:
        cursor.execute(JUDGED, values)
        # the last statement updates the episode only if the first one inserted the outcome
        if cursor.rowcount == 0:
            return False
    # last_seq stays: it is what agents read, and the verifier's step is not theirs
    events.publish_steps(events.people_topic(episode.pk), episode.pk, [trajectory.as_sent(entry)])
    frame = {"type": "outcome", "episode": episode.pk}
    events.publish(events.people_topic(episode.pk), {**frame, **verdict})
    events.publish(events.queue_topic(episode.project_id), frame)
    if not episode.is_branch:
        said_by = outcome.reward_type, outcome.source
        transaction.on_commit(functools.partial(measures.count, "awmweb_outcomes_total", *said_by))
    return True


def _outcome(
    episode: Episode,
    outcome: Outcome,
    tier: str = "",
    health: Health | None = None,
    partial: BuildReport | None = None,
    session: str | None = None,
) -> VerifierOutcome:
    return VerifierOutcome(
        episode=episode,
        source=outcome.source,
        reward_type=outcome.reward_type,
        reward=outcome.reward,
        details=outcome.details,
        state_diff=outcome.state_diff,
        tier=tier,
        health=health.wire() if health else {},
        partial=partial.wire() if partial else {},
        session=session,
    )


def lose_silent(now: datetime | None = None) -> int:
    """End the attempts whose loop sent nothing for the heartbeat time, each in a transaction."""
    silent = Episode.every.silent_since((now or timezone.now()) - timedelta(seconds=settings.AWMWEB_HEARTBEAT_S))
    why = f"no heartbeat for {settings.AWMWEB_HEARTBEAT_S} s"
    # in the order of their index: without one, a prepared plan reads all ended episodes before it finds none.
    # At most 500 for each sweep; the next one takes the rest
    first = silent.order_by("state", "heartbeat_at").values_list("pk", flat=True)[:500]
    return sum(_lose(silent, pk, why) for pk in first)


def lose_of_worker(worker: str) -> int:
    """End the attempts that an earlier process of this worker had started."""
    begun = Episode.every.filter(worker=worker, state__in=AT_WORK_STATES)
    return sum(_lose(begun, pk, "its worker was restarted") for pk in begun.values_list("pk", flat=True))


@transaction.atomic
def _lose(lost: QuerySet[Episode], episode_id: str, why: str) -> bool:
    """Queue a built-in episode again, to resume from its record.

    Fail the episode of an external loop, and one whose attempts recorded no new step several times in a row.
    """
    # a locked row is being written by its loop at this moment, so it is not silent
    episode = lost.select_for_update(skip_locked=True).filter(pk=episode_id).first()
    if episode is None:
        return False
    if episode.is_builtin:
        episode.idle_attempts = 0 if episode.last_seq > episode.attempt_seq else episode.idle_attempts + 1
        if episode.idle_attempts < IDLE_ATTEMPTS:
            episode.state = EpisodeState.QUEUED
            episode.save(update_fields=["state", "idle_attempts"])
            note(episode, INTERRUPTED, None, why)
            announce(episode)
            return True
        why = f"{why}; {IDLE_ATTEMPTS} attempts in a row recorded no new step"
    episode.fault, episode.fault_detail = "worker", why
    _end(episode, EpisodeState.FAILED, None, "worker lost")
    return True
