"""Celery: load the recorded demo after the start, in a child process, and again if that was killed; each night run the
retention rules; each hour forget answers to calls with a key."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task, shared_task
from celery.signals import worker_ready
from django.db import close_old_connections
from django.utils import timezone

from awmweb.demo import due
from awmweb.partitions import keeping
from awmweb.retention import passes, telling
from people.errors import AWAY
from people.record import jobs, keyed_writes

log = logging.getLogger(__name__)
AGAIN_S, AGAIN_MAX = 10, 5


@shared_task(bind=True, autoretry_for=AWAY, retry_backoff=1, retry_backoff_max=20, max_retries=AGAIN_MAX)
def load_demo(task: Task[..., None], project_id: str) -> None:
    jobs.run_aside("load_demo", project_id)
    close_old_connections()
    if project_id in due.due():
        raise task.retry(countdown=AGAIN_S)


@shared_task
def retain() -> None:
    """Run the rules of all projects. A pass that ends in the middle is continued by the next one."""
    for report in passes.work(passes.with_rules()):
        log.info("%s", " ".join(telling.lines_of(report, done=True)))


@shared_task
def make_partitions() -> None:
    """Make the partitions of the months to come, where steps are partitioned."""
    for month in keeping.ensure(timezone.now()):
        log.info("made the partition of %s", month)


@shared_task
def forget_answers() -> None:
    """Delete the answers of calls with a key after their time."""
    keyed_writes.forget_old()


@worker_ready.connect
def load_what_is_due(sender: Any, **about: Any) -> None:
    """Load a demo that was asked for at this start, or whose loading an earlier start did not live to see."""
    # The worker of rollouts starts, too; one call is enough.
    if str(sender.hostname).startswith("worker"):
        for project_id in due.due():
            jobs.call_worker("awmweb.tasks.load_demo", project_id)
        close_old_connections()
