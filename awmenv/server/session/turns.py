"""A limit on concurrent work: the holder with least goes first, and long work stops blocking others.

A thousand concurrent calls then wait in the server, where waiting costs nothing and before their timeout starts,
instead of slowing each other down until all are late. Called by `scenario` (starts, calls), `sessions` (verifiers) and
`checkup`.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable


class CoreTurns:
    """Places for the holder with the least work, and among equals for the one served longest ago.

    `each` bounds the places of one holder. `late` bounds how many blocks can continue without a place, half of them of
    one holder; a block that finds no room there keeps its place to its end.
    """

    def __init__(self, places: int, patience_s: float, *, each: int | None = None, late: int | None = None) -> None:
        self._free = places
        self._each = each or places
        self._late = late
        self._patience_s = patience_s
        self._held: Counter[Hashable] = Counter()
        self._overdue: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def hold(self, whose: Hashable = None) -> AsyncIterator[None]:
        """Hold a place until the block ends, or until it has lasted so long that it is mostly waiting."""
        await self._place(whose)
        overdue = False

        def free_place() -> None:
            nonlocal overdue
            if self._late is None or (
                self._overdue.total() < self._late and self._overdue[whose] < max(1, self._late // 2)
            ):
                overdue = True
                self._overdue[whose] += 1
                self._leave(whose)

        patience = asyncio.get_running_loop().call_later(self._patience_s, free_place)
        try:
            yield
        finally:
            patience.cancel()
            if overdue:
                _less(self._overdue, whose)
            else:
                self._leave(whose)

    async def _place(self, whose: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(whose, deque()).append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave(whose)  # it was cancelled in the moment in which it got its place
            raise

    def _leave(self, whose: Hashable) -> None:
        self._free += 1
        _less(self._held, whose)
        self._serve()

    def _serve(self) -> None:
        """Assign every free place to a waiting task."""
        while self._free:
            may = [whose for whose in self._waiting if self._held[whose] < self._each]
            if not may:
                return
            # Of equals the first; a served one goes to the end.
            whose = min(may, key=lambda key: self._held[key] + self._overdue[key])
            queue = self._waiting.pop(whose)
            turn = queue.popleft()
            if queue:
                self._waiting[whose] = queue
            if not turn.done():  # skip one that was cancelled while it waited
                self._free -= 1
                self._held[whose] += 1
                turn.set_result(None)


def _less(counts: Counter[Hashable], whose: Hashable) -> None:
    """Decrement a count and remove it at zero, because new holders keep coming."""
    counts[whose] -= 1
    if not counts[whose]:
        del counts[whose]
