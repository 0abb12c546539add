"""Beat's schedule, which a wrong clock cannot stop, and when each periodic task ran last.

Celery keeps in a file when it sent each task, so that nights on which the product was off are made up for. After a
clock that was ahead it would send nothing until that day. Called by Celery (`CELERY_BEAT_SCHEDULER`), `awmweb.views`
and `awmweb.metrics`.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from celery.beat import PersistentScheduler
from celery.schedules import maybe_schedule
from django.conf import settings

from people import measures

log = logging.getLogger(__name__)
AHEAD = timedelta(minutes=1)
"""A time that is further ahead comes from a clock that was wrong."""
STARTED_AT = time.time()


class Scheduler(PersistentScheduler):
    """Drops times from the future, at the start and when the clock is set back, and waits for space on its disk."""

    def setup_schedule(self) -> None:
        super().setup_schedule()
        self._drop_future()

    def tick(self, *args: Any, **kwargs: Any) -> float:
        self._drop_future()
        return float(super().tick(*args, **kwargs))

    def sync(self) -> None:
        try:
            super().sync()
        except OSError as error:  # the schedule in memory goes on, and the file follows with the next sync
            log.warning("the schedule was not saved: %s", error)

    def _drop_future(self) -> None:
        ahead = [
            scheduled
            for scheduled in self.schedule.values()
            if scheduled.last_run_at and scheduled.last_run_at - scheduled.default_now() > AHEAD
        ]
        if ahead:
            log.warning("the clock was ahead: %d tasks were sent in the future, and start over", len(ahead))
            self._heap = None  # it is sorted by times of the wrong clock
        for entry in ahead:
            entry.last_run_at = entry.default_now()


def last_runs() -> dict[str, datetime | None]:
    """Return when each periodic task ended last, as its worker reported. Raises `RedisError` without Valkey."""
    reports: Any = measures.connection().hgetall(measures.RAN)
    ran = {task.decode(): datetime.fromtimestamp(float(at), UTC) for task, at in reports.items()}
    latest = datetime.now(UTC) + AHEAD
    return {task: at if (at := ran.get(task)) and at <= latest else None for task in _schedules()}


def seconds_since() -> dict[str, int | None] | None:
    """Return the seconds since each periodic task ran, None for one that did not; None without Valkey."""
    try:
        ran = last_runs()
    except (redis.RedisError, OSError):
        return None
    now = datetime.now(UTC)
    return {task: max(0, round((now - at).total_seconds())) if at else None for task, at in ran.items()}


def overdue() -> dict[str, float]:
    """Return the seconds for which each periodic task is due. One that never ran is due since this process started."""
    began = datetime.fromtimestamp(STARTED_AT, UTC)
    schedules = _schedules()
    late = {task: -schedules[task].remaining_estimate(at or began).total_seconds() for task, at in last_runs().items()}
    return {task: max(0.0, seconds) for task, seconds in late.items()}


def _schedules() -> dict[str, Any]:
    entries: list[dict[str, Any]] = list(settings.CELERY_BEAT_SCHEDULE.values())
    return {entry["task"]: maybe_schedule(entry["schedule"]) for entry in entries}
