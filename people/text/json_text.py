"""Strict JSON out of a body: no NaN, no number that a double cannot hold, no bottomless nesting, within its limit."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import orjson

from awmclient.schema import MAX_BATCH_BYTES
from people.errors import BadJson, Invalid, TooLarge

MAX_DEPTH = 128
"""Deeper JSON is no record of a tool call; everything that walks a value may count on this."""
TOO_DEEP = f"The body nests deeper than {MAX_DEPTH} levels."
VALUES_MAX = 400_000
"""Texts, lists and objects of one body, and commas between values."""
# Possessive, so that a text without its closing mark is given up in one pass instead of quadratic time.
_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{,]', re.DOTALL)
_SHAPE = bytes.maketrans(b"012345678E", b"999999999e")
_BOXES = (dict, list)
# From 19 digits on a number may not fit 64 bits, and orjson would round it.
_LONG_NUMBER = b"9" * 19


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole(text: str) -> int:
    _number(text)
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:60]} is out of range")
    return number


def parse_json(raw: bytes, most: int = VALUES_MAX) -> Any:
    """Parse strict JSON: no NaN, no number that a double cannot hold, no bottomless nesting, no swarm of values.

    Raises `BadJson`.
    """
    if holds_more_than(raw, most):
        raise BadJson(f"The body has more than {most:,} values.")
    try:
        value = _read_fast(raw)
    except orjson.JSONDecodeError:
        # orjson refuses more than JSON does, such as half of a surrogate pair; the slower reader decides.
        value = _read_exact(raw)
    # A deep value needs this many brackets: most bodies have fewer and are not walked.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and is_deep(value):
        raise BadJson(TOO_DEEP)
    return value


def _read_fast(raw: bytes) -> Any:
    """Return the same values as `_read`, for nearly every body: whole numbers of more than 64 bits come out as doubles
    here, and half a pair of surrogates is refused.
    """
    return _read_exact(raw) if _LONG_NUMBER in raw.translate(_SHAPE) else orjson.loads(raw)


def _read_exact(raw: bytes) -> Any:
    try:
        # Clients send halves of surrogate pairs, which models write; the record stores them unchanged.
        text = raw.decode("utf-8", "surrogatepass")
        exact: dict[str, Any] = {}
        if _may_overflow(raw):  # rare; hooks in the reader cost time for every number
            exact = {"parse_int": _whole, "parse_float": _number}
        return json.loads(text, parse_constant=_refuse_constant, **exact)
    except RecursionError as error:
        raise BadJson(TOO_DEEP) from error
    except UnicodeDecodeError as error:
        raise BadJson(f"The body is not UTF-8 text: byte {error.start + 1} cannot be read.") from error
    except ValueError as error:
        raise BadJson(f"The body is not JSON: {error}") from error


def holds_more_than(raw: bytes, most: int) -> bool:
    """Tell whether a text holds more values, before any is made: each takes a hundred times the memory of its text.

    Counts marks at the speed of memory first, and separates text from structure only if there are too many.
    """
    if sum(raw.count(mark) for mark in (b",", b"[", b"{", b'"')) <= most:
        return False
    return next(itertools.islice(_VALUE.finditer(raw), most, None), None) is not None


def _may_overflow(raw: bytes) -> bool:
    """Return whether a number may be too large for a double: an exponent of three digits, or digits enough that one of
    two is enough. Looked for in the shape of the text, where every digit is a 9, since patterns cost time for each
    letter.
    """
    shape = raw.translate(_SHAPE)
    return b"e999" in shape or b"e+999" in shape or b"9" * 200 in shape


def is_deep(value: Any) -> bool:
    """Tell whether a value is nested too deeply, without recursion, which hostile nesting would exhaust."""
    level = [value] if isinstance(value, _BOXES) else []
    for _ in range(MAX_DEPTH):
        level = [one for box in level for one in (box.values() if type(box) is dict else box) if type(one) in _BOXES]
        if not level:
            return False
    return True


def parse_typed(text: str, what: str) -> Any:
    """Parse strict JSON that a person typed; `what` names it in a refusal, in the plural.

    Raises `Invalid` for what is not JSON or nests too deeply, and for what would not be kept: a number out of range, a
    decimal that a double changes, a name that comes twice.
    """
    hooks: dict[str, Any] = {"parse_int": _whole, "parse_float": _kept, "object_pairs_hook": _once}
    try:
        # The standard reader, because orjson has no hooks for numbers and repeated names.
        value = json.loads(text, parse_constant=_refuse_constant, **hooks)
    except json.JSONDecodeError as error:
        raise Invalid(f"{what} are not valid JSON (line {error.lineno}, column {error.colno}).") from error
    except ValueError as error:
        raise Invalid(f"{what}: {error}.") from error
    except RecursionError as error:
        raise Invalid(f"{what} nest deeper than {MAX_DEPTH} levels.") from error
    if is_deep(value):
        raise Invalid(f"{what} nest deeper than {MAX_DEPTH} levels.")
    return value


def _kept(text: str) -> float:
    number = _number(text)
    if Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text[:60]} has more digits than a number keeps ({number!r})")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in counts if counts[name] > 1)
        raise ValueError(f'the name "{twice[:60]}" comes twice')
    return fields


def read_object(raw: bytes, limit: int, most: int = VALUES_MAX) -> dict[str, Any]:
    """Return the JSON object of a body, within its limits of bytes and values."""
    if len(raw) > limit:
        raise TooLarge
    body = parse_json(raw, most)
    if not isinstance(body, dict):
        raise Invalid("The body must be a JSON object.")
    steps = body.get("steps")
    if len(raw) > MAX_BATCH_BYTES and isinstance(steps, list) and len(steps) != 1:
        raise TooLarge("A batch of steps has at most 2 MB; only a single step may be larger.")
    return body
