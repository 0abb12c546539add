"""A limit on concurrent heavy reads per sender, so that one token's readers leave time and memory to others.

Owns the number of running reads of a sender and the wait for a turn. Leaves what counts as a read, and the read itself,
to its callers: `episodes/live/reading.py`, the sockets of `episodes/live/consumers.py` and `imports/otlp_http.py`.
Turns are taken in the event loop, before a request has a thread: one that waits holds its connection and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from people.errors import Busy

READS_PER_SENDER = 4


class SenderTurns:
    """A number of concurrent turns for each sender, in one event loop. A sender's queue exists only while in use, and
    has at most `line` requests, if one is given."""

    def __init__(self, limit: int, line: int | None = None) -> None:
        self._limit, self._line = limit, line
        self._waiting: Counter[str] = Counter()
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, who: str, wait_s: float) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises `Busy` on a timeout, and immediately if the queue is full."""
        if self._line is not None and self._waiting[who] >= self._line:
            raise Busy
        # `line` keeps the queue alive: the dictionary refers to it weakly.
        line = self._lines.setdefault(who, asyncio.Semaphore(self._limit))
        self._waiting[who] += 1
        try:
            async with asyncio.timeout(wait_s):
                await line.acquire()
        except TimeoutError:
            raise Busy from None
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]
        try:
            yield
        finally:
            line.release()


READS, REPLAYS = SenderTurns(READS_PER_SENDER), SenderTurns(READS_PER_SENDER)
"""Separate, as a read keeps its turn until the client took the answer, and a socket only during its query."""
