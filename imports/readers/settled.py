"""A complete trace as what is stored of it: spans as text -> `Arrival`, late steps, or why there is none. Pure.

Called in the process of its own in which strangers' traces are read (`imports/trace_process.py`).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from awmclient.schema import Step
from awmclient.words.conversation import readable
from episodes.stored.arrivals import Arrival, arrival_of, lines_of
from episodes.stored.entries import entries_of_read
from imports.readers import first_words, start_of, traces
from imports.readers.found import TrajectoryDraft, UnreadableRow, lost_words
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


@dataclass(frozen=True)
class LateSteps:
    """Steps to append, as lines for `COPY`, with their letters on the strip and the line of the history."""

    letters: str
    about: str
    steps: bytes


@dataclass(frozen=True)
class Unsettled:
    """Why a trace is no episode: for its project, and for the log, without the words of its spans."""

    problem: str
    where: str


Settled = Arrival | LateSteps | Unsettled


def key_of(name: str) -> str:
    """Return the key of the episode of a trace."""
    return f"otlp/{name}"


def settled(trace: WaitingTrace) -> Settled:
    """Read a trace. Spans hold whatever a stranger sent, so that any error is a result."""
    try:
        spans = [Span(**json.loads(text)) for text in trace.spans]
        return _late(trace, spans) if trace.episode else _arrival(trace.name, spans)
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


def _arrival(name: str, spans: Sequence[Span]) -> Arrival:
    draft = TrajectoryDraft()
    trajectory = traces.read_trace(spans, draft)
    return arrival_of(start_of(trajectory, key_of(name)), trajectory, _about(name, spans, draft))


def _late(trace: WaitingTrace, spans: Sequence[Span]) -> LateSteps:
    draft = TrajectoryDraft()
    steps = STEPS.validate_python(traces.late_steps(spans, trace.last_seq, draft))
    entries = entries_of_read(steps)
    letters = "".join(entry.code for entry in entries)
    return LateSteps(letters, _about(trace.name, spans, draft), lines_of(trace.episode, entries))


def _about(name: str, spans: Sequence[Span], draft: TrajectoryDraft) -> str:
    """Return the line of the history: where the steps come from, and what has no place in them."""
    count = "1 span" if len(spans) == 1 else f"{len(spans):,} spans"
    session = traces.session_of(spans)
    lost = "; ".join(lost_words(draft.lost))
    words = f"{count} of trace {name}{f', session {session[:200]}' if session else ''}"
    return str(readable(f"{words}{f'. Not in the steps: {lost}' if lost else ''}"))[:2000]


def as_bytes(value: WaitingTrace | Settled) -> bytes:
    """Return a value as one line of JSON, the bytes of its steps behind it."""
    fields: dict[str, Any] = dict(vars(value))
    steps: bytes = fields.pop("steps", b"")
    head = {"kind": type(value).__name__, "bytes": len(steps), **fields}
    return json.dumps(head).encode() + b"\n" + steps


def of_head(head: dict[str, Any], steps: bytes) -> Any:
    kinds: dict[str, Any] = {one.__name__: one for one in (WaitingTrace, Arrival, LateSteps, Unsettled)}
    made = kinds[head.pop("kind")]
    del head["bytes"]
    return made(**head, **({"steps": steps} if made in (Arrival, LateSteps) else {}))
