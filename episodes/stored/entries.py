"""One step on its way into the record: its text, its letter on the strip and its cut form.

Owns how a step becomes the text that is stored and compared, so that `recording.py` and `committer.py` cannot differ.
Touches no row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.utils import timezone

from awmclient.schema import CUT_ABOVE_BYTES, MAX_STEP_BYTES, StepCommon
from episodes import events
from episodes.errors import SeqGap
from episodes.stored.strip import code_of
from episodes.stored.truncation import cut_of
from people.errors import Invalid, TooLarge

# What comes here was read from JSON, so it holds no circle; a deep one ends at the limit of recursion all the same.
# Keys keep their order: it is the order in which a model wrote its arguments and read its results.
_DIGITS = bytes.maketrans(b"012345678", b"9" * 9)
_LONG_NUMBER = b"9" * 19
WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


@dataclass(slots=True)
class StepEntry:
    """A step ready to be stored. Never changed; a frozen class would cost twice as much to create."""

    seq: int
    kind: str
    text: str
    at: datetime
    stamp: str
    code: str
    action: str
    cut: str | None


def entry_of(body: Mapping[str, Any], now: datetime) -> StepEntry:
    """Return the entry of a step's body as it is to be stored."""
    return _entry(body, text_of(body), now, events.stamp(now))


def _entry(body: Mapping[str, Any], text: str, now: datetime, stamp: str) -> StepEntry:
    sent_at = body.get("at")
    return StepEntry(
        body["seq"],
        body["kind"],
        text,
        datetime.fromisoformat(sent_at.replace("Z", "+00:00")) if sent_at else now,
        sent_at or stamp,
        code_of(body),
        str(body.get("name") or body["kind"]),
        cut_of(body, len(text)) if len(text) > CUT_ABOVE_BYTES else None,
    )


def entries_of(steps: Sequence[StepCommon]) -> list[StepEntry]:
    """Return entries of validated steps."""
    bodies = [step.model_dump(exclude_unset=True) for step in steps]
    now = timezone.now()
    return [entry_of(body_of(body, step.at), now) for body, step in zip(bodies, steps, strict=True)]


def entries_of_read(steps: Sequence[StepCommon]) -> list[StepEntry]:
    """Return the same of steps whose values were all read from JSON, which need not be looked through for what JSON
    does not have.
    """
    now = timezone.now()
    stamp = events.stamp(now)
    bodies = [body_of(step.model_dump(exclude_unset=True), step.at) for step in steps]
    return [_entry(body, text_of(body, _written), now, stamp) for body in bodies]


def entries_of_batch(raw: Sequence[Mapping[str, Any]], steps: Sequence[StepCommon]) -> list[StepEntry]:
    """Return the same from the JSON objects that the steps were validated from: validation changes nothing but the
    time, content in parts and whole numbers with a decimal point, so most objects need not be written out of the models
    again.
    """
    now = timezone.now()
    stamp = events.stamp(now)
    bodies = [body_of(_as_stored(body, step), step.at) for body, step in zip(raw, steps, strict=True)]
    return [_entry(body, text_of(body, _written), now, stamp) for body in bodies]


def _as_stored(body: Mapping[str, Any], step: StepCommon) -> Mapping[str, Any]:
    """Return what was sent in the one form that is stored: whole numbers without a point, content without parts."""
    if isinstance(body.get("content"), list):
        body = step.model_dump(exclude_unset=True)
    if isinstance(body["seq"], int) and not isinstance(body.get("turn"), float):
        return body
    return {**body, "seq": step.seq, **({"turn": step.turn} if "turn" in body else {})}


def body_of(step: Mapping[str, Any], at: datetime | None) -> Mapping[str, Any]:
    """Return what is stored of a step: what was said, its time in one form."""
    return {**step, "at": events.stamp(aware(at))} if at is not None else step


def aware(moment: datetime) -> datetime:
    """Read a time without a zone as UTC, as the record format says."""
    return timezone.make_aware(moment, timezone.get_default_timezone()) if timezone.is_naive(moment) else moment


def _written(body: Mapping[str, Any]) -> str:
    """Return the text of a body that was read from JSON. Which of two writers makes it hangs on the value alone, so
    that one value has one text: the fast one knows no escapes, no half of a pair and no number of more than 64 bits.
    """
    try:
        raw = orjson.dumps(body)
    except orjson.JSONEncodeError:
        return WRITER.encode(body)
    return raw.decode("ascii") if raw.isascii() else WRITER.encode(body)


def _checked(body: Mapping[str, Any]) -> str:
    """Check any body as the slow writer does: it refuses what JSON does not have, which the fast one writes as null."""
    WRITER.encode(body)
    return _written(body)


def text_of(body: Mapping[str, Any], written: Callable[[Mapping[str, Any]], str] = _checked) -> str:
    """Return the text of a step: its own fields by name, everything inside them in the order in which it came."""
    try:
        text = written(dict(sorted(body.items())))
    except (ValueError, RecursionError, TypeError) as error:
        raise Invalid(f"step {body.get('seq')}: {error}") from error
    if len(text) > MAX_STEP_BYTES:
        raise TooLarge("A step can have at most 8 MB.")
    return text


def is_same(text: str, other: str) -> bool:
    """Return whether two stored texts are one step; the order of keys is no difference.

    Texts of one length are looked into, up to a size that costs the writer of many nothing.
    """
    if text == other or len(text) != len(other) or len(text) > CUT_ABOVE_BYTES:
        return text == other
    return json.dumps(json.loads(text), sort_keys=True) == json.dumps(json.loads(other), sort_keys=True)


def with_time(text: str, at: datetime | str) -> str:
    """Return a stored text with the time of its row, where it does not say one itself."""
    stamp = at if isinstance(at, str) else events.stamp(at)
    if '"at":' in text and "at" in read(text):
        return text
    # before the closing brace
    return f'{text[:-1]},"at":"{stamp}"}}'


def read(text: str) -> dict[str, Any]:
    """Return the body of a stored text, every number and character as it was sent.

    The fast reader makes doubles of whole numbers of more than 64 bits and refuses half of a pair of surrogates.
    Looking for long digits in the shape of the text, where every digit is a 9, costs less than a pattern would.
    """
    raw = text.encode("utf-8", "surrogatepass")
    if _LONG_NUMBER not in raw.translate(_DIGITS):
        with suppress(orjson.JSONDecodeError):
            parsed: dict[str, Any] = orjson.loads(raw)
            return parsed
    body: dict[str, Any] = json.loads(text)
    return body


def read_all(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the bodies of stored texts, as `read` does; many small ones take half the time together."""
    raw = f"[{','.join(texts)}]".encode("utf-8", "surrogatepass")
    if _LONG_NUMBER not in raw.translate(_DIGITS):
        with suppress(orjson.JSONDecodeError):
            parsed: list[dict[str, Any]] = orjson.loads(raw)
            return parsed
    return [read(text) for text in texts]


def refuse_gaps(last_seq: int, entries: Sequence[StepEntry]) -> None:
    """Refuse numbers that do not go on, one by one, from what is stored or from within it."""
    # a batch can begin with steps that are stored already
    expected = min(entries[0].seq, last_seq + 1) if entries else 0
    for entry in entries:
        if entry.seq != expected:
            raise SeqGap(f"Expected step {expected}, got {entry.seq}. Steps are numbered without gaps.")
        expected += 1
