"""Live hints: their topics, the fields of their frames, and the only publisher.

Owns the fields of every frame and the format of a hint: one line each, `topic kind key payload`, so that a web process
forwards a payload without reading it. A hint leaves after the commit; losing all of them costs a delay and no data.
Called by the write modules; received by `hub.py` in each web process and by waiting loops in awmweb's workers.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

log = logging.getLogger(__name__)
CHANNEL = "awmweb:hints"
EVERYBODY = "*"
STEPS, LAST, EACH, GAP = "steps", "last", "each", "gap"
"""Kinds of a hint: steps of an episode are joined to one frame; of several with one key the last is news; each one
counts; something was lost."""
STANDS = {"episode": "episode", "lease": "ask"}
"""Frames of which the last counts, and what each is about."""
MESSAGE_BYTES = FRAME_BYTES = 512 * 1024
WAITING_BYTES = 8 * 1024 * 1024
LOST_TOPICS = 10_000
GATHER_S = 0.01
"""Half the time between two frames of a socket (`hub.py`): after a message, what comes meanwhile goes with the next."""
STRIP_TOLD = 200
Frame = dict[str, Any]


def episode_topic(episode_id: str) -> str:
    """Return what everybody in the project may hear, agents included."""
    return f"episode:{episode_id}"


def people_topic(episode_id: str) -> str:
    """Return what an agent never hears: verification."""
    return f"episode:{episode_id}:people"


def queue_topic(project_id: str) -> str:
    return f"queue:{project_id}"


@functools.cache
def connection() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


def publish(topic: str, frame: Frame) -> None:
    """Tell after the commit. The frame goes through JSON at once, so that a bad one fails where it was made."""
    about = STANDS.get(frame["type"])
    kind, key = (LAST, frame[about]) if about else (EACH, "-")
    line = hint(topic, kind, key, json.dumps({**frame, "now": stamp(timezone.now())}))
    transaction.on_commit(functools.partial(tell, [line]))


def publish_steps(topic: str, episode_id: str, told: Sequence[str]) -> None:
    """Publish steps as JSON text, after the commit."""
    transaction.on_commit(functools.partial(tell, step_hints(topic, episode_id, told)))


def step_hints(topic: str, episode_id: str, told: Sequence[str]) -> list[str]:
    return [hint(topic, STEPS, episode_id, ",".join(part)) for part in parted(told)]


def parted(told: Sequence[str]) -> Iterator[list[str]]:
    """Split steps into portions of a frame each: readers of sockets give up on frames above a megabyte."""
    part: list[str] = []
    size = 0
    for text in told:
        if part and size + len(text) > FRAME_BYTES:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def hint(topic: str, kind: str, key: str, payload: str) -> str:
    """Return one line; JSON in ASCII has no line break."""
    return f"{topic} {kind} {key} {payload}\n"


def stamp(moment: Any) -> str:
    return str(moment.isoformat().replace("+00:00", "Z"))


def steps_frame(episode_id: str, told: Iterable[str]) -> str:
    """Return the frame of steps that are JSON text already."""
    return (
        f'{{"type":"steps","episode":{json.dumps(episode_id)},"steps":[{",".join(told)}],'
        f'"now":"{stamp(timezone.now())}"}}'
    )


def episode_frame(
    episode_id: str, state: str, last_seq: int, stop_reason: str, fault: str, strip: str, last_action: str | None
) -> Frame:
    """Return where an episode stands. Of a long strip the end is told; it ends at `last_seq`."""
    return {
        "type": "episode",
        "episode": episode_id,
        "state": state,
        "last_seq": last_seq,
        "stop_reason": stop_reason or None,
        "fault": fault or None,
        "strip": strip[-STRIP_TOLD:],
        "last_action": last_action,
    }


def episode_line(now: str, *stands: Any) -> str:
    """Return the same as text."""
    return json.dumps({**episode_frame(*stands), "now": now})


class Teller:
    """Sends hints from its own thread, so that no write waits for Valkey.

    Waiting hints are joined to one message; the first after a pause leaves at once. While Valkey is unavailable hints
    are dropped and their topics remembered; then each of them gets a `gap`, and readers fetch what they missed.
    """

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._lost: set[str] = set()
        self._news = threading.Condition()
        self._idle = True
        self._process = 0

    def tell(self, lines: Iterable[str]) -> None:
        with self._news:
            for line in lines:
                self._take(line)
            self._idle = False
            self._start()
            self._news.notify()

    def flush(self, seconds: float = 1.0) -> None:
        """Wait until everything is sent, for a process that is about to end."""
        with self._news:
            self._news.wait_for(lambda: self._idle or self._process != os.getpid(), seconds)

    def _take(self, line: str) -> None:
        if self._bytes + len(line) > WAITING_BYTES:
            self._lose([line])
        else:
            self._waiting.append(line)
            self._bytes += len(line)

    def _lose(self, lines: Iterable[str]) -> None:
        self._lost.update(line.partition(" ")[0] for line in lines)
        if len(self._lost) > LOST_TOPICS:
            self._lost = {EVERYBODY}

    def _start(self) -> None:
        """Start a thread of this very process; a fork leaves its parent's behind."""
        if self._process != os.getpid():
            self._process = os.getpid()
            threading.Thread(target=self._run, name="hints", daemon=True).start()

    def _run(self) -> None:
        pause = 0.1
        while True:
            batch = self._next()
            try:
                connection().publish(CHANNEL, "".join(batch))
                pause = 0.1
                time.sleep(GATHER_S)
            except redis.RedisError as error:
                log.warning("live hints were lost, readers catch up by themselves: %s", error)
                with self._news:
                    self._lose(batch)
                threading.Event().wait(pause)
                pause = min(pause * 2, 1.0)

    def _next(self) -> list[str]:
        with self._news:
            if not (self._waiting or self._lost):
                self._idle = True
                self._news.notify_all()
                self._news.wait_for(lambda: self._waiting or self._lost)
            batch = [hint(topic, GAP, "-", "") for topic in self._lost]
            self._lost = set()
            size = 0
            while self._waiting and size < MESSAGE_BYTES:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            self._bytes -= size
            return batch


_teller = Teller()
atexit.register(_teller.flush)


def tell(lines: Iterable[str]) -> None:
    """Send hints whose facts are committed."""
    _teller.tell(lines)
