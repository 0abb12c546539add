"""Requests of protobuf as a stranger writes them by hand: two bytes on the wire for each message."""

from __future__ import annotations


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def box(number: int, content: bytes) -> bytes:
    """Return a field that is a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def request(*spans: bytes) -> bytes:
    return box(1, box(2, b"".join(box(2, one) for one in spans)))


def spans(count: int) -> bytes:
    return box(1, box(2, box(2, b"") * count))


def groups(count: int) -> bytes:
    return box(1, b"") * count


def events(count: int) -> bytes:
    """One span of empty events."""
    return request(box(11, b"") * count)


def links(count: int) -> bytes:
    """Spans of empty links, which nothing reads: each of them as many as one may have."""
    return request(*[box(13, b"") * 199_000] * (count // 199_000 + 1))


def values(count: int) -> bytes:
    """One span with a list of empty values."""
    return request(box(9, box(1, b"a") + box(2, box(5, box(1, b"") * count))))


def signs(size: int) -> bytes:
    """One span with a text of signs that JSON writes by six each. It has all that a span must have."""
    ids = box(1, b"t" * 16) + box(2, b"s" * 8) + b"\x39" + b"\1" * 8 + b"\x41" + b"\1" * 8
    return request(ids + box(9, box(1, b"a") + box(2, box(1, b"\1" * size))))


def deep(size: int) -> bytes:
    """A value in a value in a value, in about so many bytes."""
    value = b""
    for _ in range(40):
        value = box(5, box(1, value))
    return request(*[box(9, box(1, b"a") + box(2, value))] * (size // 100))
