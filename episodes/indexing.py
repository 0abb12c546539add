"""Writes: the words by which steps are found, and the facts of episodes that filters ask for.

Steps are read after they were appended, never with them: making the words costs more than storing a step. What is to be
read follows from numbers alone, an episode's last step against the last one that was read, so that no message and no
order of commits can lose a step. Called every two seconds by the worker; only one of them reads at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.entries import read
from episodes.models import Episode, EpisodeFacts, SearchMark, Step
from episodes.search_text import Facts, indexed, text_of

LOCK = 0x5EA2C4
STEPS, EPISODES = 2_000, 200
"""Steps and episodes of one transaction."""
NEW_FOR = timedelta(minutes=10)
SWEEP_EVERY = timedelta(minutes=1)
WORK_S, REST_MAX_S = 4.0, 1.0
BEGIN = """
INSERT INTO episodes_episodefacts (episode_id, read_seq, done, errors, asks, tools, answered, waiting)
SELECT id, 0, false, 0, 0, '{}', '{}', '{}' FROM episodes_episode episode
 WHERE created_at >= %s AND NOT EXISTS (SELECT FROM episodes_episodefacts WHERE episode_id = episode.id)
ON CONFLICT DO NOTHING
"""
WORDS = """
INSERT INTO episodes_stepwords (step_id, episode_id, seq, words)
SELECT step_id, episode_id, seq, to_tsvector('simple', said)
  FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::text[]) AS line(step_id, episode_id, seq, said)
ON CONFLICT (step_id) DO UPDATE SET words = excluded.words
"""


def work(seconds: float = WORK_S) -> int:
    """Read until nothing is left or the time is over; returns how many steps were read. After a full batch it rests for
    as long as that took: appends that fill batches need the processor now, and what they brought can wait.
    """
    until, count = time.monotonic() + seconds, 0
    while True:
        began = time.monotonic()
        found = _read_some()
        count += found or 0
        now = time.monotonic()
        if not found or now > until:
            return count
        if found >= STEPS:
            time.sleep(min(now - began, REST_MAX_S))


@transaction.atomic
def _read_some() -> int | None:
    """Read one batch: 1. be the only one, 2. note new episodes, 3. read what stands behind, 4. move the mark if nothing
    was left. Returns how many steps were read, None where there was nothing to do."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        if not cursor.fetchone()[0]:
            return None
    began = timezone.now()
    _note_new(began)
    behind = list(_behind()[:EPISODES])
    if not behind:
        SearchMark.objects.filter(pk=1).update(read_until=began)
        return None
    count = 0
    for facts in behind:
        count += _read_episode(facts, STEPS - count)
        if count >= STEPS:
            break
    return max(count, 1)


def _note_new(now: datetime) -> None:
    """Note new episodes; now and then all that are not known, and those that grew after their end."""
    mark, _ = SearchMark.objects.get_or_create(pk=1, defaults={"read_until": _never(), "swept_at": _never()})
    sweeps = now - mark.swept_at > SWEEP_EVERY
    with connection.cursor() as cursor:
        cursor.execute(BEGIN, [_never() if sweeps else now - NEW_FOR])
    if sweeps:
        EpisodeFacts.objects.filter(done=True, episode__last_seq__gt=F("read_seq")).update(done=False)
        SearchMark.objects.filter(pk=1).update(swept_at=now)


def _never() -> datetime:
    return datetime.fromisoformat("2000-01-01T00:00:00+00:00")


def _behind() -> QuerySet[EpisodeFacts]:
    ended = ~Q(episode__state__in=LIVE_STATES)
    rows = EpisodeFacts.objects.filter(Q(episode__last_seq__gt=F("read_seq")) | ended, done=False)
    return rows.select_related("episode").order_by("episode__heartbeat_at", "pk")


def _read_episode(row: EpisodeFacts, most: int) -> int:
    """Read the steps of one episode that were not read, and once more its asks that were open then."""
    episode = row.episode
    facts = Facts(row.errors, set(row.tools), set(row.answered), list(row.waiting))
    steps = Step.objects.filter(episode=episode).exclude(kind="verification").order_by("seq").only("seq", "body")
    fresh = list(steps.filter(seq__gt=row.read_seq, seq__lte=episode.last_seq)[:most])
    again = list(steps.filter(seq__in=row.waiting)) if row.waiting else []
    bodies = [(step, read(step.body)) for step in [*again, *fresh]]
    for step, body in bodies:
        if step.seq > row.read_seq:
            facts.add(body)
            row.asks += body.get("kind") == "ask"
        if body.get("kind") == "ask":
            facts.hear(body)
    _store_words(episode, [(step.pk, step.seq, indexed(text_of(body))) for step, body in bodies])
    row.read_seq = fresh[-1].seq if len(fresh) == most else episode.last_seq
    row.done = not episode.is_live and row.read_seq >= episode.last_seq
    row.errors, row.tools, row.answered, row.waiting = (
        facts.errors, sorted(facts.tools), sorted(facts.answered), facts.waiting,
    )  # fmt: skip
    row.save()
    return len(bodies)


def _store_words(episode: Episode, lines: Sequence[tuple[int, int, str]]) -> None:
    if lines:
        pks, seqs, texts = zip(*lines, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(WORDS, [list(pks), [episode.pk] * len(lines), list(seqs), list(texts)])
