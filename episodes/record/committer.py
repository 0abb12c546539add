"""Group commit: the appends of many requests become one transaction, and each gets its response after the commit.

Owns a bounded queue and one writer thread per web process. Leaves the rules and the transaction to `appending.py`.
Called by `intake.py`.

Other writers share the database. Rows of episodes are locked first and in one order, and a row that is locked elsewhere
is skipped: its appends are retried in the next round, and the others continue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db import close_old_connections

from episodes.record.appending import Append, AppendResult, Held, append_together
from episodes.stored.entries import StepEntry
from people import measures
from people.access import Actor
from people.errors import AWAY, Busy

log = logging.getLogger(__name__)
# beyond either bound requests are refused as busy, which clients repeat; memory stays bounded
WAITING_APPENDS = 2000
WAITING_BYTES = 64 * 1024 * 1024
# bounds the time of one transaction, and what is repeated one by one if it fails
GROUP_APPENDS = 256
GROUP_BYTES = 8 * 1024 * 1024
HELD_S = 5.0
"""The time an append waits for an episode that another transaction has locked."""


@dataclass(eq=False, slots=True)
class AppendRequest(Append):
    """An append, and the future of its response."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[int]
    size: int
    since: float = field(default_factory=time.monotonic)


class Committer:
    """The queue and its writer."""

    def __init__(self) -> None:
        self._waiting: deque[AppendRequest] = deque()
        self._bytes = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, actor: Actor, episode_id: str, entries: Sequence[StepEntry]) -> asyncio.Future[int]:
        """Queue a batch; the future holds the last stored number once it is durable. Raises `Busy`."""
        loop = asyncio.get_running_loop()
        size = sum(len(entry.text) for entry in entries)
        append = AppendRequest(actor, episode_id, entries, loop, loop.create_future(), size)
        with self._news:
            if len(self._waiting) >= WAITING_APPENDS or self._bytes + size > WAITING_BYTES:
                raise Busy
            self._waiting.append(append)
            self._bytes += size
            self._start()
            self._news.notify()
        return append.done

    def waiting(self) -> int:
        return len(self._waiting)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            # read without the lock: a wrong guess costs one look at the connection
            if not self._waiting:
                _release_connection()
            group = self._next()
            results = commit(group)
            # the next group needs a connection that works
            if any(isinstance(one, AWAY) for one in results):
                _release_connection()
            _answer(zip(group, results, strict=True))
            _measure(group, results)
            held = [one for one, result in zip(group, results, strict=True) if isinstance(result, Held)]
            self._again(held, alone=len(held) == len(group))

    def _next(self) -> list[AppendRequest]:
        with self._news:
            self._news.wait_for(lambda: self._waiting)
            group: list[AppendRequest] = []
            size = 0
            # checked before it is added: a batch above the limit still goes
            while self._waiting and len(group) < GROUP_APPENDS and size < GROUP_BYTES:
                group.append(self._waiting.popleft())
                size += group[-1].size
            self._bytes -= size
            return group

    def _again(self, held: Sequence[AppendRequest], alone: bool) -> None:
        """Put requests back to the front, in their order."""
        with self._news:
            # `extendleft` reverses what it adds
            self._waiting.extendleft(reversed(held))
            self._bytes += sum(one.size for one in held)
            if held and alone:
                # only locked episodes are left: without a pause this loop would ask the database without end
                self._news.wait(0.005)


def _release_connection() -> None:
    """Release the connection when no request waits or when it can be broken, not after each group: checking it costs a
    round trip to the database. The writer thread survives any error here."""
    try:
        close_old_connections()
    except Exception:
        log.exception("a connection could not be released")


def _answer(answered: Iterable[tuple[AppendRequest, AppendResult]]) -> None:
    """Wake each event loop once for all its requests of the group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[AppendRequest, AppendResult]]] = {}
    for append, result in answered:
        if not isinstance(result, Held):
            by_loop.setdefault(append.loop, []).append((append, result))
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            # futures of asyncio can be resolved in their own loop only
            loop.call_soon_threadsafe(_resolve, answers)


def _measure(group: Sequence[AppendRequest], results: Sequence[AppendResult]) -> None:
    ended = [(one, result) for one, result in zip(group, results, strict=True) if not isinstance(result, Held)]
    if not ended:
        return
    stored = [one for one, result in ended if not isinstance(result, Exception)]
    measures.count("awmweb_ingest_batches_total", "stored", by=len(stored))
    measures.count("awmweb_ingest_batches_total", "refused", by=len(ended) - len(stored))
    measures.count("awmweb_ingest_steps_total", by=sum(len(one.entries) for one in stored))
    measures.observe("awmweb_ingest_wait_seconds", time.monotonic() - min(one.since for one, _ in ended))


def _resolve(answers: Iterable[tuple[AppendRequest, AppendResult]]) -> None:
    for append, result in answers:
        if append.done.done():
            continue  # its caller disconnected; the steps are stored anyway
        if isinstance(result, Exception):
            append.done.set_exception(result)
        else:
            append.done.set_result(result)


def commit(group: Sequence[AppendRequest]) -> list[AppendResult]:
    """Write a group; never raises. After a database error that one batch can have caused, each is written alone, so
    that only that one fails."""
    try:
        return [_patient(one, result) for one, result in zip(group, append_together(group), strict=True)]
    except Exception as error:
        suspect = not isinstance(error, AWAY)
        if len(group) > 1 and suspect:
            return [commit([one])[0] for one in group]
        if suspect:
            log.exception("an append failed")
        return [error for _ in group]


def _patient(append: AppendRequest, result: AppendResult) -> AppendResult:
    if isinstance(result, Held) and time.monotonic() - append.since > HELD_S:
        return Busy("Other requests are changing this episode. Retry shortly.")
    return result


committer = Committer()
measures.watch("awmweb_ingest_waiting", committer.waiting)
