"""Bodies of requests below Django: read whole, within a limit for each and a limit for all at once.

Django would spool a body of any size to disk before it asks whether anybody wants it. Called by `awmweb/asgi.py` for
all its requests, and by the append of steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from people.errors import Busy, TooLarge

READING_BYTES = 64 * 1024 * 1024
"""What all bodies of a process may take together while they are read."""
DRAINED_BYTES = 64 * 1024 * 1024
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_reading = 0


class HungUp(Exception):
    """The caller is gone; nobody is left to answer."""


def header(scope: dict[str, Any], wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


@contextlib.contextmanager
def room_for(scope: dict[str, Any], limit: int) -> Iterator[None]:
    """Hold room for a request's body while it is read and worked on. Raises `Busy`."""
    global _reading
    wanted = limit if header(scope, b"transfer-encoding") else min(_declared(scope), limit)
    if _reading + wanted > READING_BYTES:
        raise Busy
    _reading += wanted
    try:
        yield
    finally:
        _reading -= wanted


async def read_body(scope: dict[str, Any], receive: Receive, limit: int) -> bytes:
    """The whole body. What is too large is read to its end and dropped, so that the caller gets to hear it."""
    parts: list[bytes] = []
    size, more = 0, _declared(scope) <= DRAINED_BYTES
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HungUp
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > DRAINED_BYTES:
            break
    if size > limit or _declared(scope) > DRAINED_BYTES:
        raise TooLarge
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _declared(scope: dict[str, Any]) -> int:
    said = header(scope, b"content-length")
    return min(int(said), DRAINED_BYTES + 1) if said.isdecimal() and len(said) < 20 else 0


def replayed(body: bytes, receive: Receive) -> Receive:
    """The same request for an app that reads its body itself."""
    whole = [{"type": "http.request", "body": body, "more_body": False}]

    async def inner() -> dict[str, Any]:
        return whole.pop() if whole else await receive()

    return inner
