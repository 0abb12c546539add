"""A complete trace as what is stored of it: spans as text -> `Arrival`, late steps, or why there is none. Pure.

Called in the process of its own in which strangers' traces are read (`imports/trace_process.py`).
"""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from awmclient.schema import Step
from awmclient.words.conversation import readable
from episodes.stored.arrivals import Arrival, arrival_of, lines_of
from episodes.stored.decoding import DecodedPicture
from episodes.stored.entries import entries_of_read
from episodes.stored.pictured import named_pictures
from imports.readers import first_words, start_of, traces
from imports.readers.found import PictureSource, TrajectoryDraft, UnreadableRow, lost_words
from imports.readers.otlp import Span
from people.errors import AppError

STEPS: TypeAdapter[list[Step]] = TypeAdapter(list[Step])


@dataclass(frozen=True)
class WaitingTrace:
    """A trace to read: its name and its spans as JSON. With `episode` the spans come late, after step `last_seq`."""

    name: str
    spans: Sequence[str]
    episode: str = ""
    last_seq: int = 0


class TracePictures(PictureSource, Protocol):
    """What the pictures of one trace become, and those that were read."""

    @property
    def sent(self) -> Mapping[str, DecodedPicture]: ...


@dataclass(frozen=True)
class TraceArrival(Arrival):
    """The episode of a trace, with the pictures that its spans have as data."""

    sent: Mapping[str, DecodedPicture] = field(default_factory=dict)


@dataclass(frozen=True)
class LateSteps:
    """Steps to append, as lines for `COPY`, with their letters on the strip, the line of the history, and their
    pictures."""

    letters: str
    about: str
    steps: bytes
    pictures: Sequence[str] = ()
    sent: Mapping[str, DecodedPicture] = field(default_factory=dict)


@dataclass(frozen=True)
class Unsettled:
    """Why a trace is no episode: for its project, and for the log, without the words of its spans."""

    problem: str
    where: str


Settled = TraceArrival | LateSteps | Unsettled


def key_of(name: str) -> str:
    """Return the key of the episode of a trace."""
    return f"otlp/{name}"


def settled(trace: WaitingTrace, pictures: TracePictures) -> Settled:
    """Read a trace. Spans hold whatever a stranger sent, so that any error is a result."""
    try:
        spans = [Span(**json.loads(text)) for text in trace.spans]
        return _late(trace, spans, pictures) if trace.episode else _arrival(trace.name, spans, pictures)
    except MemoryError:
        raise  # the process has a limit, and ends
    except Exception as error:
        return unsettled(error)


def unsettled(error: Exception) -> Unsettled:
    """Return why a trace is no episode. Without the error's words, which can be those of a span."""
    if isinstance(error, ValidationError):
        words = first_words(error)
    elif isinstance(error, AppError | UnreadableRow):
        words = str(error)
    else:
        words = f"It cannot be stored ({type(error).__name__})."
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {place.name}, line {place.lineno} of {place.filename}"
    return Unsettled(str(readable(words))[:2000], where)


def _arrival(name: str, spans: Sequence[Span], pictures: TracePictures) -> TraceArrival:
    draft = TrajectoryDraft(pictures=pictures)
    trajectory = traces.read_trace(spans, draft)
    about = _about(name, spans, draft)
    arrival = arrival_of(start_of(trajectory, key_of(name)), trajectory, about, pictures.sent)
    return TraceArrival(**vars(arrival), sent=pictures.sent)


def _late(trace: WaitingTrace, spans: Sequence[Span], pictures: TracePictures) -> LateSteps:
    draft = TrajectoryDraft(pictures=pictures)
    steps = STEPS.validate_python(traces.late_steps(spans, trace.last_seq, draft))
    entries = entries_of_read(steps)
    letters = "".join(entry.code for entry in entries)
    named = sorted(named_pictures(entries, pictures.sent))
    about = _about(trace.name, spans, draft)
    return LateSteps(letters, about, lines_of(trace.episode, entries), named, pictures.sent)


def _about(name: str, spans: Sequence[Span], draft: TrajectoryDraft) -> str:
    """Return the line of the history: where the steps come from, and what has no place in them."""
    count = "1 span" if len(spans) == 1 else f"{len(spans):,} spans"
    session = traces.session_of(spans)
    lost = "; ".join(lost_words(draft.lost))
    words = f"{count} of trace {name}{f', session {session[:200]}' if session else ''}"
    return str(readable(f"{words}{f'. Not in the steps: {lost}' if lost else ''}"))[:2000]


def as_bytes(value: WaitingTrace | Settled) -> bytes:
    """Return a value as one line of JSON, the bytes of its steps and of its pictures behind it."""
    fields: dict[str, Any] = dict(vars(value))
    steps: bytes = fields.pop("steps", b"")
    sent: Mapping[str, DecodedPicture] = fields.pop("sent", {})
    facts = {
        digest: {**vars(picture), "data": len(picture.data), "thumbnail": len(picture.thumbnail)}
        for digest, picture in sent.items()
    }
    rest = b"".join([steps, *(part for one in sent.values() for part in (one.data, one.thumbnail))])
    head = {"kind": type(value).__name__, "bytes": len(rest), "steps": len(steps), "sent": facts, **fields}
    return json.dumps(head).encode() + b"\n" + rest


def of_head(head: dict[str, Any], rest: bytes) -> Any:
    kinds: dict[str, Any] = {one.__name__: one for one in (WaitingTrace, TraceArrival, LateSteps, Unsettled)}
    made = kinds[head.pop("kind")]
    del head["bytes"]
    parts = io.BytesIO(rest)
    steps, sent = parts.read(head.pop("steps")), dict[str, DecodedPicture]()
    for digest, facts in head.pop("sent").items():
        sent[digest] = DecodedPicture(**{**facts, **{name: parts.read(facts[name]) for name in ("data", "thumbnail")}})
    return made(**head, **({"steps": steps, "sent": sent} if made in (TraceArrival, LateSteps) else {}))
