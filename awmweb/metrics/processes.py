"""Reads what processes counted: from Valkey, where `people.measures` adds it up, and from the environment servers."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import redis
from django.conf import settings

from awmweb import beat
from awmweb.metrics.stored import Figure, Histogram, Series
from people.measures import KEY, LEVELS, MEASURES, PROCESSES, SILENT_S, SUM, client, connection
from runs.plan.servers import object_of
from runs.play.environment import addresses

NAMES = ("web", "worker", "rollouts", "beat")
QUEUES = ("default", "rollouts")
PATIENCE_S = 2.0
COUNTED = {
    "resets": "Sessions that were begun.",
    "calls": "Tool calls of agents.",
    "verifications": "Verifiers that were run.",
}


def read() -> list[Figure | Histogram]:
    """Return the figures of all processes; without Valkey or the environment servers those of the others."""
    return [*_of_valkey(), *_of_environment()]


def _of_valkey() -> list[Figure | Histogram]:
    try:
        counts: Any = connection().hgetall(KEY)
        reports: Any = connection().hgetall(PROCESSES)
        with client(_broker_url()) as broker:
            lengths: Any = [broker.llen(name) for name in QUEUES]
        late: Series = {(task,): seconds for task, seconds in beat.overdue().items()}
    except (redis.RedisError, OSError):
        return [_up("awmweb_valkey_up", "Whether Valkey responds.", False)]
    queued: Series = {(name,): float(length) for name, length in zip(QUEUES, lengths, strict=True)}
    return [
        _up("awmweb_valkey_up", "Whether Valkey responds.", True),
        Figure("awmweb_tasks_queued", "Tasks that no worker has taken.", ("queue",), queued),
        Figure("awmweb_task_overdue_seconds", "For how long each periodic task is due.", ("task",), late),
        *_levels({name: json.loads(said) for name, said in reports.items()}),
        *_counted(counts),
    ]


def _broker_url() -> str:
    """Return the address of Celery's broker, whose socket Celery writes in a way of its own."""
    return settings.BROKER_URL.replace("redis+socket://", "unix://").replace("virtual_host=", "db=")


def _levels(reports: dict[str, Any]) -> list[Figure]:
    now = time.time()
    # also one from the future, which a wrong clock has left
    if ended := [name for name, one in reports.items() if abs(now - one["at"]) >= SILENT_S]:
        connection().hdel(PROCESSES, *ended)
    here = [one for name, one in reports.items() if name not in ended]
    running: Series = {(name,): float(sum(one["process"] == name for one in here)) for name in NAMES}
    levels = [
        Figure(name, words, (), {(): float(sum(one["now"].get(name, 0) for one in here))})
        for name, words in LEVELS.items()
    ]
    return [Figure("awmweb_processes", "Processes that report.", ("process",), running), *levels]


def _counted(counts: dict[bytes, bytes]) -> list[Figure | Histogram]:
    """Return the measures that this version knows; an earlier one may have left others."""
    by_measure: dict[str, dict[tuple[str, ...], dict[str, float]]] = {name: defaultdict(dict) for name in MEASURES}
    for field, value in counts.items():
        name, part, *labels = json.loads(field)
        if name in MEASURES and len(labels) == len(MEASURES[name].labels):
            by_measure[name][tuple(labels)][part] = float(value)
    return [_figure(name, series) for name, series in by_measure.items()]


def _figure(name: str, series: dict[tuple[str, ...], dict[str, float]]) -> Figure | Histogram:
    about = MEASURES[name]
    if not about.bounds:
        counted: Series = {labels: parts.get("", 0.0) for labels, parts in series.items()}
        if not about.labels:
            counted.setdefault((), 0.0)  # from the start, or the first increase would be missed
        return Figure(name, about.words, about.labels, counted, is_counter=True)
    places = range(len(about.bounds) + 1)
    filled: dict[tuple[str, ...], tuple[list[float], float]] = {
        labels: ([parts.get(str(place), 0.0) for place in places], parts.get(SUM, 0.0))
        for labels, parts in series.items()
    }
    return Histogram(name, about.words, about.labels, about.bounds, filled)


def _of_environment() -> list[Figure | Histogram]:
    where = addresses()
    with ThreadPoolExecutor(len(where)) as threads:
        stats = [said for said in threads.map(_said_by, where) if said is not None]
    up = Figure("awmweb_environment_up", "Environment servers that respond.", (), {(): float(len(stats))})
    if not stats:
        return [up]
    return [
        up,
        _now("awmweb_sessions_open", "Worlds on the environment servers.", _sum(stats, "sessions")),
        _now("awmweb_sessions_most", "The most that they take.", _sum(stats, "max_sessions")),
        *(
            Figure(f"awmweb_environment_{key}_total", text, (), {(): _sum(stats, key)}, is_counter=True)
            for key, text in COUNTED.items()
        ),
        *_verify(_summed([said.get("verify_seconds") for said in stats])),
    ]


def _said_by(address: str) -> dict[str, Any] | None:
    try:
        with httpx.Client(base_url=address, timeout=PATIENCE_S, trust_env=False) as client:
            return object_of(client.get("/stats"))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None


def _sum(stats: list[dict[str, Any]], name: str) -> float:
    return sum(_number(said.get(name)) for said in stats)


def _summed(times: list[Any]) -> Any:
    """Return the times of verifiers of all servers together; servers of one version have the same bounds."""
    first = times[0]
    if len(times) == 1 or not all(isinstance(one, dict) for one in times):
        return first
    alike = [one for one in times if one.get("bounds") == first.get("bounds")]
    counts = [[_number(count) for count in one.get("counts") or []] for one in alike]
    return {
        "bounds": first.get("bounds"),
        "counts": [sum(column) for column in zip(*counts, strict=False)],
        "sum": sum(_number(one.get("sum")) for one in alike),
    }


def _verify(report: Any) -> list[Histogram]:
    """Return the times of verifiers; a server of others may not report them."""
    if not isinstance(report, dict) or not isinstance(report.get("bounds"), list):
        return []
    bounds, counts = [tuple(map(_number, part)) for part in (report["bounds"], report.get("counts") or [])]
    if len(counts) != len(bounds) + 1:
        return []
    words = "From a verifier's start to its result."
    series: Mapping[tuple[str, ...], tuple[list[float], float]] = {(): (list(counts), _number(report.get("sum")))}
    return [Histogram("awmweb_verify_seconds", words, (), bounds, series)]


def _up(name: str, words: str, holds: bool) -> Figure:
    return Figure(name, words, (), {(): float(holds)})


def _now(name: str, words: str, value: Any) -> Figure:
    return Figure(name, words, (), {(): _number(value)})


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
