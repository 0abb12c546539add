"""Turns at heavy reads: few at once for each sender, so that one token's readers leave time and memory to the others.

Owns how many reads of one sender are under way and how long one waits for its turn. Leaves what counts as a read, and
what happens in a turn, to its callers: `episodes/live/reading.py` and the sockets of `episodes/live/consumers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from people.errors import Busy

AT_ONCE = 4


class Turns:
    """So many turns at once for each sender, in one event loop. A sender's line is kept while somebody stands in it."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, who: str, wait_s: float) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises `Busy` when none came in time."""
        line = self._lines.setdefault(who, asyncio.Semaphore(self._at_once))
        try:
            async with asyncio.timeout(wait_s):
                await line.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            yield
        finally:
            line.release()


READS, REPLAYS = Turns(AT_ONCE), Turns(AT_ONCE)
"""Apart, as a read keeps its turn until its answer was taken, and a socket only while the database is asked."""
