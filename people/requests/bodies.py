"""Request bodies below Django: a body gets memory after its sender is known, and must keep arriving.

Django would spool a body of any size to disk before any view asks for it. Owns how much memory bodies use together, how
much of it one sender can use, and how slow a body can be. Leaves authentication to `http.py`. Called by
`awmweb/asgi.py` for all its requests, by the append of steps and by MCP.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from people.errors import Busy, TooLarge, TooSlow

ROOM_BYTES = 64 * 1024 * 1024
"""Memory for the bodies of known senders in one process."""
STRANGERS_BYTES = 8 * 1024 * 1024
"""Memory for the bodies of strangers, apart from that of known senders."""
STRANGER_BYTES = 64 * 1024
"""The largest body of a stranger: a form sent after its session has ended."""
SILENCE_S = 10.0
"""How long a body may pause."""
FIRST_S, BYTES_PER_S = 20.0, 32 * 1024
"""Seconds that a body can take, and the bytes that extend them by one."""
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class HungUp(Exception):
    """The caller disconnected; no one is left to answer."""


def header(scope: dict[str, Any], header_name: bytes) -> str:
    # A header can have any bytes, and Latin-1 decodes all of them.
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == header_name), "")


def bearer_secret(scope: dict[str, Any]) -> str | None:
    """Return the token of a request, valid or not."""
    kind, _, secret = header(scope, b"authorization").partition(" ")
    return secret if kind.lower() == "bearer" else None


def has_body(scope: dict[str, Any]) -> bool:
    """Return whether a request has a body. One of unknown length counts, one of zero bytes does not."""
    return bool(header(scope, b"transfer-encoding")) or header(scope, b"content-length") not in ("", "0")


class SharedBuffer:
    """Memory that many senders share, in one event loop.

    No sender can hold more than stays free beside it: one sender leaves a half, two leave a third, and the next one
    always finds room.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()

    def take(self, who: str, size: int) -> None:
        """Take memory for a sender. Raises `Busy`."""
        # After this, at least as much must stay free as the sender holds.
        if self._held[who] + size > self._free - size:
            raise Busy
        self._free -= size
        self._held[who] += size

    def release(self, who: str, size: int) -> None:
        self._free += size
        self._held[who] -= size
        if not self._held[who]:
            del self._held[who]


ROOM, STRANGERS = SharedBuffer(ROOM_BYTES), SharedBuffer(STRANGERS_BYTES)


class Body:
    """A request's body, and the memory it holds until the work on it is done. `sender` is empty for a stranger.

    A known sender's memory is taken for the declared length, so that some of many large bodies complete. A stranger's
    grows with the received bytes: a large declared length costs others nothing.
    """

    def __init__(self, scope: dict[str, Any], receive: Receive, limit: int, sender: str) -> None:
        length = header(scope, b"content-length")
        # Untrusted: converting thousands of digits takes quadratic time.
        self._announced = int(length) if length.isdecimal() and len(length) < 20 else 0
        self._receive, self._sender = receive, sender
        self._room, self._limit = (ROOM, limit) if sender else (STRANGERS, min(limit, STRANGER_BYTES))
        self._taken = 0

    def __enter__(self) -> Self:
        if self._announced > self._limit:
            raise TooLarge
        if self._sender:
            self._take(self._announced)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._taken:
            self._room.release(self._sender, self._taken)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises `TooLarge`, `TooSlow`, `Busy` or `HungUp`; the server then drops the rest.
        """
        loop = asyncio.get_running_loop()
        began, size, more = loop.time(), 0, True
        parts: list[bytes] = []
        while more:
            try:
                # Two limits: the longest pause, and the lowest average rate.
                async with asyncio.timeout_at(min(loop.time() + SILENCE_S, began + FIRST_S + size / BYTES_PER_S)):
                    message = await self._receive()
            except TimeoutError:
                raise TooSlow from None
            if message["type"] == "http.disconnect":
                raise HungUp
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > self._limit:
                raise TooLarge
            self._take(size)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, size: int) -> None:
        """Hold at least this much memory."""
        if size > self._taken:
            self._room.take(self._sender, size - self._taken)
            self._taken = size


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return the same request for an app that reads its body itself."""
    whole = [{"type": "http.request", "body": body, "more_body": False}]

    async def inner() -> dict[str, Any]:
        # Afterwards the server's own channel, on which an app still hears a disconnect.
        return whole.pop() if whole else await receive()

    return inner
