"""Who may compete for the cores now: so many at once, and whoever takes long no longer keeps others out.

A thousand calls that come together then wait in the server, where it costs nothing and before their time limit starts,
instead of slowing each other down until all of them are late. Called by `scenario`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """First come, first served."""

    def __init__(self, places: int, patience_s: float) -> None:
        self._free = asyncio.Semaphore(places)
        self._patience_s = patience_s

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A place until the block ends, or until it has lasted so long that it rather waits than works."""
        await self._free.acquire()
        held = [self._free]

        def give_back() -> None:
            if held:
                held.pop().release()

        late = asyncio.get_running_loop().call_later(self._patience_s, give_back)
        try:
            yield
        finally:
            late.cancel()
            give_back()
