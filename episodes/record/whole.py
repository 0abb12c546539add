"""Writes: finished episodes, each in one piece, many in one transaction.

Owns the statements for many new episodes together. An episode whose key is known goes through the three calls that
record a live one, which repeat, continue or refuse it by their own rules. Called by the API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from psycopg import Cursor

from awmclient.schema import DETAIL_MAX, WholeEpisode
from episodes.models import Episode, EpisodeEvent, EpisodeState, Origin, Run, VerifierOutcome
from episodes.record import ending, recording
from episodes.record.appending import (
    Append,
    LockedEpisode,
    append_alone,
    name_of,
    refuse_late_briefing,
    refuse_missing_pictures,
)
from episodes.record.whole_pictures import Pictured, Sent, attach
from episodes.stored.entries import StepEntry, entries_of_read, refuse_gaps
from episodes.stored.pictured import named_pictures
from people.access import Actor, may_record, visible_or_404
from people.errors import AWAY, AppError
from people.text.plain_text import storable

COPY = "COPY episodes_step (episode_id, seq, kind, body, cut, at) FROM STDIN"


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode of the record, and whether its key was known before."""

    episode: Episode
    known: bool


@dataclass(frozen=True, slots=True)
class _New:
    """A new episode, not saved yet."""

    row: Episode
    entries: list[StepEntry]
    said: WholeEpisode
    sent: Sent


Result = Recorded | AppError


def record_whole(actor: Actor, batch: Sequence[WholeEpisode], sent: Sequence[Sent] = ()) -> list[Result]:
    """Record finished episodes: 1. those with a new key in a few statements for all, 2. the others one by one. `sent`
    are the pictures that came with each.

    A refused episode adds nothing, and does not touch the others. The same episode again is known.
    """
    may_record(actor)
    results: dict[int, Result] = {}
    sent = sent or [{} for _ in batch]
    new = _sort_out(actor, batch, sent, results)
    try:
        with transaction.atomic():
            _insert(actor, list(new.values()))
        results |= {place: Recorded(one.row, known=False) for place, one in new.items()}
    except AWAY:
        raise
    # a missing database is no fault of one episode, and trying each alone would fail the same way
    except (DatabaseError, ValueError, AppError):
        # one of them can have caused it, or another request has just used a key: only that one may fail
        results |= {place: _alone(actor, one.said, one.sent) for place, one in new.items()}
    left = [place for place in range(len(batch)) if place not in results]
    results |= {place: _alone(actor, batch[place], sent[place]) for place in left}
    return [results[place] for place in range(len(batch))]


def _sort_out(
    actor: Actor, batch: Sequence[WholeEpisode], sent: Sequence[Sent], results: dict[int, Result]
) -> dict[int, _New]:
    """Return the new episodes by their place. Refusals are added to `results`; known keys are in neither."""
    keys = [one.episode.key for one in batch]
    taken = set(Episode.every.filter(project=actor.project, key__in=keys).values_list("key", flat=True))
    runs: dict[str, Run] = {}
    new: dict[int, _New] = {}
    for place, whole in enumerate(batch):
        # one that continues another is checked and linked by itself
        if whole.episode.key in taken or whole.episode.parent is not None:
            continue
        # a key that comes twice in one request: the second goes the way of known keys, as a repeat or a conflict
        taken.add(whole.episode.key)
        try:
            new[place] = _new(actor, whole, sent[place], runs)
        except AppError as refusal:
            results[place] = refusal
    return new


def _new(actor: Actor, whole: WholeEpisode, sent: Sent, runs: dict[str, Run]) -> _New:
    """Check an episode by the rules of the three calls."""
    plan, end = whole.episode, whole.finish
    if plan.run and plan.run not in runs:
        runs[plan.run] = visible_or_404(Run.objects.all(), actor, plan.run)
    run = runs[plan.run] if plan.run else None
    recording.refuse_help(actor, run, plan.expert)
    entries = entries_of_read(whole.steps)
    refuse_gaps(0, entries)
    now = timezone.now()
    row = recording.unsaved(
        actor,
        plan,
        run,
        origin=Origin.EXTERNAL,
        state=EpisodeState.FAILED if end.stop_reason == "error" else EpisodeState.FINISHED,
        stop_reason=end.stop_reason,
        final_answer=end.final_answer,
        fault=ending.named_fault(end),
        fault_detail=storable(end.detail or "", DETAIL_MAX),
        last_seq=len(entries),
        strip="".join([entry.code for entry in entries]),
        # a loop's clock can be ahead of the server's
        started_at=min([now, *(entry.at for entry in entries[:1])]),
        heartbeat_at=now,
        ended_at=now,
    )
    refuse_late_briefing(row.pk, LockedEpisode(actor.project.pk, row.state, 0, 0), entries)
    return _New(row, entries, whole, sent)


def _insert(actor: Actor, new: Sequence[_New]) -> None:
    """Insert rows, steps, history lines and outcomes, and announce what lists of episodes show."""
    if not new:
        return
    Episode.every.bulk_create([one.row for one in new])
    connection.ensure_connection()
    with connection.wrap_database_errors, Cursor(connection.connection) as cursor, cursor.copy(COPY) as copy:
        for fresh in new:
            for entry in fresh.entries:
                copy.write_row((fresh.row.pk, entry.seq, entry.kind, entry.text, entry.cut, entry.at))
    attach(actor, [Pictured(fresh.row, named_pictures(fresh.entries, fresh.sent), fresh.sent) for fresh in new])
    for fresh in new:
        refuse_missing_pictures(fresh.row.pk, fresh.entries)
    EpisodeEvent.objects.bulk_create([event for one in new for event in _history(actor, one)])
    reported = [ending.reported(one.row, one.said.finish.outcome) for one in new if one.said.finish.outcome]
    VerifierOutcome.objects.bulk_create(reported)
    for fresh in new:
        outcome = fresh.said.finish.outcome
        if outcome is not None and outcome.attestation is not None:
            # after the insert, because attesting locks the stored episode
            ending.attest(actor, fresh.row, outcome.attestation)
        recording.announce(fresh.row, last=fresh.entries[-1].action if fresh.entries else None)


def _history(actor: Actor, fresh: _New) -> list[EpisodeEvent]:
    end = fresh.said.finish
    why = f"{fresh.row.fault}: {fresh.row.fault_detail[:200]}" if end.fault else end.stop_reason
    lines = [("started", ""), (fresh.row.state, why)]
    return [EpisodeEvent(episode=fresh.row, verb=verb, actor=name_of(actor), reason=reason) for verb, reason in lines]


def _alone(actor: Actor, whole: WholeEpisode, sent: Sent) -> Result:
    """Record one episode as a live one would be, in one transaction."""
    try:
        with transaction.atomic():
            episode, made = recording.start_episode(actor, whole.episode)
            if whole.steps:
                entries = entries_of_read(whole.steps)
                attach(actor, [Pictured(episode, named_pictures(entries, sent), sent)])
                append_alone(Append(actor, episode.pk, entries))
            return Recorded(ending.finish(actor, episode.pk, whole.finish), known=not made)
    except AppError as refusal:
        return refusal
