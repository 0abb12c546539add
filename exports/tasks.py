"""Celery: build or push an export in a child process, and call again for those that no worker handles.

A build keeps a core busy for minutes and must not share a process with threads that answer asks.
"""

from __future__ import annotations

from celery import shared_task

from exports.jobs import requesting
from exports.models import Export, Push
from people import jobs


@shared_task
def build(export_id: str) -> None:
    """Build an export, unless others are built now: its row waits, and the end of another build calls again."""
    if not requesting.has_room(export_id):
        return
    jobs.run_heard(Export, "build_export", export_id, progress=("episodes_done", "rows", "state"), failed="failed")
    if (following := requesting.next_one()) is not None:
        jobs.call_worker(Export.TASK, following)


@shared_task
def push(push_id: str) -> None:
    jobs.run_aside("push_export", push_id)


@shared_task
def wake() -> None:
    jobs.wake_forgotten(Export, Push)
