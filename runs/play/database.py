"""Database access for the coroutine of an episode: in the thread of its own event loop, over one connection.

A thread of the rollouts worker runs one episode, which waits for each of its writes anyway. So another thread would
gain nothing, and each switch between two threads costs as much as a statement. Used by `local.py`, `playing.py` and
`distilling.py`; other loops reach the database through a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync
from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")


class _Own(threading.local):
    """The resources of a thread for the episode that it runs."""

    keeps = False
    loop: asyncio.AbstractEventLoop | None = None


_own = _Own()


@contextlib.contextmanager
def one_connection() -> Iterator[None]:
    """Use one connection for all database work of this thread until the block ends, instead of borrowing and testing
    one for each call. A broken one is returned to the pool immediately."""
    close_old_connections()
    _own.keeps = True
    try:
        yield
    finally:
        _own.keeps = False
        close_old_connections()


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end in an event loop of this thread, where `in_database` calls without leaving it."""

    async def owning() -> R:
        _own.loop = asyncio.get_running_loop()
        try:
            return await coroutine
        finally:
            _own.loop = None

    return asyncio.run(owning())


def in_database(call: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a database function as a coroutine function."""

    async def called(*args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        if loop is not _own.loop:
            return await _InThread(call)(*args, **kwargs)
        # Django refuses blocking calls in a thread whose loop could run other coroutines meanwhile
        asyncio._set_running_loop(None)
        try:
            return _connected(lambda: call(*args, **kwargs))
        finally:
            asyncio._set_running_loop(loop)

    return called


class _InThread(SyncToAsync[P, R]):
    """The same from any other loop, in the thread that waits for it."""

    def thread_handler(self, loop: Any, *args: Any, **kwargs: Any) -> Any:
        handler = super().thread_handler
        return _connected(lambda: handler(loop, *args, **kwargs))  # type: ignore[no-untyped-call]


def _connected(call: Callable[[], R]) -> R:
    """Borrow a connection for one call, unless this thread keeps one; return one that may be broken."""
    if not _own.keeps:
        close_old_connections()
    try:
        done = call()
    except BaseException:
        close_old_connections()
        raise
    if not _own.keeps:
        close_old_connections()
    return done
