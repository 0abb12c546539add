"""Counts and times of this process, added up over all processes in Valkey, where `/metrics` reads them.

Each process sends what it counted since the last time, every few seconds and in one transaction, so that sums go on
when a process ends. Without Valkey the counts wait here. Called by every app; `start` by the process itself.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)
KEY, PROCESSES, RAN = "awmweb:measures", "awmweb:processes", "awmweb:ran"
SEND_S = 5.0
SILENT_S = 20.0
"""A process that has not reported for so long has ended."""
MOST_SERIES = 500
"""Different labels of one measure that a process keeps apart; further ones are counted as `OTHER`."""
OTHER = "other"
SUM = "sum"
QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SLOW = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 86_400.0)


@dataclass(frozen=True)
class Measure:
    """What is counted, by which labels; with bounds a histogram of seconds."""

    words: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


MEASURES = {
    "awmweb_requests_total": Measure("Requests, by the template of their address.", ("method", "route", "status")),
    "awmweb_request_seconds": Measure("From a request to the end of its response.", ("route",), QUICK),
    "awmweb_ingest_batches_total": Measure("Appends of steps that were stored or refused.", ("result",)),
    "awmweb_ingest_steps_total": Measure("Steps that were stored or repeated."),
    "awmweb_ingest_wait_seconds": Measure("The longest wait of an append for each commit.", (), QUICK),
    "awmweb_hub_lag_seconds": Measure("From a live hint to its frames in the kernel.", (), QUICK),
    "awmweb_hub_gaps_total": Measure("Slow sockets that lost their frames and got a gap."),
    "awmweb_tasks_total": Measure("Tasks of the workers that ended.", ("task", "state")),
    "awmweb_task_seconds": Measure("From the start of a task to its end.", ("task",), QUICK + SLOW[3:]),
    "awmweb_asks_closed_total": Measure("Asks that closed; reason is that of a fallback.", ("status", "reason")),
    "awmweb_ask_wait_seconds": Measure("From an ask to its end.", ("status",), SLOW),
    "awmweb_episodes_ended_total": Measure("Episodes that ended.", ("state", "fault")),
    "awmweb_outcomes_total": Measure("Outcomes, and who found them.", ("reward_type", "source")),
}
"""Every measure; `/metrics`, the dashboard and the documents follow this table."""
LEVELS = {
    "awmweb_sockets_open": "Live sockets of pages and agents.",
    "awmweb_ingest_waiting": "Appends that wait for their commit.",
}
"""What a process has now; processes are added up."""
_levels: dict[str, Callable[[], float]] = {}
_counts: dict[tuple[str, str, tuple[str, ...]], float] = {}
_known: dict[str, set[tuple[str, ...]]] = {}
_ran: dict[str, float] = {}
"""When periodic tasks ended here, since the last report."""
_lock = threading.Lock()
_ending = threading.Event()


def count(name: str, *labels: str, by: float = 1) -> None:
    """Add to a counter."""
    with _lock:
        _add(name, "", labels, by)


def observe(name: str, seconds: float, *labels: str) -> None:
    """Add a duration to a histogram."""
    bucket = str(bisect_left(MEASURES[name].bounds, seconds))
    with _lock:
        _add(name, bucket, labels, 1)
        _add(name, SUM, labels, seconds)


def _add(name: str, part: str, labels: tuple[str, ...], by: float) -> None:
    series = _known.setdefault(name, set())
    if labels not in series:
        if len(series) >= MOST_SERIES:
            labels = (OTHER,) * len(labels)
        series.add(labels)
    key = (name, part, labels)
    _counts[key] = _counts.get(key, 0.0) + by


def note_run(task: str) -> None:
    """Report that a periodic task has ended now."""
    with _lock:
        _ran[task] = time.time()


def watch(name: str, level: Callable[[], float]) -> None:
    """Have a level of this process read each time it reports."""
    assert name in LEVELS, name
    _levels[name] = level


def client(url: str) -> redis.Redis:
    """Return a client that gives up immediately: what could not be sent is sent the next time."""
    return redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))


@functools.cache
def connection() -> redis.Redis:
    return client(settings.REDIS_URL)


def send(process: str) -> bool:
    """Report once; False without Valkey, and the counts are kept for the next time."""
    with _lock:
        due, ran = dict(_counts), dict(_ran)
        _counts.clear()
        _ran.clear()
    me = {"at": time.time(), "process": process, "now": {name: level() for name, level in _levels.items()}}
    together = connection().pipeline(transaction=True)
    for (name, part, labels), by in due.items():
        together.hincrbyfloat(KEY, json.dumps([name, part, *labels]), by)
    if ran:
        together.hset(RAN, mapping={task: str(at) for task, at in ran.items()})
    together.hset(PROCESSES, f"{process} {socket.gethostname()} {os.getpid()}", json.dumps(me))
    try:
        together.execute()
    except (redis.RedisError, OSError) as error:
        log.debug("measures wait for Valkey: %s", error)
        with _lock:
            for key, by in due.items():
                _counts[key] = _counts.get(key, 0.0) + by
            _ran.update(ran | _ran)
        return False
    return True


def start(process: str) -> None:
    """Report every few seconds from now on, from a thread of its own, and a last time at the end of the process."""

    def run() -> None:
        send(process)
        while not _ending.wait(SEND_S):
            send(process)

    def end() -> None:
        _ending.set()
        send(process)

    threading.Thread(target=run, name="measures", daemon=True).start()
    atexit.register(end)
