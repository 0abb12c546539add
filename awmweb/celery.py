"""Celery: two queues with separate workers, so that a waiting rollout cannot starve the expert it waits for.

The database is the record of all work; a task only notifies and takes IDs.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging, task_postrun, task_prerun, worker_ready
from django.conf import settings

from awmweb import logs
from people import measures

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
# these checks load every page, which workers do not need; `make check` runs them
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("awmweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def collect_garbage_less(sender: Any, **_: object) -> None:
    """Exclude imported objects from garbage collection, and collect less often.

    A step creates thousands of objects, few of them in cycles.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    measures.start(str(sender.hostname).partition("@")[0])


@beat_init.connect
def report_beat(**_: object) -> None:
    measures.start("beat")


_begun: dict[str, float] = {}
"""When the tasks that run here began, by their IDs."""


@task_prerun.connect
def begin_task(task_id: str, task: Any, args: Sequence[Any], **_: object) -> None:
    _begun[task_id] = time.monotonic()
    logs.enter(task=task.name, **({"episode": str(args[0])} if task.name == "runs.tasks.play" and args else {}))


@task_postrun.connect
def measure_task(task_id: str, task: Any, state: str | None, **_: object) -> None:
    logs.enter()
    measures.count("awmweb_tasks_total", task.name, str(state or "unknown").lower())
    if (began := _begun.pop(task_id, None)) is not None:
        measures.observe("awmweb_task_seconds", time.monotonic() - began, task.name)


def keep_logging(**_: object) -> None:
    """Keep Django's form of log lines, which Celery would replace."""


if settings.AWMWEB_LOG_FORMAT == "json":
    setup_logging.connect(keep_logging)
