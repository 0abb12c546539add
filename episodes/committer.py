"""Group commit: the appends of many requests become one transaction, and each is answered after its commit.

Owns a bounded queue and one writer thread per web process. Follows the rules of `recording.append_entries` to the
letter; what is rare (an episode that was given up for lost and speaks again) is handed to it. Called by `intake.py`.

The database is shared with everybody else who writes. Rows of episodes are locked first and in one order, and a row
that somebody holds is not waited for: its appends come again in the next round, and their neighbours go on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone

from episodes import events, recording
from episodes.entries import Entry, refuse_gaps
from episodes.errors import StepConflict
from episodes.models import LIVE_STATES
from people.access import Actor
from people.errors import AppError, Busy, NotFound

log = logging.getLogger(__name__)
WAITING_APPENDS = 2000
WAITING_BYTES = 64 * 1024 * 1024
GROUP_APPENDS = 256
GROUP_BYTES = 8 * 1024 * 1024
HELD_S = 5.0
"""How long an append waits for an episode that another transaction holds."""
Outcome = int | Exception

LOCK = """
SELECT id, project_id, state, last_seq FROM episodes_episode
 WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
EXISTS = "SELECT id FROM episodes_episode WHERE id = ANY(%s)"
STORED = """
SELECT step.episode_id, step.seq, step.body FROM episodes_step step
  JOIN unnest(%s::text[], %s::int[]) AS wanted(episode_id, seq) USING (episode_id, seq)
"""
COPY = "COPY episodes_step (episode_id, seq, kind, body, cut, at) FROM STDIN"
# a sign of life is noted in steps: without a change of an indexed column the update touches no index
MOVE_ON = """
UPDATE episodes_episode episode
   SET last_seq = moved.last_seq,
       strip = episode.strip || moved.strip,
       heartbeat_at = CASE WHEN episode.heartbeat_at > %s THEN episode.heartbeat_at ELSE %s END,
       started_at = CASE WHEN state = 'queued' THEN %s ELSE started_at END,
       state = CASE WHEN state = 'queued' THEN 'running' ELSE state END
  FROM unnest(%s::text[], %s::int[], %s::text[]) AS moved(id, last_seq, strip)
 WHERE episode.id = moved.id
RETURNING episode.id, episode.project_id, episode.state, episode.last_seq, episode.stop_reason, episode.fault,
          right(episode.strip, %s)
"""


@dataclass(eq=False, slots=True)
class Append:
    """One request: the steps it brings, and who waits for the answer."""

    actor: Actor
    episode_id: str
    entries: Sequence[Entry]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[int]
    size: int
    since: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Standing:
    """An episode inside one transaction: as it was locked, and what was added to it since."""

    project_id: str
    state: str
    stood: int
    last_seq: int
    stored: dict[int, str] = field(default_factory=dict)
    fresh: list[Entry] = field(default_factory=list)
    apart: bool = False

    def text_at(self, seq: int) -> str | None:
        return self.stored.get(seq) if seq <= self.stood else self.fresh[seq - self.stood - 1].text


class Apart(Exception):
    """This append goes through `recording`, in a transaction of its own."""


class Held(Exception):
    """Another transaction holds this episode; later again."""


class Committer:
    """The queue and its writer."""

    def __init__(self) -> None:
        self._waiting: deque[Append] = deque()
        self._bytes = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, actor: Actor, episode_id: str, entries: Sequence[Entry]) -> asyncio.Future[int]:
        """Queue a batch; the future holds the last number that stands once it is durable. Raises `Busy`."""
        loop = asyncio.get_running_loop()
        size = sum(len(entry.text) for entry in entries)
        append = Append(actor, episode_id, entries, loop, loop.create_future(), size)
        with self._news:
            if len(self._waiting) >= WAITING_APPENDS or self._bytes + size > WAITING_BYTES:
                raise Busy
            self._waiting.append(append)
            self._bytes += size
            self._start()
            self._news.notify()
        return append.done

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            group = self._next()
            outcomes = _visit(group)
            _answer(zip(group, outcomes, strict=True))
            held = [one for one, outcome in zip(group, outcomes, strict=True) if isinstance(outcome, Held)]
            self._again(held, alone=len(held) == len(group))

    def _next(self) -> list[Append]:
        with self._news:
            self._news.wait_for(lambda: self._waiting)
            group: list[Append] = []
            size = 0
            while self._waiting and len(group) < GROUP_APPENDS and size < GROUP_BYTES:
                group.append(self._waiting.popleft())
                size += group[-1].size
            self._bytes -= size
            return group

    def _again(self, held: Sequence[Append], alone: bool) -> None:
        """Back to the front, in their order."""
        with self._news:
            self._waiting.extendleft(reversed(held))
            self._bytes += sum(one.size for one in held)
            if held and alone:
                self._news.wait(0.005)


def _visit(group: Sequence[Append]) -> list[Outcome]:
    """Commit with a connection that is looked at before and given back after; whatever happens there, everybody of the
    group gets an answer and the writer lives."""
    try:
        close_old_connections()
        outcomes = commit(group)
        close_old_connections()
        return outcomes
    except Exception as error:
        log.exception("a group of appends failed")
        return [error for _ in group]


def _answer(settled: Iterable[tuple[Append, Outcome]]) -> None:
    """Wake each event loop once for all its requests of the group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Append, Outcome]]] = {}
    for append, outcome in settled:
        if not isinstance(outcome, Held):
            by_loop.setdefault(append.loop, []).append((append, outcome))
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, answers)


def _resolve(answers: Iterable[tuple[Append, Outcome]]) -> None:
    for append, outcome in answers:
        if append.done.done():
            continue  # its caller hung up; the steps stand all the same
        if isinstance(outcome, Exception):
            append.done.set_exception(outcome)
        else:
            append.done.set_result(outcome)


def commit(group: Sequence[Append]) -> list[Outcome]:
    """Write a group and tell; never raises. An error of the database that one batch may have caused makes each go
    alone, so that it hits only the one."""
    try:
        outcomes, hints = _transaction(group)
        events.tell(hints)
        outcomes = [_apart(one) if isinstance(o, Apart) else o for one, o in zip(group, outcomes, strict=True)]
        return [_patient(one, outcome) for one, outcome in zip(group, outcomes, strict=True)]
    except Exception as error:
        suspect = isinstance(error, IntegrityError | DataError) or not isinstance(error, DatabaseError)
        if len(group) > 1 and suspect:
            return [commit([one])[0] for one in group]
        if suspect:
            log.exception("an append failed")
        return [error for _ in group]


def _patient(append: Append, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Held) and time.monotonic() - append.since > HELD_S:
        return Busy("The episode is being changed by others; try again.")
    return outcome


def _apart(append: Append) -> Outcome:
    try:
        return recording.append_entries(append.actor, append.episode_id, append.entries)
    except Exception as error:
        if not isinstance(error, AppError):
            log.exception("an append failed")
        return error


@transaction.atomic
def _transaction(group: Sequence[Append]) -> tuple[list[Outcome], list[str]]:
    """1. lock the episodes in one order, 2. sort out repeats, conflicts and gaps batch by batch, 3. insert, 4. move the
    episodes on, 5. word the hints, which leave after the commit."""
    with connection.cursor() as cursor:
        standings = _locked(cursor, group)
        _read_repeats(cursor, group, standings)
        outcomes = [_outcome(append, standings) for append in group]
        heard = {one.episode_id for one, outcome in zip(group, outcomes, strict=True) if isinstance(outcome, int)}
        moved = {pk: standing for pk, standing in standings.items() if standing is not None and pk in heard}
        if not moved:
            return outcomes, []
        _insert(cursor, moved)
        return outcomes, _moved_on(cursor, moved)


def _locked(cursor: Any, group: Sequence[Append]) -> dict[str, Standing | None]:
    """The episodes by id; None for one that somebody else holds. What is in neither does not exist."""
    wanted = sorted({append.episode_id for append in group})
    cursor.execute(LOCK, [wanted])
    standings: dict[str, Standing | None] = {
        pk: Standing(project, state, last, last) for pk, project, state, last in cursor.fetchall()
    }
    missing = [pk for pk in wanted if pk not in standings]
    if missing:
        cursor.execute(EXISTS, [missing])
        standings.update((pk, None) for (pk,) in cursor.fetchall())
    return standings


def _read_repeats(cursor: Any, group: Sequence[Append], standings: dict[str, Standing | None]) -> None:
    known = [
        (append.episode_id, entry.seq)
        for append in group
        if (standing := standings.get(append.episode_id)) and append.entries[0].seq <= standing.stood
        for entry in append.entries
        if entry.seq <= standing.stood
    ]
    if known:
        cursor.execute(STORED, [[pk for pk, _ in known], [seq for _, seq in known]])
        for pk, seq, body in cursor.fetchall():
            standing = standings[pk]
            assert standing is not None
            standing.stored[seq] = body


def _outcome(append: Append, standings: dict[str, Standing | None]) -> Outcome:
    try:
        return _place(append, standings)
    except (AppError, Apart, Held) as refusal:
        return refusal


def _place(append: Append, standings: dict[str, Standing | None]) -> int:
    """Put a batch behind what stands, whole or not at all."""
    if append.episode_id not in standings:
        raise NotFound
    standing = standings[append.episode_id]
    if standing is None:
        raise Held
    if standing.project_id != append.actor.project.pk:
        raise NotFound
    if standing.apart:
        raise Apart
    refuse_gaps(standing.last_seq, append.entries)
    fresh = [entry for entry in append.entries if entry.seq > standing.last_seq]
    for entry in append.entries[: len(append.entries) - len(fresh)]:
        if standing.text_at(entry.seq) not in (entry.text, None):
            raise StepConflict(f"Another step already stands at number {entry.seq}.")
    if fresh and standing.state not in LIVE_STATES:
        standing.apart = True
        raise Apart
    if fresh:
        standing.fresh += fresh
        standing.last_seq = fresh[-1].seq
    return append.entries[-1].seq


def _insert(cursor: Any, moved: dict[str, Standing]) -> None:
    rows = [row for pk, standing in moved.items() for row in _rows(pk, standing.fresh)]
    if rows:
        with cursor.copy(COPY) as copy:
            copy.write("".join(rows))


def _rows(pk: str, entries: Iterable[Entry]) -> Iterable[str]:
    """Lines of COPY. JSON in ASCII holds neither tab nor line break; a backslash is doubled."""
    for entry in entries:
        body = entry.text.replace("\\", "\\\\")
        cut = "\\N" if entry.cut is None else entry.cut.replace("\\", "\\\\")
        yield f"{pk}\t{entry.seq}\t{entry.kind}\t{body}\t{cut}\t{entry.stamp}\n"


def _moved_on(cursor: Any, moved: dict[str, Standing]) -> list[str]:
    now = timezone.now()
    ids, standings = list(moved), list(moved.values())
    strips = ["".join(entry.code for entry in one.fresh) for one in standings]
    last = [one.last_seq for one in standings]
    cursor.execute(MOVE_ON, [_lately(now), now, now, ids, last, strips, events.STRIP_TOLD])
    return [line for row in cursor.fetchall() for line in _hints(row, moved[row[0]].fresh)]


def _lately(now: datetime) -> datetime:
    return now - timedelta(seconds=min(1.0, settings.AWMWEB_HEARTBEAT_S / 10))


def _hints(row: tuple[Any, ...], fresh: Sequence[Entry]) -> Iterable[str]:
    """The new steps, and where the episode stands; a batch that only repeats tells where it stands once more, because
    the first time may have been cut off between commit and hint."""
    pk, project_id, *stands = row
    if fresh:
        told = ",".join(entry.told() for entry in fresh)
        yield events.hint(events.episode_topic(pk), events.STEPS, pk, told)
    frame = events.episode_line(pk, *stands, fresh[-1].action if fresh else None)
    yield events.hint(events.episode_topic(pk), events.LAST, pk, frame)
    yield events.hint(events.queue_topic(project_id), events.LAST, pk, frame)


committer = Committer()
