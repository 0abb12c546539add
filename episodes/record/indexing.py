"""Writes: the words by which steps are found, and the facts of episodes that filters use.

Steps are read after they were appended, never with them: extracting the words costs more than storing a step. The steps
to read follow from numbers alone, an episode's last step against the last one that was read, so that no lost message
and no order of commits can skip a step. Called every two seconds by the worker; only one worker reads at a time. A
batch is read and written with one statement each, for any number of episodes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.find.search_text import StepFacts, answered_by, indexed, text_of
from episodes.models import EpisodeFacts, SearchMark
from episodes.stored.entries import read_all
from people.models import AHEAD

# any number that no other advisory lock of this database uses
LOCK = 0x5EA2C4
STEPS, EPISODES = 2_000, 500
"""The most steps and episodes of one transaction."""
JOINED, JOINED_MOST = 64, 10_000
"""The number of steps after which a live episode's words are joined, and the most of one transaction."""
# each batch looks at recent episodes only; the sweep also finds those of very long transactions
NEW_FOR = timedelta(minutes=10)
SWEEP_EVERY = timedelta(minutes=1)
# most sweeps look at these alone, and one in an hour at all: that reads each episode
SWEPT = timedelta(days=2)
WORK_S, REST_MAX_S = 4.0, 1.0
BEGIN = """
INSERT INTO episodes_episodefacts (episode_id, read_seq, joined_seq, done, errors, asks, tools, answered, waiting)
SELECT id, 0, 0, false, 0, 0, '{}', '{}', '{}' FROM episodes_episode episode
 -- two indexers can insert the same episode; the second one does nothing
 WHERE created_at >= %s AND NOT EXISTS (SELECT FROM episodes_episodefacts WHERE episode_id = episode.id)
ON CONFLICT DO NOTHING
"""
READ = """
-- what is unread of each episode; an agent must not find the verifier's step
SELECT step.id, step.episode_id, step.seq, step.body
  FROM unnest(%s::text[], %s::int[], %s::int[]) AS wanted(episode_id, after, upto)
  JOIN episodes_step step
    ON step.episode_id = wanted.episode_id AND step.seq > after AND step.seq <= upto AND kind <> 'verification'
 ORDER BY step.episode_id, step.seq
"""
WORDS = """
INSERT INTO episodes_stepwords (step_id, episode_id, seq, words)
SELECT step_id, episode_id, seq, to_tsvector('simple', said)
  FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::text[]) AS line(step_id, episode_id, seq, said)
-- an ask's step is read again when it has its answer
ON CONFLICT (step_id) DO UPDATE SET words = excluded.words
"""
FACTS = """
-- rows as JSON: two columns are arrays of different lengths, which unnest cannot carry
UPDATE episodes_episodefacts facts
   SET read_seq = fresh.read_seq, done = fresh.done, errors = fresh.errors, asks = fresh.asks, tools = fresh.tools,
       answered = fresh.answered, waiting = fresh.waiting, stopped = fresh.stopped, unread = fresh.unread,
       in_text = fresh.in_text
  FROM json_populate_recordset(NULL::episodes_episodefacts, %s) fresh WHERE facts.episode_id = fresh.episode_id
"""
SAID_LATER = """
-- the answer to an ask, after its episode's words were joined; strip drops the places of words
INSERT INTO episodes_episodewords (episode_id, words)
SELECT episode_id, strip(words) FROM episodes_stepwords WHERE step_id = ANY(%s)
"""
# a row holds about 400 kB of words at most: PostgreSQL refuses 1 MB
JOIN = """
WITH next AS (
    -- episodes with unjoined words; live ones only when there are many
    SELECT episode_id, joined_seq, read_seq, least(read_seq, joined_seq + %(most)s) AS upto FROM episodes_episodefacts
     WHERE joined_seq < read_seq AND (done OR read_seq - joined_seq >= %(least)s) LIMIT %(episodes)s
), due AS (
    -- as many of them as one transaction takes, by a running total of steps
    SELECT episode_id, joined_seq, upto FROM (
        SELECT *, sum(upto - joined_seq) OVER (ORDER BY episode_id) - (upto - joined_seq) AS before FROM next
    ) counted WHERE before < %(most)s
), moved AS (
    -- the mark is set first: a crash rolls back mark and words together
    UPDATE episodes_episodefacts facts SET joined_seq = upto FROM due WHERE facts.episode_id = due.episode_id
), line AS (
    -- the words of those steps, cut into parts below the size limit of a row
    SELECT step.episode_id, step.words,
           sum(octet_length(step.words::text)) OVER (PARTITION BY step.episode_id ORDER BY seq) / 400000 AS part
      FROM due JOIN episodes_stepwords step ON step.episode_id = due.episode_id AND seq > joined_seq AND seq <= upto
), joined AS (
    -- one row per episode and part, each word once
    INSERT INTO episodes_episodewords (episode_id, words)
    SELECT episode_id, array_to_tsvector(array_agg(word))
      FROM line, unnest(tsvector_to_array(words)) word GROUP BY episode_id, part
)
-- whether more is due now
SELECT count(*) = %(episodes)s OR count(*) > (SELECT count(*) FROM due) OR coalesce(bool_or(upto < read_seq), false)
  FROM next
"""


class _Reading:
    """An episode while its steps after `read_seq` up to `upto` are read, and again its asks that were open."""

    def __init__(self, row: EpisodeFacts, upto: int) -> None:
        self.row, self.upto = row, upto
        counts = (row.errors, row.stopped, row.unread, row.in_text)
        self.facts = StepFacts(*counts, set(row.tools), set(row.answered), list(row.waiting))
        self.asks = row.asks
        # an open ask is read again alone: its step changes when it is answered
        spans = [*((seq - 1, seq) for seq in row.waiting), (row.read_seq, upto)]
        self.wanted = [(row.pk, after, last) for after, last in spans]

    def hear(self, seq: int, body: Mapping[str, Any]) -> bool:
        """Record the facts of a step; return whether it has new words after its words were joined."""
        is_ask = body.get("kind") == "ask"
        # an ask that is read again was counted the first time
        if seq > self.row.read_seq:
            self.facts.add(body)
            self.asks += is_ask
        if is_ask:
            self.facts.hear(body)
        return seq <= self.row.joined_seq and bool(answered_by(body))

    def columns(self) -> dict[str, object]:
        """Return the columns that change."""
        episode, facts = self.row.episode, self.facts
        return {
            "episode_id": self.row.pk, "read_seq": self.upto, "asks": self.asks, "errors": facts.errors,
            "done": not episode.is_live and self.upto >= episode.last_seq, "tools": sorted(facts.tools),
            "answered": sorted(facts.answered), "waiting": facts.waiting,
            "stopped": facts.stopped, "unread": facts.unread, "in_text": facts.in_text,
        }  # fmt: skip


def work(seconds: float = WORK_S) -> int:
    """Read until nothing is left, or the time is over; return how many steps were read. After a batch that left
    something it pauses for as long as that took: others need the processor first. Steps after the last batch are left
    for the next call, because a query costs more than a few steps."""
    until, count = time.monotonic() + seconds, 0
    while True:
        began = time.monotonic()
        batch_steps, is_cut = _one_batch()
        count += batch_steps
        now = time.monotonic()
        if not is_cut or now > until:
            return count
        time.sleep(min(now - began, REST_MAX_S))


@transaction.atomic
def _one_batch() -> tuple[int, bool]:
    """Read one batch: 1. lock out other readers, 2. find new episodes, 3. read unread steps, 4. join words, 5. move the
    mark if nothing is left. Return how many steps were read, and whether anything is left."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        # another worker is reading, and takes the same steps
        if not cursor.fetchone()[0]:
            return 0, False
    # before the first read: steps that commit meanwhile are not covered by the mark
    began = timezone.now()
    _note_new(began)
    behind, is_cut = _behind()
    count = _read_steps(behind) if behind else 0
    if not is_cut:
        SearchMark.objects.filter(pk=1).update(read_until=began)
    return count, _join() or is_cut


def _note_new(now: datetime) -> None:
    """Record new episodes; periodically all unknown ones, and those that grew after their end."""
    mark, _ = SearchMark.objects.get_or_create(pk=1, defaults={"read_until": _never(), "swept_at": _never()})
    # a time from the future is of a clock that was ahead
    if mark.swept_at - AHEAD <= now <= mark.swept_at + SWEEP_EVERY:
        with connection.cursor() as cursor:
            cursor.execute(BEGIN, [now - NEW_FOR])
        return
    is_same_hour = mark.swept_at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1) > now
    since = now - SWEPT if is_same_hour else _never()
    with connection.cursor() as cursor:
        cursor.execute(BEGIN, [since])
    grown = EpisodeFacts.objects.filter(done=True, episode__last_seq__gt=F("read_seq"), episode__created_at__gte=since)
    grown.update(done=False)
    SearchMark.objects.filter(pk=1).update(swept_at=now)


def _never() -> datetime:
    return datetime.fromisoformat("2000-01-01T00:00:00+00:00")


def _behind() -> tuple[list[_Reading], bool]:
    """Return the episodes of this batch, longest waiting first, with as many steps as one batch takes; and whether
    there can be more."""
    ended = ~Q(episode__state__in=LIVE_STATES)
    rows = EpisodeFacts.objects.filter(Q(episode__last_seq__gt=F("read_seq")) | ended, done=False)
    columns = [one.name for one in EpisodeFacts._meta.concrete_fields]
    rows = rows.select_related("episode").only(*columns, "episode__last_seq", "episode__state")
    readings, left = [], STEPS
    for row in rows.order_by("episode__heartbeat_at", "pk")[:EPISODES]:
        upto = min(row.episode.last_seq, row.read_seq + left)
        left -= upto - row.read_seq
        readings.append(_Reading(row, upto))
        if not left:
            break
    return readings, not left or len(readings) == EPISODES


def _read_steps(behind: Sequence[_Reading]) -> int:
    """Read the steps of these episodes: store their words, and the facts for filters."""
    by_episode = {one.row.pk: one for one in behind}
    with connection.cursor() as cursor:
        cursor.execute(READ, _columns([span for one in behind for span in one.wanted]))
        rows = cursor.fetchall()
        bodies = read_all([row[3] for row in rows])
        later = [row[0] for row, body in zip(rows, bodies, strict=True) if by_episode[row[1]].hear(row[2], body)]
        if rows:
            _store_words([(*row[:3], indexed(text_of(body))) for row, body in zip(rows, bodies, strict=True)])
        if later:
            cursor.execute(SAID_LATER, [later])
        cursor.execute(FACTS, [json.dumps([one.columns() for one in behind])])
    return len(rows)


def _store_words(lines: Sequence[tuple[int, str, int, str]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(WORDS, _columns(lines))


def _columns(lines: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*lines, strict=True)]


def _join() -> bool:
    """Join the words of steps that were read: of ended episodes, and of live ones with many. Return whether some are
    left."""
    with connection.cursor() as cursor:
        cursor.execute(JOIN, {"least": JOINED, "most": JOINED_MOST, "episodes": EPISODES})
        return bool(cursor.fetchone()[0])
