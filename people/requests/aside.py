"""A stranger's body, read beside the event loop: the one way from bytes to values for what is served below Django.

Owns which texts are read in a thread, and whose turn it is there. Leaves what a reader accepts to the reader, which
counts before it parses: a thread shares the interpreter, so it helps only against many short pieces of work. Called by
the append of steps and by MCP; `tests/test_event_loops.py` refuses any other parser on an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from people.requests.turns import SenderTurns

SMALL_BYTES = 16 * 1024
"""A text of this size takes 3 ms at most; a thread would cost more than most of them."""
WAIT_S = 5.0
R = TypeVar("R")
READINGS = SenderTurns(1)
"""One thread of the pool for a sender, so that the large bodies of one leave threads to the others."""


async def read_aside(raw: bytes, read: Callable[[bytes], R], sender: str) -> R:
    """Return what a reader makes of a text, without keeping the event loop from others. Raises `Busy`."""
    if len(raw) <= SMALL_BYTES:
        return read(raw)
    async with READINGS.turn(sender, WAIT_S):
        return await asyncio.to_thread(read, raw)
