"""Who calls, by a bearer token, remembered for a moment in each event loop, for calls answered below Django."""

from __future__ import annotations

import asyncio
import time

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.utils import timezone

from people.access import Actor, bearer
from people.errors import Unauthenticated
from people.record.members import digest, token_of

KNOWN_S = 3.0
"""For so long a token is known without asking the database; a revoked one is refused after this at the latest."""
KNOWN_TOKENS = 10_000


class KnownTokens:
    """Actors of bearers for one event loop, remembered for a moment, so that a busy loop's token is not read from the
    database for every batch. Many requests of one unknown token ask once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, asyncio.Task[Actor | None]]] = {}

    async def actor(self, secret: str) -> Actor:
        """Return who calls. Raises `Unauthenticated`."""
        now = time.monotonic()
        key = digest(secret)
        until, task = self._known.get(key, (0.0, None))
        # A task belongs to its loop: in one that has ended it would never finish.
        if task is None or until < now or task.get_loop() is not asyncio.get_running_loop():
            # Tokens that do not come again leave only here. Forgetting all costs each other sender one query.
            if len(self._known) >= KNOWN_TOKENS:
                self._known.clear()
            task = asyncio.get_running_loop().create_task(_asked(secret))
            self._known[key] = (now + KNOWN_S, task)
        try:
            # One caller that disconnects must not cancel the look-up for the others.
            caller = task.result() if task.done() else await asyncio.shield(task)
        except Exception:
            self._known.pop(key, None)
            raise
        # The row can be 3 s old: an expiry counts at its time, and a revocation once it is read again.
        if caller is None or caller.token is None or not caller.token.is_current(timezone.now()):
            self._known.pop(key, None)
            raise Unauthenticated
        return caller


TOKENS = KnownTokens()


async def _asked(secret: str) -> Actor | None:
    return await sync_to_async(_ask, thread_sensitive=False)(secret)


def _ask(secret: str) -> Actor | None:
    try:
        token = token_of(secret)
        return bearer(token) if token is not None else None
    finally:
        close_old_connections()
