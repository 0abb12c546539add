"""Reads untrusted JSON in bounded time: the values that a parser would build are counted before it runs.

A parser holds the whole interpreter while it works, in a thread too, so a few megabytes in the wrong shape would freeze
every session for seconds. Used by the server on everything that clients and confined processes send. It accepts strict
JSON: no NaN, no lone surrogates; whole numbers beyond 64 bits become floating point.
"""

import json
from dataclasses import dataclass
from typing import Any

import orjson

from awmenv.server.sandbox.framing import BadFrame

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Unreadable(BadFrame):
    """Text that is no JSON, or exceeds the reader's bounds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one reader: bytes, values (without keys; an empty list counts twice), levels of nesting."""

    size: int
    values: int = 10_000
    depth: int = 32


def read(data: bytes, bounds: Bounds) -> Any:
    """Return the value of a JSON text within bounds. Raises `Unreadable`."""
    _count(data, bounds)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"Invalid JSON: {error}") from error


def read_words(data: bytes, bounds: Bounds) -> Any:
    """Return the same of what a model wrote, which can have lone surrogates. Raises `Unreadable`."""
    _count(data, bounds)
    try:
        return json.loads(data)
    except ValueError as error:
        raise Unreadable(f"Invalid JSON: {error}") from error


def _count(data: bytes, bounds: Bounds) -> None:
    if len(data) > bounds.size:
        raise Unreadable(f"larger than {bounds.size >> 10} KiB")
    opened = data.count(b"[") + data.count(b"{")
    if opened > bounds.depth or opened + data.count(b",") >= bounds.values:
        _measure(data, bounds)


def read_text(data: bytes) -> str:
    """Return a JSON text that is one string; the caller has bounded its size."""
    # Only a text, whose size bounds what it can become.
    if data[:1] != b'"':
        raise Unreadable("not a text")
    try:
        text: str = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"Invalid JSON: {error}") from error
    return text


def clean(text: str) -> str:
    """Return text that every JSON writer accepts; rows of packs can have lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _measure(data: bytes, bounds: Bounds) -> None:
    """Count values and levels in the text between the strings.

    Up to the first syntax error, quotes and escapes pair here as they do for the parser, which stops there. So nothing
    that it would build is missed.
    """
    # Escaped backslashes first: of a pair before a quotation mark, the second escapes nothing.
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    if bare.count(b'"') > 4 * bounds.values:  # a value and its key have four
        raise Unreadable(f"more than {bounds.values} values")
    between = b"".join(bare.split(b'"')[::2])
    if between.count(b",") + between.count(b"[") + between.count(b"{") >= bounds.values:
        raise Unreadable(f"more than {bounds.values} values")
    brackets = between.translate(_BRACKETS, _NO_BRACKETS)
    for _level in range(bounds.depth):
        # Each round removes the innermost level, in a pass at memory speed.
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return  # flat, or unbalanced, for which the parser has a better error
        brackets = inner
    if brackets:
        raise Unreadable(f"nested deeper than {bounds.depth}")
