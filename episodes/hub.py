"""Live hints inside one process: one subscription, coalescing, one serialised payload for all listeners of a topic.

Owns the bounded queue of each listener and says `gap` when one overflows, instead of going silent. Leaves who may
listen to the consumers. A hub lives in one event loop; it reconnects by itself and tells its listeners `gap` after
every reconnect, because hints that were sent meanwhile are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio as redis
from django.conf import settings
from redis.exceptions import RedisError

from episodes.events import CHANNEL

log = logging.getLogger(__name__)
COALESCE_S = 0.02
QUEUE_SIZE = 256
GAP = '{"type":"gap"}'


class Listener:
    """A bounded queue of serialised frames; on overflow it keeps one `gap` and nothing else."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue(QUEUE_SIZE)

    def put(self, payload: str) -> None:
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            payload = GAP
        self._queue.put_nowait(payload)

    async def get(self) -> str:
        return await self._queue.get()


class Hub:
    """One subscription for all listeners of this event loop."""

    def __init__(self) -> None:
        self._topics: dict[str, set[Listener]] = defaultdict(set)
        self._waiting: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._task: asyncio.Task[None] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._subscribed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def listening(self, *topics: str) -> AsyncIterator[Listener]:
        """A listener on these topics. It is subscribed before the block runs, so that a read inside misses nothing."""
        listener = Listener()
        for topic in topics:
            self._topics[topic].add(listener)
        try:
            await self._ensure()
            yield listener
        finally:
            for topic in topics:
                self._topics[topic].discard(listener)
                if not self._topics[topic]:
                    del self._topics[topic]

    async def _ensure(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._subscribed.wait(), 1)

    async def _run(self) -> None:
        delay = 0.1
        while True:
            try:
                await self._subscription()
            except (RedisError, OSError) as error:
                log.warning("live hints are away, trying again: %s", error)
            self._subscribed.clear()
            await asyncio.sleep(delay)
            delay = min(delay * 2, 2.0)

    async def _subscription(self) -> None:
        async with redis.Redis.from_url(settings.REDIS_URL, health_check_interval=10) as client:
            async with client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                self._subscribed.set()
                self._tell_everybody(GAP)
                while True:
                    message = await channel.get_message(timeout=5)
                    if message is not None:
                        self._take(message["data"])

    def _take(self, data: bytes) -> None:
        hint = json.loads(data)
        if hint["topic"] in self._topics:
            self._waiting[hint["topic"]].append(hint["frame"])
            if self._flush is None:
                self._flush = asyncio.get_running_loop().call_later(COALESCE_S, self._deliver)

    def _deliver(self) -> None:
        self._flush = None
        waiting, self._waiting = self._waiting, defaultdict(list)
        for topic, frames in waiting.items():
            payloads = [json.dumps(frame) for frame in merged(frames)]
            for listener in self._topics.get(topic, ()):
                for payload in payloads:
                    listener.put(payload)

    def _tell_everybody(self, payload: str) -> None:
        for listener in {one for listeners in self._topics.values() for one in listeners}:
            listener.put(payload)


def merged(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps of one episode become one frame; of several `episode` frames of one episode the last one is news."""
    out: list[dict[str, Any]] = []
    steps: dict[str, dict[str, Any]] = {}
    states: dict[str, int] = {}
    for frame in frames:
        if frame["type"] == "steps" and frame["episode"] in steps:
            steps[frame["episode"]]["steps"] += frame["steps"]
            steps[frame["episode"]]["now"] = frame["now"]
        elif frame["type"] == "episode" and frame["episode"] in states:
            out[states[frame["episode"]]] = frame
        else:
            if frame["type"] == "steps":
                frame = steps[frame["episode"]] = {**frame, "steps": list(frame["steps"])}
            elif frame["type"] == "episode":
                states[frame["episode"]] = len(out)
            out.append(frame)
    return out


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop; a web process has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
