"""Reads JSON of unknown origin in a bounded time: what a parser would build is counted before it is parsed.

A parser holds the whole interpreter while it works, in a thread too, so a text of a few megabytes in the wrong shape
would freeze every session for seconds. Used by the server on whatever clients and confined processes send. What is
accepted is strict JSON: no NaN, no lone surrogates; whole numbers beyond 64 bits become floating point.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from awmenv.server.sandbox.framing import BadFrame

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Unreadable(BadFrame):
    """No JSON, or more of it than its reader takes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much JSON one reader takes: bytes, values (without keys; an empty list counts twice), levels of nesting."""

    size: int
    values: int = 10_000
    depth: int = 32


def read(data: bytes, bounds: Bounds) -> Any:
    """Return the value of a JSON text within bounds. Raises `Unreadable`."""
    if len(data) > bounds.size:
        raise Unreadable(f"larger than {bounds.size >> 10} KiB")
    opened = data.count(b"[") + data.count(b"{")
    if opened > bounds.depth or opened + data.count(b",") >= bounds.values:
        _measure(data, bounds)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"Invalid JSON: {error}") from error


def read_text(data: bytes) -> str:
    """Return a JSON text that is one string; the caller has bounded its size."""
    if data[:1] != b'"':
        raise Unreadable("not a text")
    try:
        text: str = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"Invalid JSON: {error}") from error
    return text


def clean(text: str) -> str:
    """Return a text that every writer of JSON can carry; rows of packs may hold halves of characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _measure(data: bytes, bounds: Bounds) -> None:
    """Count values and levels in what stands between the strings.

    Up to the first mistake in the text, quotes and escapes pair here as they do for the parser, and there it stops; so
    nothing that it would build is hidden from the count.
    """
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    if bare.count(b'"') > 4 * bounds.values:  # a value and its key have four
        raise Unreadable(f"more than {bounds.values} values")
    between = b"".join(bare.split(b'"')[::2])
    if between.count(b",") + between.count(b"[") + between.count(b"{") >= bounds.values:
        raise Unreadable(f"more than {bounds.values} values")
    brackets = between.translate(_BRACKETS, _NO_BRACKETS)
    for _level in range(bounds.depth):
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return  # flat, or not balanced, which the parser says better
        brackets = inner
    if brackets:
        raise Unreadable(f"nested deeper than {bounds.depth}")
