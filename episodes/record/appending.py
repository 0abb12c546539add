"""The append of steps: its rules, and one transaction for the appends of many.

Owns the processing of a batch: rights, repeats, conflicts, gaps, the end of an episode, the rows, the hints. Called by
`recording.py` for one batch of this process, and by `committer.py` for all batches that arrived over HTTP meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from psycopg import Cursor

from awmclient.schema import LIVE_STATES, NO_BRIEFING_AFTER
from episodes import events
from episodes.errors import BriefingLate, EpisodeEnded, OtherLoop, PictureMissing, StepConflict, StepsErased
from episodes.models import RUN_HERE, Episode, EpisodeState, PictureUse, Step, StepKind
from episodes.stored.entries import StepEntry, is_same, read, refuse_gaps
from episodes.stored.pictured import names_pictures
from episodes.visible import trajectory
from people.access import Actor, holds, is_awmweb, is_id, may_record
from people.errors import AppError, NotFound, Unauthenticated

AppendResult = int | Exception

LOCK = """
SELECT id, project_id, state, last_seq, attempt, origin FROM episodes_episode
 -- NO KEY: inserts of rows that refer to the episode do not wait for this lock
 WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
EXISTS = "SELECT id FROM episodes_episode WHERE id = ANY(%s)"
CURRENT = """
SELECT id FROM people_apitoken
 -- the clock, because now() is the start of the transaction, and the token can have ended since
 WHERE id = ANY(%s) AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > clock_timestamp())
"""
STORED = """
SELECT step.episode_id, step.seq, step.body FROM episodes_step step
  JOIN unnest(%s::text[], %s::int[]) AS wanted(episode_id, seq) USING (episode_id, seq)
"""
NOTED = "INSERT INTO episodes_episodeevent (episode_id, at, verb, actor, reason) VALUES (%s, %s, %s, %s, %s)"
# Everything of a group in one statement, so that a group waits for one response of the database before its commit.
# Columns are sent as lines of text, because texts of steps hold no line break and arrays would be quoted twice. Only
# batches whose episode is still in the expected state are written. The heartbeat changes in coarse steps: an update
# without a change of an indexed column touches no index. `IS NOT DISTINCT FROM` prevents the use of the index of
# projects, with which a database without statistics would read every episode of a project for each row.
OF_MANY = r"""
WITH wanted AS (
  -- one row per batch; `stood` is the last step that the batch continues from
  SELECT id, project_id, stood::int, last_seq::int, strip, token, nullif(attempt, '')::int AS attempt,
         nullif(waits, '') AS waits
    FROM unnest(string_to_array(%s, E'\n'), string_to_array(%s, E'\n'), string_to_array(%s, E'\n'),
                string_to_array(%s, E'\n'), string_to_array(%s, E'\n'), string_to_array(%s, E'\n'),
                string_to_array(%s, E'\n'), string_to_array(%s, E'\n'))
         AS line(id, project_id, stood, last_seq, strip, token, attempt, waits)
"""
# For one episode every plan is the same, so the statement is prepared: planning takes twice as long as executing.
OF_ONE = """
WITH wanted AS (
  SELECT %s::text AS id, %s::text AS project_id, (%s::text)::int AS stood, (%s::text)::int AS last_seq,
         %s::text AS strip, %s::text AS token, nullif(%s::text, '')::int AS attempt, nullif(%s::text, '') AS waits
"""
WRITE = r"""
), held AS (
  -- lock the episodes that are as expected and not locked elsewhere; the order prevents deadlocks
  SELECT episode.id FROM wanted JOIN episodes_episode episode USING (id)
   WHERE episode.project_id IS NOT DISTINCT FROM wanted.project_id AND episode.last_seq = wanted.stood
     -- an attempt that another worker has taken over from writes nothing
     AND (wanted.attempt IS NULL OR episode.attempt = wanted.attempt)
     -- a token writes no step of an episode of awmweb's own worker
     AND (coalesce(wanted.token, '') = '' OR episode.origin NOT IN ('builtin', 'branch'))
     -- a batch that only repeats adds no step, so it succeeds after the end, too
     AND (episode.state IN ('queued', 'running', 'waiting', 'parked') OR wanted.last_seq = wanted.stood)
     -- checked in the statement that writes: a token can be revoked after the request was authenticated
     AND (coalesce(wanted.token, '') = '' OR EXISTS (
           SELECT FROM people_apitoken known WHERE known.id = wanted.token AND known.revoked_at IS NULL
              AND (known.ends_at IS NULL OR known.ends_at > clock_timestamp())))
   ORDER BY episode.id FOR NO KEY UPDATE OF episode SKIP LOCKED
), written AS (
  -- the steps of the locked episodes
  INSERT INTO episodes_step (episode_id, seq, kind, body, cut, at)
  SELECT line.episode_id, line.seq::int, line.kind, line.body, nullif(line.cut, ''), line.at::timestamptz
    FROM ROWS FROM (string_to_table(%s, E'\n'), string_to_table(%s, E'\n'), string_to_table(%s, E'\n'),
                    string_to_table(%s, E'\n'), string_to_table(%s, E'\n'), string_to_table(%s, E'\n'))
         AS line(episode_id, seq, kind, body, cut, at)
    JOIN held ON held.id = line.episode_id
), moved AS (
  -- the new state of those episodes, which the hints report
  UPDATE episodes_episode episode
     SET last_seq = wanted.last_seq,
         strip = episode.strip || coalesce(wanted.strip, ''),
         heartbeat_at = CASE WHEN episode.heartbeat_at > %s THEN episode.heartbeat_at ELSE %s END,
         started_at = CASE WHEN state = 'queued' THEN coalesce(started_at, %s) ELSE started_at END,
         -- a step of an external loop shows that it is back; of awmweb's own, `begin` clears this
         parked_at = CASE WHEN origin = 'external' THEN NULL ELSE parked_at END,
         state = CASE WHEN wanted.waits IS NOT NULL THEN wanted.waits
                      WHEN state = 'queued' THEN 'running'
                      WHEN state = 'parked' AND origin = 'external' THEN 'waiting' ELSE state END
    FROM wanted JOIN held USING (id)
   WHERE episode.id = wanted.id
  RETURNING episode.id, episode.project_id, episode.state, episode.last_seq, episode.stop_reason, episode.fault,
            right(episode.strip, %s), episode.steered
)
SELECT * FROM moved
"""


@dataclass(eq=False, slots=True)
class Append:
    """A batch of steps for an episode; from awmweb's own worker, with its attempt. With `waits` it ends in an ask, and
    the episode waits. `steered` says, once it is stored, that a person has something for the loop."""

    actor: Actor
    episode_id: str
    entries: Sequence[StepEntry]
    attempt: int | None = field(default=None, kw_only=True)
    waits: bool = field(default=False, kw_only=True)
    steered: bool = field(default=False, init=False)


@dataclass(slots=True)
class LockedEpisode:
    """The state of an episode inside one transaction: as it was locked, and the steps added to it since."""

    project_id: str
    state: str
    stood: int
    last_seq: int
    token: str = ""
    attempt: int | None = None
    origin: str = ""
    waits: bool = False
    steered: bool = False
    stored: dict[int, str] = field(default_factory=dict)
    fresh: list[StepEntry] = field(default_factory=list)

    def text_at(self, seq: int) -> str | None:
        return self.stored.get(seq) if seq <= self.stood else self.fresh[seq - self.stood - 1].text


@dataclass(slots=True)
class AppendContext:
    """The data of one transaction: the episodes it has locked, those that others have locked, the ended tokens."""

    locked_rows: dict[str, LockedEpisode]
    held: set[str]
    ended: set[str]


class Held(Exception):
    """An error: another transaction holds this episode; retry later."""


def append_alone(append: Append) -> int:
    """Append one batch, waiting for its episode if needed, and return the last number of the batch."""
    result = append_together([append], wait=True)[0]
    if isinstance(result, Exception):
        raise result
    return result


def append_together(group: Sequence[Append], *, wait: bool = False) -> list[AppendResult]:
    """Append many batches.

    First, one statement writes the batches that continue their episode; then the others are checked one by one, in a
    transaction. Hints are sent after the commit. A refused batch adds nothing. Unless `wait` is set, batches of an
    episode that another writer has locked are `Held`.

    """
    hoped = _hoped(group)
    written = _write(hoped)
    left = [append for append in group if append.episode_id not in written]
    for append in group:
        append.steered = append.episode_id in written and hoped[append.episode_id].steered
    results = iter(_sort_out(left, wait) if left else ())
    return [next(results) if append.episode_id not in written else append.entries[-1].seq for append in group]


def _hoped(group: Sequence[Append]) -> dict[str, LockedEpisode]:
    """Return the expected state of episodes whose batches each continue the previous one; others are left out."""
    hoped: dict[str, LockedEpisode] = {}
    odd = set()
    for append in group:
        entries, token = append.entries, append.actor.token.pk if append.actor.token is not None else ""
        stood = entries[0].seq - 1
        begun = LockedEpisode(append.actor.project.pk, "", stood, stood, token, append.attempt, waits=append.waits)
        locked_row = hoped.setdefault(append.episode_id, begun)
        goes_on = [entry.seq for entry in entries] == list(range(locked_row.last_seq + 1, stood + len(entries) + 1))
        # columns are sent as lines: a line break in an ID would shift the values of all others
        is_plain = append.episode_id.isalnum() and not any(
            entry.kind == StepKind.BRIEFING or names_pictures(entry) for entry in entries
        )
        # the statement checks one token and one attempt for each episode
        is_of_one = (locked_row.token, locked_row.attempt) == (token, append.attempt)
        # of a person's batch the statement does not see that it is none of awmweb's own
        is_seen = not append.actor.signed_in
        if goes_on and is_plain and is_of_one and is_seen and holds(append.actor, may_record):
            locked_row.fresh += entries
            locked_row.last_seq = entries[-1].seq
        else:
            odd.add(append.episode_id)
    return {pk: locked_row for pk, locked_row in hoped.items() if pk not in odd}


@transaction.atomic
def _sort_out(group: Sequence[Append], wait: bool) -> list[AppendResult]:
    """Process batches one by one: 1. lock the episodes in one order, 2. check rights, repeats, conflicts and gaps per
    batch, 3. write."""
    with connection.cursor() as cursor:
        room = _room(cursor, group, wait)
        _read_repeats(cursor, group, room.locked_rows)
    results = [_result(append, room) for append in group]
    heard = {one.episode_id for one, result in zip(group, results, strict=True) if isinstance(result, int)}
    if _write({pk: locked_row for pk, locked_row in room.locked_rows.items() if pk in heard}) != heard:
        raise RuntimeError("an episode moved while it was held; nothing of this group is acknowledged")
    for append in group:
        append.steered = append.episode_id in heard and room.locked_rows[append.episode_id].steered
    return results


def _room(cursor: Any, group: Sequence[Append], wait: bool) -> AppendContext:
    # sorted, so that two groups lock in one order and cannot deadlock
    ids = sorted({append.episode_id for append in group if is_id(append.episode_id)})
    cursor.execute(LOCK if wait else LOCK + "SKIP LOCKED", [ids])
    locked_rows = {
        pk: LockedEpisode(project, state, last, last, attempt=attempt, origin=origin)
        for pk, project, state, last, attempt, origin in cursor.fetchall()
    }
    # with SKIP LOCKED a locked row is as absent as a missing one: only the second look can say which
    missing = [pk for pk in ids if pk not in locked_rows]
    return AppendContext(locked_rows, _ids(cursor, EXISTS, missing), _ended(cursor, group))


def _ended(cursor: Any, group: Sequence[Append]) -> set[str]:
    """Return tokens that are no longer valid, whatever was cached about them when the request arrived."""
    shown = {append.actor.token.pk for append in group if append.actor.token is not None}
    return shown - _ids(cursor, CURRENT, list(shown))


def _ids(cursor: Any, query: str, ids: list[str]) -> set[str]:
    if not ids:
        return set()
    cursor.execute(query, [ids])
    return {pk for (pk,) in cursor.fetchall()}


def _read_repeats(cursor: Any, group: Sequence[Append], locked_rows: dict[str, LockedEpisode]) -> None:
    repeats = [
        (append.episode_id, entry.seq)
        for append in group
        if (locked_row := locked_rows.get(append.episode_id)) and append.entries[0].seq <= locked_row.stood
        for entry in append.entries
        if entry.seq <= locked_row.stood
    ]
    if repeats:
        cursor.execute(STORED, [[pk for pk, _ in repeats], [seq for _, seq in repeats]])
        for pk, seq, body in cursor.fetchall():
            locked_rows[pk].stored[seq] = body


def _result(append: Append, room: AppendContext) -> AppendResult:
    try:
        return _place(append, room)
    except (AppError, Held) as refusal:
        return refusal


def _place(append: Append, room: AppendContext) -> int:
    """Place a batch after the stored steps, completely or not at all."""
    locked_row = _open_to(append.actor, append.episode_id, room)
    if append.attempt not in (None, locked_row.attempt):
        raise EpisodeEnded  # for this attempt: another one has taken over the episode
    refuse_gaps(locked_row.last_seq, append.entries)
    fresh = [entry for entry in append.entries if entry.seq > locked_row.last_seq]
    for entry in append.entries[: len(append.entries) - len(fresh)]:
        stored = locked_row.text_at(entry.seq)
        if stored is not None and not is_same(stored, entry.text):
            if Episode.every.filter(pk=append.episode_id, steps_erased_at__isnull=False).exists():
                raise StepsErased  # what the loop sends again was right, and is no more there to compare
            raise StepConflict(f"Step {entry.seq} already exists with different content.")
    refuse_late_briefing(append.episode_id, locked_row, fresh)
    refuse_missing_pictures(append.episode_id, fresh)
    if fresh and locked_row.state not in LIVE_STATES:
        locked_row.state = _reopened(append)
    if fresh:
        locked_row.fresh += fresh
        locked_row.last_seq = fresh[-1].seq
        locked_row.waits = append.waits
    return append.entries[-1].seq


def refuse_late_briefing(episode_id: str, locked_row: LockedEpisode, fresh: Sequence[StepEntry]) -> None:
    """Raise for a briefing after the agent's first action, or after another briefing."""
    places = [place for place, entry in enumerate(fresh) if entry.kind == StepKind.BRIEFING]
    if not places:
        return
    if any(entry.kind in NO_BRIEFING_AFTER for entry in (*locked_row.fresh, *fresh[: places[-1]])):
        raise BriefingLate
    if Step.objects.filter(episode=episode_id, kind__in=NO_BRIEFING_AFTER).exists():
        raise BriefingLate


def refuse_missing_pictures(episode_id: str, fresh: Sequence[StepEntry]) -> None:
    """Raise for a message or a question with a picture that was not uploaded to its episode."""
    steps = [read(entry.text) for entry in fresh if names_pictures(entry)]
    digests = {part["blob"] for step in steps for part in step.get("pictures") or ()}
    if digests and PictureUse.objects.filter(episode=episode_id, picture__sha256__in=digests).count() < len(digests):
        raise PictureMissing


def _open_to(actor: Actor, episode_id: str, room: AppendContext) -> LockedEpisode:
    """Return the episode if this actor can record in it."""
    if actor.token is not None and actor.token.pk in room.ended:
        raise Unauthenticated
    may_record(actor)
    if episode_id in room.held:
        raise Held
    locked_row = room.locked_rows.get(episode_id)
    if locked_row is None or locked_row.project_id != actor.project.pk:
        raise NotFound
    refuse_other_loop(actor, locked_row.origin)
    return locked_row


def _reopened(append: Append) -> str:
    episode = Episode.every.get(pk=append.episode_id)
    reopen_or_refuse(episode, append.actor)
    return episode.state


def refuse_other_loop(actor: Actor, origin: str) -> None:
    """Raise for an episode of awmweb's own worker, unless awmweb acts: someone who has seen the other arm of its run
    could otherwise end it with a fault, or write its steps."""
    if origin in RUN_HERE and not is_awmweb(actor):
        raise OtherLoop


def reopen_or_refuse(episode: Episode, actor: Actor | None) -> None:
    """Reopen an episode that was failed as lost if its loop is still running; raise for any other end."""
    if episode.is_live:
        return
    # words added now would stay: the rule is done with this episode
    if episode.steps_erased_at is not None:
        raise StepsErased
    # a fault that the loop reported itself stays
    if episode.state != EpisodeState.FAILED or not episode.is_cut_off:
        raise EpisodeEnded
    episode.state = EpisodeState.RUNNING
    episode.fault = episode.fault_detail = ""
    episode.ended_at = None
    episode.save(update_fields=["state", "fault", "fault_detail", "ended_at"])
    note(episode, "reopened", actor, "its loop is heard again")


def note(episode: Episode, verb: str, actor: Actor | None, reason: str = "") -> None:
    with connection.cursor() as cursor:
        cursor.execute(NOTED, [episode.pk, timezone.now(), verb, name_of(actor), reason])


def name_of(actor: Actor | None) -> str:
    """Return the name of an actor for histories."""
    return actor.name if actor else "awmweb"


def _write(by_id: dict[str, LockedEpisode]) -> set[str]:
    """Insert the steps and update the episodes whose state is as expected. Return their IDs."""
    if not by_id:
        return set()
    now = timezone.now()
    values = [*_episodes(by_id), *_steps(by_id), _recently(now), now, now, events.STRIP_SENT]
    rows = _sent(values, of_one=len(by_id) == 1)
    for row in rows:
        by_id[row[0]].steered = row[-1]
    stamp = events.stamp(now)
    lines = [line for row in rows for line in _hints(row, by_id[row[0]].fresh, stamp)]
    # outside a transaction the statement has committed itself, and Django calls this immediately
    transaction.on_commit(functools.partial(events.tell, lines))
    return {row[0] for row in rows}


def _sent(values: list[Any], of_one: bool) -> list[tuple[Any, ...]]:
    """Send values without Django's cursor, which would cost most of this statement's time."""
    connection.ensure_connection()
    with connection.wrap_database_errors, Cursor(connection.connection) as cursor:
        if of_one:
            return cursor.execute(OF_ONE + WRITE, values).fetchall()
        return cursor.execute(OF_MANY + WRITE, values, prepare=False).fetchall()


def _episodes(by_id: dict[str, LockedEpisode]) -> Iterable[str]:
    locked_rows = by_id.values()
    yield "\n".join(by_id)
    yield "\n".join([one.project_id for one in locked_rows])
    yield "\n".join([str(one.stood) for one in locked_rows])
    yield "\n".join([str(one.last_seq) for one in locked_rows])
    yield "\n".join(["".join([entry.code for entry in one.fresh]) for one in locked_rows])
    yield "\n".join([one.token for one in locked_rows])
    yield "\n".join(["" if one.attempt is None else str(one.attempt) for one in locked_rows])
    yield "\n".join([str(EpisodeState.WAITING) if one.waits else "" for one in locked_rows])


def _steps(by_id: dict[str, LockedEpisode]) -> Iterable[str]:
    fresh = [entry for one in by_id.values() for entry in one.fresh]
    yield "\n".join([pk for pk, one in by_id.items() for _ in one.fresh])
    yield "\n".join([str(entry.seq) for entry in fresh])
    yield "\n".join([entry.kind for entry in fresh])
    yield "\n".join([entry.text for entry in fresh])
    yield "\n".join([entry.cut or "" for entry in fresh])
    yield "\n".join([entry.stamp for entry in fresh])


def _recently(now: datetime) -> datetime:
    # at most a tenth of the heartbeat time, so that the coarse value makes no loop look silent
    return now - timedelta(seconds=min(1.0, settings.AWMWEB_HEARTBEAT_S / 10))


def _hints(row: tuple[Any, ...], fresh: Sequence[StepEntry], stamp: str) -> Iterable[str]:
    """Return the hints for new steps and for the episode's progress. A batch of repeats announces the progress again,
    because the first attempt may have ended between commit and hint."""
    pk, project_id, *counters, _steered = row
    yield from events.step_hints(events.episode_topic(pk), pk, [trajectory.as_sent(entry) for entry in fresh])
    frame = events.episode_line(stamp, pk, *counters, fresh[-1].action if fresh else None)
    yield events.hint(events.episode_topic(pk), events.LAST, pk, frame)
    yield events.hint(events.queue_topic(project_id), events.LAST, pk, frame)
