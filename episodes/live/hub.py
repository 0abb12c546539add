"""Live hints inside one process: one subscription, coalescing, one serialized payload for all listeners of a topic.

Owns the bounded queue of each listener and sends `gap` when one overflows. Leaves permissions to the consumers. A hub
lives in one event loop; it reconnects by itself and sends its listeners `gap` after every reconnect, because hints sent
meanwhile are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from weakref import WeakKeyDictionary

import redis.asyncio as redis
from django.conf import settings
from redis.exceptions import RedisError

from episodes import events
from episodes.events import CHANNEL
from episodes.live.wire import Payload, SocketWriter
from people import measures

log = logging.getLogger(__name__)
COALESCE_S = 0.02
"""The shortest time between two frames of one topic."""
LIST_S = 0.2
"""The same for states of episodes in lists, where one screen shows hundreds of them."""
# the longest pause between frames, however long writing takes
LONGEST_S = 0.12
SHARE = 0.5
"""How much of its time an event loop may write frames, before frames become fewer and larger."""
# of one socket: beyond either it gets a `gap` and fetches over HTTP
QUEUE_FRAMES = 256
QUEUE_BYTES = 4 * 1024 * 1024
GAP_FRAME = '{"type":"gap"}'
GAP = Payload(GAP_FRAME)


class Listener:
    """A bounded queue of serialised frames; on overflow it keeps one `gap` and nothing else."""

    __slots__ = ("_bytes", "_frames", "_waiter")

    def __init__(self) -> None:
        self._frames: deque[Payload] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None

    def put(self, payload: Payload) -> None:
        # `self._frames and`: a single frame above the limit still goes
        if self._frames and (len(self._frames) >= QUEUE_FRAMES or self._bytes + payload.size > QUEUE_BYTES):
            # a slow reader loses frames, never the server memory; the page fetches what it missed
            self._frames.clear()
            self._bytes = 0
            payload = GAP
            measures.count("awmweb_hub_gaps_total")
        self._frames.append(payload)
        self._bytes += payload.size
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> Payload | None:
        """Return the oldest payload, if there is one."""
        if not self._frames:
            return None
        payload = self._frames.popleft()
        self._bytes -= payload.size
        return payload

    async def get(self) -> Payload:
        while (payload := self.take()) is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return payload


class SocketListener(Listener):
    """A listener whose frames go straight to its socket, and to the queue only while the socket is full.

    It has no task: `on_stall` is called when the queue is no longer empty. The reader that drains it through `take`
    calls `flowing` when it is empty again.
    """

    __slots__ = ("_flows", "_line", "_on_stall")

    def __init__(self, line: SocketWriter, on_stall: Callable[[], None]) -> None:
        super().__init__()
        self._line = line
        self._on_stall = on_stall
        self._flows = False

    def put(self, payload: Payload) -> None:
        # only while the queue is empty: a frame must not overtake those that wait
        if self._flows and self._line.write(payload):
            return
        super().put(payload)
        if self._flows:
            self._flows = False
            self._on_stall()

    def flowing(self) -> None:
        """Let frames go straight on, as the queue is empty."""
        self._flows = True


class Pending:
    """What one topic has to say at the next delivery, in the order in which it was first said."""

    __slots__ = ("_count", "_frames")

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str], list[str]] = {}
        self._count = 0

    def add(self, kind: str, key: str, payload: str) -> None:
        if kind == events.STEPS:
            self._add_steps(key, payload)
        elif kind == events.LAST:
            # removed first, so that the newest state is delivered at its own place in the order
            self._frames.pop((kind, key), None)
            self._frames[kind, key] = [payload]
        else:
            # a `gap` is sent without a payload
            self._add_one(payload or GAP_FRAME)

    def _add_one(self, text: str) -> None:
        self._count += 1
        self._frames[events.EACH, str(self._count)] = [text]

    def _add_steps(self, key: str, payload: str) -> None:
        parts = self._frames.get((events.STEPS, key), [])
        if parts and sum(map(len, parts)) + len(payload) > events.FRAME_BYTES:
            # a full frame gets a key of its own, and the next steps begin another
            del self._frames[events.STEPS, key]
            self._add_one(events.steps_frame(key, parts))
            parts = []
        self._frames[events.STEPS, key] = [*parts, payload]

    def payload(self) -> Payload:
        """Return the frames, to be written together."""
        return Payload(
            *(
                events.steps_frame(key, parts) if kind == events.STEPS else parts[0]
                for (kind, key), parts in self._frames.items()
            )
        )


class Lane:
    """Hints on their way to listeners, and when they leave: immediately after a quiet time, otherwise some time after
    those before them; later while writing takes the loop long, so that many sockets get fewer and larger frames."""

    def __init__(self, every: float, deliver: Callable[[str, Payload], None]) -> None:
        self._every, self._deliver = every, deliver
        self._pending: dict[str, Pending] = {}
        self._next = self._since = 0.0

    def add(self, topic: str, kind: str, key: str, payload: str) -> None:
        # the first hint after a delivery starts the timer, for all that follow
        if not self._pending:
            self._since = time.perf_counter()
            wait = max(0.0, self._next - self._since)
            asyncio.get_running_loop().call_later(wait, self._leave)
        self._pending.setdefault(topic, Pending()).add(kind, key, payload)

    def _leave(self) -> None:
        began, due, self._pending = time.perf_counter(), self._pending, {}
        self._next = began + self._every
        for topic, pending in due.items():
            self._deliver(topic, pending.payload())
        asyncio.get_running_loop().call_soon(self._left, began, self._since)

    def _left(self, began: float, since: float) -> None:
        """Note that the loop has handed the frames to the kernel."""
        now = time.perf_counter()
        took = now - began
        measures.observe("awmweb_hub_lag_seconds", now - since)
        # took / SHARE leaves the loop as much time for other work as the frames took
        self._next = began + min(max(self._every, took / SHARE), max(self._every, LONGEST_S))


class Hub:
    """One subscription for all listeners of this event loop."""

    def __init__(self) -> None:
        self._topics: dict[str, set[Listener]] = {}
        self._soon = Lane(COALESCE_S, self._deliver)
        self._later = Lane(LIST_S, self._deliver)
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def listening(self, *topics: str) -> AsyncIterator[Listener]:
        """Provide a listener on these topics. It is subscribed before the block runs, so that a read inside misses
        nothing.
        """
        listener = Listener()
        try:
            await self.add(listener, *topics)
            yield listener
        finally:
            self.drop(listener, *topics)

    async def add(self, listener: Listener, *topics: str) -> None:
        """Listen from now on."""
        for topic in topics:
            self._topics.setdefault(topic, set()).add(listener)
        await self._ensure()

    def drop(self, listener: Listener, *topics: str) -> None:
        for topic in topics:
            listeners = self._topics.get(topic, set())
            listeners.discard(listener)
            if not listeners:
                self._topics.pop(topic, None)

    async def _ensure(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        if not self._subscribed.is_set():
            # without Valkey a page works, too: it gets a `gap` after the reconnect
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._subscribed.wait(), 1)

    async def _run(self) -> None:
        delay = 0.1
        while True:
            try:
                await self._subscription()
            except (RedisError, OSError) as error:
                log.warning("live hints unavailable, retrying: %s", error)
            # after a connection that worked soon, otherwise later each time
            delay = 0.1 if self._subscribed.is_set() else min(delay * 2, 2.0)
            self._subscribed.clear()
            await asyncio.sleep(delay)

    async def _subscription(self) -> None:
        async with redis.Redis.from_url(settings.REDIS_URL, health_check_interval=10) as client:
            async with client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                self._subscribed.set()
                # whatever was sent before this subscription is lost to every listener
                self._tell_all(GAP)
                while True:
                    # a wait without end would leave no place for the health check of the connection
                    message = await channel.get_message(timeout=5)
                    if message is not None:
                        self._take(message["data"])

    def _take(self, data: bytes) -> None:
        for line in data.decode("ascii").splitlines():
            topic, kind, key, payload = line.split(" ", 3)
            if topic == events.ALL_TOPICS:
                self._tell_all(GAP)
            elif topic in self._topics and kind == events.WAKE:
                self._deliver(topic, Payload(payload))
            elif topic in self._topics:
                is_listed = kind == events.LAST and topic.startswith("queue:")
                (self._later if is_listed else self._soon).add(topic, kind, key, payload)

    def _deliver(self, topic: str, payload: Payload) -> None:
        for listener in tuple(self._topics.get(topic, ())):
            listener.put(payload)

    def _tell_all(self, payload: Payload) -> None:
        # a set: a listener on two topics gets one
        for listener in {one for listeners in self._topics.values() for one in listeners}:
            listener.put(payload)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop; a web process has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
