"""Protobuf's wire format: where the fields of a message are, and how many it has, before anything is made of it. Pure.

An empty message has two bytes on the wire and hundreds in memory, and gzip makes nothing of a million of them. Leaves
what fields mean to `otlp.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from people.errors import BadJson

VARINT, FIXED64, BOX, FIXED32 = 0, 1, 2, 5
"""Ways in which a field is written. A box says how long it is: a text, bytes, or another message."""
BYTES_OF = {FIXED64: 8, FIXED32: 4}
LEAST = 2
"""Bytes that a field has at least."""
Inner = dict[int, "Inner"]
"""The fields of a message that are messages, by number, with theirs."""


class BadWire(BadJson):
    """The body is not protobuf."""


class Descriptor(Protocol):
    """What is read of a type of protobuf's library."""

    full_name: str
    fields: Any


def messages_in(kind: Descriptor, by_type: dict[str, Inner] | None = None) -> Inner:
    """Return the fields of a type that are messages. A type that contains itself is one object."""
    by_type = {} if by_type is None else by_type
    if kind.full_name not in by_type:
        inner = by_type[kind.full_name] = {}
        for field in kind.fields:
            if field.message_type is not None:
                inner[field.number] = messages_in(field.message_type, by_type)
    return by_type[kind.full_name]


def boxes(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a message: number, start and end. Of one that is no box both are the same.

    Raises `BadWire` for what protobuf's reader would refuse, or does not need: groups were given up in 2008.
    """
    at = start
    while at < end:
        key, at = _varint(raw, at, end)
        way = key & 7
        if way == BOX:
            size, at = _varint(raw, at, end)
            first, at = at, at + size
        elif way == VARINT:
            _, at = _varint(raw, at, end)
            first = at
        elif way in BYTES_OF:
            first = at = at + BYTES_OF[way]
        else:
            raise BadWire
        if at > end:
            raise BadWire
        yield key >> 3, first, at


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise BadWire


def holds_more_than(raw: bytes, most: int, kind: Inner) -> bool:
    """Tell whether a message of this kind has more fields, those of its inner messages counted.

    Takes time for `most` fields at most, and no recursion: what is inside waits in a list.
    """
    if len(raw) <= most * LEAST:
        return False
    waiting, count = [(0, len(raw), kind)], 0
    while waiting:
        start, end, inner = waiting.pop()
        for number, first, last in boxes(raw, start, end):
            count += 1
            if count > most:
                return True
            if first < last and number in inner:
                waiting.append((first, last, inner[number]))
    return False
