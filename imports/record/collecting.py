"""Writes: keep the spans that agents send, and make an episode of a trace once it is complete.

A trace is complete two seconds after its root, and a trace without a root after ten minutes of silence. So spans that
come out of order are sorted by their start. What comes later is appended to the episode: steps never change. Leaves
reading to a process with limits (`trace_process.py`); nothing is locked meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Count, Q
from django.utils import timezone

from episodes.models import Episode, Origin
from episodes.record import admitting
from imports.models import Trace, TraceSpan
from imports.readers import otlp
from imports.readers.settled import LateSteps, Settled, TraceArrival, Unsettled, WaitingTrace, key_of, unsettled
from imports.trace_process import READER
from people.access import Actor, may_record, scoped, sender_of_accepted
from people.errors import AWAY, Busy, Invalid
from people.models import Tombstone, digest_of, long_ago
from people.record import jobs

log = logging.getLogger(__name__)
SETTLES = timedelta(seconds=2)
"""How long the spans of a trace may come after its root and still be sorted in."""
SILENT = timedelta(minutes=10)
"""Silence after which a trace without a root is taken as it is."""
ERASED = "of erased episodes"
SPANS_MAX = 20_000
"""Spans of one trace."""
TRACES_MAX = 200
"""Traces of one sweep."""
FULL = f"of traces with more than {SPANS_MAX:,} spans"
CHARACTERS_MAX = 64_000_000
"""Characters of the spans of one trace: they are read together when it becomes an episode."""
LARGE = f"of traces with more than {CHARACTERS_MAX:,} characters"
GROUP, GROUP_CHARACTERS = 25, 4_000_000
"""New traces that one transaction stores, and the characters of their spans. A trace may have more by itself."""
TASK = "imports.tasks.settle"
SPANS = "COPY imports_tracespan (trace_id, name, body) FROM STDIN"


def take(actor: Actor, received: otlp.Spans) -> None:
    """Keep spans: 1. the rows of their traces, 2. those that are new, 3. a call of a worker after the commit.

    What is left out is counted in `received`.
    """
    may_record(actor)
    if actor.token is None:
        raise Invalid("Send spans with an API token.")
    by_trace: dict[str, list[otlp.Span]] = {}
    for span in received.kept:
        by_trace.setdefault(span.trace, []).append(span)
    for name in _erased(actor, by_trace):
        received.left_out[ERASED] += len(by_trace.pop(name))
    if by_trace:
        _insert(actor, by_trace, received)


def _erased(actor: Actor, names: Iterable[str]) -> list[str]:
    """Return the traces whose episodes were erased: a late span must not bring one back."""
    digests = {digest_of(key_of(name)): name for name in names}
    tombstones = scoped(Tombstone.objects.filter(key_digest__in=digests), actor.project)
    return [digests[digest] for digest in tombstones.values_list("key_digest", flat=True).distinct()]


@transaction.atomic
def _insert(actor: Actor, by_trace: dict[str, list[otlp.Span]], received: otlp.Spans) -> None:
    """1. the rows of traces, locked, 2. what was erased meanwhile, 3. the spans that are new and have room."""
    now = timezone.now()
    fresh = [Trace(project=actor.project, token=actor.token, name=name, heard_at=now) for name in sorted(by_trace)]
    Trace.objects.bulk_create(fresh, ignore_conflicts=True)
    # in one order, so that two requests with the same traces do not wait for each other
    rows = Trace.objects.filter(project=actor.project, name__in=by_trace).order_by("name").select_for_update()
    kept = {row.name: row for row in rows}
    # asked again: both statements before can have waited for one that erased an episode
    for name in _erased(actor, by_trace):
        received.left_out[ERASED] += len(by_trace.pop(name))
        if name in kept:
            kept.pop(name).delete()
    if kept.keys() != by_trace.keys():
        raise Busy  # deleted with its project or by hand since the first statement
    _add_new(kept, by_trace, received)
    touched = Trace.objects.filter(pk__in=[one.pk for one in kept.values()])
    touched.update(heard_at=now, is_waiting=True)
    rooted = [kept[name].pk for name, some in by_trace.items() if any(one.is_root for one in some)]
    Trace.objects.filter(pk__in=rooted).update(has_root=True)
    if rooted or any(row.has_root for row in kept.values()):
        transaction.on_commit(functools.partial(jobs.call_worker, TASK, delay_s=round(SETTLES.total_seconds())))


def _add_new(kept: Mapping[str, Trace], by_trace: Mapping[str, list[otlp.Span]], received: otlp.Spans) -> None:
    """Store the spans that their traces do not have, as far as these have room. The rows of the traces are locked."""
    counts = TraceSpan.objects.filter(trace__in=kept.values()).values_list("trace").annotate(Count("pk"))
    stood = dict(counts)
    names = {one.id for some in by_trace.values() for one in some}
    had = set(TraceSpan.objects.filter(trace__in=kept.values(), name__in=names).values_list("trace", "name"))
    spans = []
    for name, some in by_trace.items():
        trace = kept[name]
        room = SPANS_MAX - stood.get(trace.pk, 0)
        for span in some:
            if (trace.pk, span.id) in had:
                continue
            had.add((trace.pk, span.id))
            text = received.texts[name, span.id]
            size = len(text)
            if room <= 0 or trace.size + size > CHARACTERS_MAX:
                received.left_out[FULL if room <= 0 else LARGE] += 1
                continue
            room, trace.size = room - 1, trace.size + size
            spans.append((trace.pk, span.id, text))
    # as they are: a model would read and write each text once more, and `bulk_create` sends arrays
    with connection.cursor() as cursor, cursor.copy(SPANS) as copy:
        for row in spans:
            copy.write_row(row)
    Trace.objects.bulk_update(kept.values(), ["size"])


@dataclass(frozen=True)
class DueTrace:
    """A complete trace as it was found: if `heard_at` is another one later, spans have come since."""

    pk: str
    name: str
    size: int
    heard_at: datetime
    episode: str
    last_seq: int


_wanted, _one_at_work = threading.Event(), threading.Lock()


def settle() -> int:
    """Make episodes of the traces that are complete; return how many were stored or given up.

    One thread of a process does it, as it waits for the process that reads: a call meanwhile makes it look again.
    """
    count = 0
    _wanted.set()
    # Checked again after the release: a call between the last check and the release must not be lost.
    while _wanted.is_set() and _one_at_work.acquire(blocking=False):
        try:
            _wanted.clear()
            for some in _groups(_due(timezone.now())):
                count += _store([(one, _read_trace(one)) for one in some])
        finally:
            _one_at_work.release()
    return count


def _due(now: datetime) -> list[DueTrace]:
    """Return the traces that have waited longest, the small ones first: they need not wait for the large ones."""
    due = Q(has_root=True) & long_ago("heard_at", now - SETTLES) | long_ago("heard_at", now - SILENT)
    rows = Trace.objects.filter(due, is_waiting=True, project__archived_at=None).order_by("heard_at")
    picked = rows.values_list("pk", "name", "size", "heard_at", "episode_id", "episode__last_seq")[:TRACES_MAX]
    traces = (DueTrace(*one[:4], one[4] or "", one[5] or 0) for one in picked)
    return sorted(traces, key=lambda trace: trace.size)


def _groups(traces: Iterable[DueTrace]) -> Iterator[list[DueTrace]]:
    """Yield the traces that one transaction stores: a few new ones, or one whose spans come late, as that one locks its
    episode."""
    group, size = list[DueTrace](), 0
    for trace in traces:
        if trace.episode:
            yield [trace]
            continue
        if group and (len(group) == GROUP or size + trace.size > GROUP_CHARACTERS):
            yield group
            group, size = [], 0
        group, size = [*group, trace], size + trace.size
    if group:
        yield group


def _read_trace(trace: DueTrace) -> Settled | None:
    """Return what the spans of a trace become, or None without any. Nothing is locked: agents go on sending spans."""
    with connection.cursor() as cursor:
        # as text: they are parsed where a fault of theirs ends no one else
        cursor.execute("SELECT body FROM imports_tracespan WHERE trace_id = %s AND body IS NOT NULL", [trace.pk])
        spans = [body for (body,) in cursor.fetchall()]
    return READER.read(WaitingTrace(trace.name, spans, trace.episode, trace.last_seq)) if spans else None


@transaction.atomic
def _store(read: Sequence[tuple[DueTrace, Settled | None]]) -> int:
    """Store what traces became, unless another worker did, or another span has come; return of how many."""
    rows = Trace.objects.filter(pk__in=[due.pk for due, _ in read], is_waiting=True)
    locked = rows.select_for_update(skip_locked=True, of=("self",)).select_related("project", "token__project")
    kept = {trace.pk: trace for trace in locked}
    same = [(kept[due.pk], said) for due, said in read if due.pk in kept and _is_as_read(kept[due.pk], due)]
    _admit_all([(trace, said) for trace, said in same if isinstance(said, TraceArrival)])
    for trace, settled in same:
        if isinstance(settled, LateSteps):
            with _noting(trace):
                episode = Episode.every.get(pk=trace.episode_id)
                sender, pictures = sender_of_accepted(trace.token), (settled.pictures, settled.sent)
                admitting.add_late(sender, episode, settled.letters, settled.steps, settled.about, *pictures)
        elif isinstance(settled, Unsettled):
            _note(trace, settled)
        trace.is_waiting = False
    Trace.objects.bulk_update([trace for trace, _ in same], ["episode", "is_waiting", "problem"])
    # the steps have it all; the IDs stay, so that a repeated span is known
    TraceSpan.objects.filter(trace__in=[trace for trace, _ in same]).update(body=None)
    return len(same)


def _is_as_read(trace: Trace, due: DueTrace) -> bool:
    """Tell whether nothing came since a trace was read; lock the episode of one that has one."""
    if (trace.heard_at, trace.episode_id or "") != (due.heard_at, due.episode):
        return False
    locked = Episode.every.filter(pk=due.episode).select_for_update(no_key=True).values_list("last_seq", flat=True)
    return not due.episode or locked.first() == due.last_seq


def _admit_all(new: Sequence[tuple[Trace, TraceArrival]]) -> None:
    """Admit the new episodes of a token together, and each by itself if one of them cannot be stored."""
    by_token: dict[str, list[tuple[Trace, TraceArrival]]] = {}
    for trace, arrival in new:
        by_token.setdefault(trace.token_id, []).append((trace, arrival))
    for some in by_token.values():
        try:
            _admit(some)
        except AWAY:
            raise
        except Exception:
            for pair in some:
                with _noting(pair[0]):
                    _admit([pair])


@contextlib.contextmanager
def _noting(trace: Trace) -> Iterator[None]:
    """Note why a trace is no episode: one must not stop those of all projects, so each has a savepoint."""
    try:
        with transaction.atomic():
            yield
    except AWAY:
        raise
    except Exception as error:
        _note(trace, unsettled(error))


def _note(trace: Trace, why: Unsettled) -> None:
    trace.problem = why.problem
    log.warning("trace %s of project %s is no episode: %s", trace.name, trace.project.slug, why.where)


def _admit(some: Sequence[tuple[Trace, TraceArrival]]) -> None:
    """Store the episodes of new traces of one token."""
    with transaction.atomic():
        sent = {digest: picture for _, one in some for digest, picture in one.sent.items()}
        admitting.admit(
            sender_of_accepted(some[0][0].token), [one for _, one in some], sent=sent, origin=Origin.EXTERNAL
        )
    for trace, arrival in some:
        trace.episode_id = arrival.episode["id"]
