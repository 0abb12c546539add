"""Writes: finish, fail, cancel, the outcome, and what becomes of an episode whose loop is silent.

Owns how an episode ends. Called by the API, by our own worker and by the sweep.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from awmclient.schema import (
    AT_WORK_STATES,
    DETAIL_MAX,
    Finish,
    Outcome,
    ReportedOutcome,
)
from awmclient.words.faults import fault_of
from awmenv.attesting import NotAttested
from awmenv.health import Health
from awmenv.models import BuildReport
from episodes import events
from episodes.models import Episode, EpisodeState, VerifierOutcome, VerifierVersion
from episodes.record.appending import (
    name_of,
    note,
    refuse_other_loop,
    reopen_or_refuse,
)
from episodes.record.recording import INTERRUPTED, announce, locked
from episodes.stored.attesting import attested
from episodes.stored.entries import entry_of
from episodes.stored.settled import NOT_ATTESTED
from episodes.visible import trajectory
from people import measures
from people.access import Actor, may_launch, may_record
from people.record.audit import record
from people.text.plain_text import storable

IDLE_ATTEMPTS = 3
"""Lost workers in a row without a new step, after which an episode is failed: it may be what ends them."""
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


def on_end(callback: OnEnd) -> None:
    """Register what must happen in the transaction that ends an episode (an upper app closes its asks)."""
    _on_end.append(callback)


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
        episode.fault, episode.fault_detail = named_fault(end), storable(end.detail or "", DETAIL_MAX)
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
    if stored != (end.stop_reason, end.final_answer, named_fault(end), storable(end.detail or "", DETAIL_MAX)):
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
    episode.fault, episode.fault_detail, episode.stop_reason = fault, storable(detail, DETAIL_MAX), "error"
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
