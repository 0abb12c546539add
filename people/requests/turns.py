"""A limit on concurrent heavy reads per sender, so that one token's readers leave time and memory to others.

Owns the number of running reads of a sender and the wait for a turn. Leaves what counts as a read, and the read itself,
to its callers: `episodes/live/reading.py` and the sockets of `episodes/live/consumers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from people.errors import Busy

READS_PER_SENDER = 4


class SenderTurns:
    """A number of concurrent turns for each sender, in one event loop. A sender's queue exists only while in use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, who: str, wait_s: float) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises `Busy` on a timeout."""
        # `line` keeps the queue alive: the dictionary refers to it weakly.
        line = self._lines.setdefault(who, asyncio.Semaphore(self._limit))
        try:
            async with asyncio.timeout(wait_s):
                await line.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            yield
        finally:
            line.release()


READS, REPLAYS = SenderTurns(READS_PER_SENDER), SenderTurns(READS_PER_SENDER)
"""Separate, as a read keeps its turn until the client took the answer, and a socket only during its query."""
