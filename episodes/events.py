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
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

log = logging.getLogger(__name__)
CHANNEL = "awmweb:hints"
ALL_TOPICS = "*"
STEPS, LAST, EACH, GAP, WAKE = "steps", "last", "each", "gap", "wake"
"""Kinds of a hint: steps of an episode, joined to one frame; only the last per key counts; each one counts; some were
lost; a call waits for it, so nothing delays it."""
KEYS = {"episode": "episode", "lease": "ask"}
"""Frames of which only the last per key counts, and the field with the key."""
# half of the megabyte above which readers of sockets close on a frame
MESSAGE_BYTES = FRAME_BYTES = 512 * 1024
# what waits for Valkey in one process; beyond it hints are dropped, and only their topics are kept
WAITING_BYTES = 8 * 1024 * 1024
# beyond this all topics count as lost, so that the set cannot grow while Valkey is unavailable
LOST_TOPICS = 10_000
GATHER_S = 0.01
"""Half the time between two frames of a socket (`hub.py`): hints after a message are gathered for the next one.
`WAKE` ends this time."""
# letters of a strip in one frame, so that frames do not grow with the episode
STRIP_SENT = 200
BEAT_S = 5
"""How often a page that asks for it (`beat=1`) hears that its socket is alive."""
SILENT_S, DEAF_S = 6, 12
"""After how long without a frame a page replaces its socket: if a request failed, too, and in any case. Two beats, and
some time on the way."""
Frame = dict[str, Any]


def episode_topic(episode_id: str) -> str:
    """Return the topic that all of the project can read, agents included."""
    return f"episode:{episode_id}"


def people_topic(episode_id: str) -> str:
    """Return the topic that agents cannot read: verification."""
    return f"episode:{episode_id}:people"


def queue_topic(project_id: str) -> str:
    return f"queue:{project_id}"


@functools.cache
def connection() -> redis.Redis:
    # short timeouts: while the sender's thread waits, every hint of the process waits
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


def publish(topic: str, frame: Frame, kind: str = EACH) -> None:
    """Send after the commit. The frame is serialized immediately, so that an invalid one raises in its caller."""
    about = KEYS.get(frame["type"])
    kind, key = (LAST, frame[about]) if about else (kind, "-")
    line = hint(topic, kind, key, json.dumps({**frame, "now": stamp(timezone.now())}))
    transaction.on_commit(functools.partial(tell, [line]))


def publish_steps(topic: str, episode_id: str, steps: Sequence[str]) -> None:
    """Publish steps as JSON text, after the commit."""
    transaction.on_commit(functools.partial(tell, step_hints(topic, episode_id, steps)))


def step_hints(topic: str, episode_id: str, steps: Sequence[str]) -> list[str]:
    return [hint(topic, STEPS, episode_id, ",".join(part)) for part in parted(steps)]


def parted(steps: Sequence[str]) -> Iterator[list[str]]:
    """Split steps into frames: readers of sockets close on frames above a megabyte."""
    part: list[str] = []
    size = 0
    for text in steps:
        # `part and`: a step above the limit still leaves, in a frame of its own
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


def steps_frame(episode_id: str, steps: Iterable[str]) -> str:
    """Return the frame of steps that are already JSON text."""
    # the steps are JSON text already, and are joined unread
    return (
        f'{{"type":"steps","episode":{json.dumps(episode_id)},"steps":[{",".join(steps)}],'
        f'"now":"{stamp(timezone.now())}"}}'
    )


def episode_frame(
    episode_id: str, state: str, last_seq: int, stop_reason: str, fault: str, strip: str, last_action: str | None
) -> Frame:
    """Return the state of an episode. Only the end of a long strip is sent; it ends at `last_seq`."""
    return {
        "type": "episode",
        "episode": episode_id,
        "state": state,
        "last_seq": last_seq,
        "stop_reason": stop_reason or None,
        "fault": fault or None,
        "strip": strip[-STRIP_SENT:],
        "last_action": last_action,
    }


def episode_line(now: str, *fields: Any) -> str:
    """Return the same as text."""
    return json.dumps({**episode_frame(*fields), "now": now})


class Teller:
    """A sender of hints with its own thread, so that no write waits for Valkey.

    Waiting hints are joined to one message; the first after a pause is sent immediately. While Valkey is unavailable
    hints are dropped and their topics stored. Later each of these gets a `gap`, and readers fetch the missed steps.

    """

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._lost: set[str] = set()
        self._news = threading.Condition()
        self._idle = True
        self._wakes = False
        self._process = 0

    def tell(self, lines: Iterable[str]) -> None:
        with self._news:
            for line in lines:
                self._take(line)
            self._idle = False
            self._start()
            self._news.notify()

    def flush(self, seconds: float = 1.0) -> None:
        """Wait until everything is sent, for a process that is about to exit."""
        with self._news:
            # after a fork the child has no sender thread yet, so there is nothing to wait for
            self._news.wait_for(lambda: self._idle or self._process != os.getpid(), seconds)

    def _take(self, line: str) -> None:
        # a full queue never makes a write wait: the line is dropped, and its topic gets a `gap` later
        if self._bytes + len(line) > WAITING_BYTES:
            self._lose([line])
        else:
            self._waiting.append(line)
            self._bytes += len(line)
            self._wakes = self._wakes or line.split(" ", 2)[1] == WAKE

    def _lose(self, lines: Iterable[str]) -> None:
        self._lost.update(line.partition(" ")[0] for line in lines)
        # one `gap` for everyone costs more reads, but needs no list
        if len(self._lost) > LOST_TOPICS:
            self._lost = {ALL_TOPICS}

    def _start(self) -> None:
        """Start a thread of this process; a fork does not inherit its parent's."""
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
                with self._news:
                    # what is written during this pause leaves as one message
                    self._news.wait_for(lambda: self._wakes, GATHER_S)
            except redis.RedisError as error:
                log.warning("live hints were lost, readers catch up by themselves: %s", error)
                with self._news:
                    self._lose(batch)
                threading.Event().wait(pause)
                # at most a second, so that readers get their `gap` soon after Valkey is back
                pause = min(pause * 2, 1.0)

    def _next(self) -> list[str]:
        with self._news:
            if not (self._waiting or self._lost):
                # lets `flush` return at the exit of a process
                self._idle = True
                self._news.notify_all()
                self._news.wait_for(lambda: self._waiting or self._lost)
            # before newer hints, so that a reader catches up first
            batch = [hint(topic, GAP, "-", "") for topic in self._lost]
            self._lost = set()
            self._wakes = False
            size = 0
            while self._waiting and size < MESSAGE_BYTES:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            self._bytes -= size
            return batch


_teller = Teller()
# the sender is a daemon thread: a short command would exit before its last hints left
atexit.register(_teller.flush)


def tell(lines: Iterable[str]) -> None:
    """Send hints whose facts are committed."""
    _teller.tell(lines)
