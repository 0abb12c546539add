"""Celery: build or push an export in a child process, and call again for those that no worker handles.

A build keeps a core busy for minutes and must not share a process with threads that answer asks.
"""

from __future__ import annotations

from celery import shared_task

from exports.jobs import removing
from exports.models import Export, Push
from people.record import jobs
from people.sweeping import run_each

WATCHED = ("episodes_done", "rows", "files_done", "state")
"""Columns of which one moves while a build goes on."""


@shared_task
def build(export_id: str) -> None:
    """Build an export, unless others are built now: its row waits, and the end of another build calls again."""
    if jobs.has_room(Export, export_id):
        jobs.run_heard(Export, "build_export", export_id, progress=WATCHED, failed="failed")
        jobs.call_next(Export)


@shared_task
def push(push_id: str) -> None:
    """Push an export, unless others are pushed now; its row waits likewise."""
    if jobs.has_room(Push, push_id):
        jobs.run_aside("push_export", push_id, Push.MOST_S)
        jobs.call_next(Push)


@shared_task
def wake() -> None:
    run_each(lambda: jobs.wake_forgotten(Export, Push), removing.sweep)
