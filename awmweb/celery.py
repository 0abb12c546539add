"""Celery: two queues with separate workers, so that a waiting rollout cannot starve the expert it waits for.

The database is the record of all work; a task only notifies and takes IDs.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from celery import Celery, current_task
from celery.exceptions import CPendingDeprecationWarning
from celery.signals import (
    beat_init,
    before_task_publish,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_ready,
)
from django.conf import settings

from awmenv import spans
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


@worker_ready.connect
def keep_quiet_of_a_choice(**_: object) -> None:
    """Drop a warning at each loss of Valkey about a setting that `settings.py` sets. Celery shows it whatever is set
    but the opposite, and turns it on after this module is imported."""
    warnings.filterwarnings("ignore", r"\s*In Celery 5\.1 we introduced", CPendingDeprecationWarning)


@beat_init.connect
def report_beat(**_: object) -> None:
    measures.start("beat")


PLAY = "runs.tasks.play"
OF_EPISODE = {PLAY, "runs.tasks.judge", "runs.tasks.certify"}
"""Tasks that have the ID of an episode."""
AFTER = "traceafter"
"""The header of a call whose task has a trace of its own, which begins after the span that it names."""
BY_BEAT = {str(entry["task"]) for entry in settings.CELERY_BEAT_SCHEDULE.values()}
"""Tasks without spans: hundreds an hour, nearly all of which find nothing to do. What they call has traces."""
_begun: dict[str, float] = {}
"""When the tasks that run here began, by their IDs."""
_spans: dict[str, AbstractContextManager[None]] = {}
"""Their spans."""


@task_prerun.connect
def begin_task(task_id: str, task: Any, args: Sequence[Any], **_: object) -> None:
    _begun[task_id] = time.monotonic()
    about: dict[str, Any] = {"episode": str(args[0])} if task.name in OF_EPISODE and args else {}
    if spans.are_on() and task.name not in BY_BEAT:
        carried = {name: str(task.request.get(name) or "") for name in (AFTER, spans.HEADER)}
        made = spans.span(
            f"task {task.name}",
            spans.CONSUMER,
            carried=carried[spans.HEADER],
            after=carried[AFTER],
            task=task.name,
            **about,
        )
        made.__enter__()
        _spans[task_id] = made
    logs.enter(task=task.name, **about)


@task_postrun.connect
def measure_task(task_id: str, task: Any, state: str | None, **_: object) -> None:
    logs.enter()
    measures.count("awmweb_tasks_total", task.name, str(state or "unknown").lower())
    if task.name in BY_BEAT:
        measures.note_run(task.name)
    if (began := _begun.pop(task_id, None)) is not None:
        measures.observe("awmweb_task_seconds", time.monotonic() - began, task.name)
    if (made := _spans.pop(task_id, None)) is not None:
        spans.note(state=str(state or "unknown").lower(), failed=state == "FAILURE")
        made.__exit__(None, None, None)


def carry_trace(sender: str, headers: dict[str, Any], **_: object) -> None:
    """Name the span of a call in its headers. An episode that another one calls for begins a trace of its own: a run of
    thousands would be one."""
    if carried := spans.carried():
        is_next = sender == PLAY and bool(current_task) and current_task.name == PLAY
        is_again = is_next and current_task.request.id == headers.get("id")
        headers[AFTER if is_next and not is_again else spans.HEADER] = carried


@worker_init.connect
def start_spans(sender: Any, **_: object) -> None:
    if settings.AWMWEB_TRACES_TO:
        spans.start(str(sender.hostname).partition("@")[0], settings.VERSION, settings.AWMWEB_TRACES_TO)


if settings.AWMWEB_TRACES_TO:
    before_task_publish.connect(carry_trace)


def keep_logging(**_: object) -> None:
    """Keep Django's form of log lines, which Celery would replace."""


if settings.AWMWEB_LOG_FORMAT == "json":
    setup_logging.connect(keep_logging)
