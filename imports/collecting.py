"""Writes: keep the spans that agents send, and make an episode of a trace once it is complete.

A trace is complete two seconds after its root, and a trace without a root after ten minutes of silence. So spans that
come out of order are sorted by their start. What comes later is appended to the episode: steps never change.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Count, Q
from django.utils import timezone
from pydantic import TypeAdapter, ValidationError

from awmclient.conversation import readable
from awmclient.schema import Step
from episodes.models import Episode, Origin
from episodes.record import admitting
from episodes.stored import arrivals
from episodes.stored.arrivals import Arrival
from episodes.stored.entries import entries_of_read
from imports.importing import lost_words
from imports.models import Trace, TraceSpan
from imports.readers import first_words, otlp, start_of, traces
from imports.readers.found import TrajectoryDraft, UnreadableRow
from people.access import Actor, bearer, may_record, scoped
from people.errors import AWAY, AppError, Busy, Invalid
from people.models import Tombstone, digest_of
from people.record import jobs

log = logging.getLogger(__name__)
STEPS: TypeAdapter[list[Step]] = TypeAdapter(list[Step])
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


def take(actor: Actor, given: otlp.Spans) -> None:
    """Keep spans: 1. the rows of their traces, 2. those that are new, 3. a call of a worker after the commit.

    What is left out is counted in `given`.
    """
    may_record(actor)
    if actor.token is None:
        raise Invalid("Send spans with an API token.")
    by_trace: dict[str, list[otlp.Span]] = {}
    for span in given.kept:
        by_trace.setdefault(span.trace, []).append(span)
    for name in _erased(actor, by_trace):
        given.left_out[ERASED] += len(by_trace.pop(name))
    if by_trace:
        _insert(actor, by_trace, given)


def _erased(actor: Actor, names: Iterable[str]) -> list[str]:
    """Return the traces whose episodes were erased: a late span must not bring one back."""
    digests = {digest_of(key_of(name)): name for name in names}
    found = scoped(Tombstone.objects.filter(key_digest__in=digests), actor.project)
    return [digests[digest] for digest in found.values_list("key_digest", flat=True).distinct()]


def key_of(name: str) -> str:
    """Return the key of the episode of a trace."""
    return f"otlp/{name}"


@transaction.atomic
def _insert(actor: Actor, by_trace: dict[str, list[otlp.Span]], given: otlp.Spans) -> None:
    """1. the rows of traces, locked, 2. what was erased meanwhile, 3. the spans that are new and have room."""
    now = timezone.now()
    fresh = [Trace(project=actor.project, token=actor.token, name=name, heard_at=now) for name in sorted(by_trace)]
    Trace.objects.bulk_create(fresh, ignore_conflicts=True)
    # in one order, so that two requests with the same traces do not wait for each other
    rows = Trace.objects.filter(project=actor.project, name__in=by_trace).order_by("name").select_for_update()
    kept = {row.name: row for row in rows}
    # asked again: both statements before can have waited for one that erased an episode
    for name in _erased(actor, by_trace):
        given.left_out[ERASED] += len(by_trace.pop(name))
        if name in kept:
            kept.pop(name).delete()
    if kept.keys() != by_trace.keys():
        raise Busy  # deleted with its project or by hand since the first statement
    _add_new(kept, by_trace, given)
    touched = Trace.objects.filter(pk__in=[one.pk for one in kept.values()])
    touched.update(heard_at=now, is_waiting=True)
    rooted = [kept[name].pk for name, some in by_trace.items() if any(one.is_root for one in some)]
    Trace.objects.filter(pk__in=rooted).update(has_root=True)
    if rooted or any(row.has_root for row in kept.values()):
        transaction.on_commit(functools.partial(jobs.call_worker, TASK, delay_s=round(SETTLES.total_seconds())))


def _add_new(kept: Mapping[str, Trace], by_trace: Mapping[str, list[otlp.Span]], given: otlp.Spans) -> None:
    """Store the spans that their traces do not have, as far as these have room. The rows of the traces are locked."""
    counts = TraceSpan.objects.filter(trace__in=kept.values()).values_list("trace").annotate(Count("pk"))
    stood = dict(counts)
    names = {one.id for some in by_trace.values() for one in some}
    had = set(TraceSpan.objects.filter(trace__in=kept.values(), name__in=names).values_list("trace", "name"))
    spans = []
    for name, some in by_trace.items():
        trace = kept[name]
        room = SPANS_MAX - stood.get(trace.pk, 0)
        for one in some:
            if (trace.pk, one.id) in had:
                continue
            had.add((trace.pk, one.id))
            text = given.texts[name, one.id]
            size = len(text)
            if room <= 0 or trace.size + size > CHARACTERS_MAX:
                given.left_out[FULL if room <= 0 else LARGE] += 1
                continue
            room, trace.size = room - 1, trace.size + size
            spans.append((trace.pk, one.id, text))
    # as they are: a model would read and write each text once more, and `bulk_create` sends arrays
    with connection.cursor() as cursor, cursor.copy(SPANS) as copy:
        for row in spans:
            copy.write_row(row)
    Trace.objects.bulk_update(kept.values(), ["size"])


def settle() -> int:
    """Make episodes of the traces that are complete; return how many."""
    now = timezone.now()
    due = Q(has_root=True, heard_at__lte=now - SETTLES) | Q(heard_at__lte=now - SILENT)
    rows = Trace.objects.filter(due, is_waiting=True, project__archived_at=None).order_by("heard_at")
    found = rows.values_list("pk", "size", "episode_id")[:TRACES_MAX]
    return sum(_store(some, due) for some in _groups(found))


def _groups(found: Iterable[tuple[str, int, str | None]]) -> Iterator[list[str]]:
    """Yield the traces that one transaction stores: a few new ones, or one whose spans come late, as that one locks its
    episode."""
    group, size = list[str](), 0
    for trace_id, characters, episode_id in found:
        if episode_id is not None:
            yield [trace_id]
            continue
        if group and (len(group) == GROUP or size + characters > GROUP_CHARACTERS):
            yield group
            group, size = [], 0
        group, size = [*group, trace_id], size + characters
    if group:
        yield group


@transaction.atomic
def _store(trace_ids: Sequence[str], due: Q) -> int:
    """Store what is new of traces, unless another worker does, or another span has come; return of how many."""
    rows = Trace.objects.filter(due, pk__in=trace_ids, is_waiting=True)
    if len(trace_ids) > 1:
        rows = rows.filter(episode=None)  # another worker may have stored one since: its episode is not locked here
    locked = rows.select_for_update(skip_locked=True, of=("self",)).select_related("project", "token__project")
    kept = {trace.pk: trace for trace in locked}
    waiting: dict[str, list[TraceSpan]] = {name: [] for name in kept}
    for one in TraceSpan.objects.filter(trace__in=kept, body__isnull=False):
        waiting[one.trace_id].append(one)
    _admit_all([(kept[name], [otlp.Span(**one.body) for one in some]) for name, some in waiting.items() if some])
    for trace in kept.values():
        trace.is_waiting = False
    Trace.objects.bulk_update(kept.values(), ["episode", "is_waiting", "problem"])
    # the steps have it all; the IDs stay, so that a repeated span is known
    TraceSpan.objects.filter(pk__in=[one.pk for some in waiting.values() for one in some]).update(body=None)
    return len(kept)


def _admit_all(given: Sequence[tuple[Trace, list[otlp.Span]]]) -> None:
    """Admit the new episodes of a token together, and each by itself if one of them cannot be stored."""
    new: dict[str, list[tuple[Trace, Arrival]]] = {}
    for trace, spans in given:
        with _noting(trace):
            if trace.episode_id is None:
                new.setdefault(trace.token_id, []).append((trace, _arrival(trace, spans)))
            else:
                _add_late(trace, spans)
    for some in new.values():
        try:
            _admit(some)
        except AWAY:
            raise
        except Exception:
            for one in some:
                with _noting(one[0]):
                    _admit([one])


@contextlib.contextmanager
def _noting(trace: Trace) -> Iterator[None]:
    """Note why a trace is no episode. Spans hold whatever a stranger sent: one trace must not stop those of all
    projects, so each has a savepoint."""
    try:
        with transaction.atomic():
            yield
    except AWAY:
        raise
    except Exception as error:
        trace.problem = _problem_of(error)
        # without the error's words, which can be those of a span
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {place.name}, line {place.lineno} of {place.filename}"
        log.warning("trace %s of project %s is no episode: %s", trace.name, trace.project.slug, where)


def _problem_of(error: Exception) -> str:
    """Return why a trace is no episode, for its project."""
    if isinstance(error, ValidationError):
        words = first_words(error)
    elif isinstance(error, AppError | UnreadableRow):
        words = str(error)
    else:
        words = f"It cannot be stored ({type(error).__name__})."
    return str(readable(words))[:2000]


def _arrival(trace: Trace, spans: Sequence[otlp.Span]) -> Arrival:
    draft = TrajectoryDraft()
    trajectory = traces.read_trace(spans, draft)
    return arrivals.arrival_of(start_of(trajectory, key_of(trace.name)), trajectory, _about(trace, spans, draft))


def _admit(some: Sequence[tuple[Trace, Arrival]]) -> None:
    """Store the episodes of new traces of one token."""
    with transaction.atomic():
        admitting.admit(bearer(some[0][0].token), [one for _, one in some], origin=Origin.EXTERNAL)
    for trace, one in some:
        trace.episode_id = one.episode["id"]


def _add_late(trace: Trace, spans: Sequence[otlp.Span]) -> None:
    draft, actor = TrajectoryDraft(), bearer(trace.token)
    episode = Episode.every.select_for_update(no_key=True).get(pk=trace.episode_id)
    steps = STEPS.validate_python(traces.late_steps(spans, episode.last_seq, draft))
    admitting.add_late(actor, episode, entries_of_read(steps), _about(trace, spans, draft))


def _about(trace: Trace, spans: Sequence[otlp.Span], draft: TrajectoryDraft) -> str:
    """Return the line of the history: where the steps come from, and what has no place in them."""
    count = "1 span" if len(spans) == 1 else f"{len(spans):,} spans"
    session = traces.session_of(spans)
    lost = "; ".join(lost_words(draft.lost))
    words = f"{count} of trace {trace.name}{f', session {session[:200]}' if session else ''}"
    return str(readable(f"{words}{f'. Not in the steps: {lost}' if lost else ''}"))[:2000]
