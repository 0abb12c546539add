"""Celery: read a file in a child process, retry files that no worker reads, and make episodes of traces.

A file is untrusted and parsed in a process of its own: parsing can take much memory, and the worker's threads answer
asks.
"""

from __future__ import annotations

from celery import shared_task

from imports.models import Import
from imports.record import collecting, importing
from people.record import jobs
from people.sweeping import run_each

READ_S = 1800


@shared_task
def read(import_id: str) -> None:
    """Read a file, unless others are read now: its row waits, and the end of another reading calls again."""
    if jobs.has_room(Import, import_id):
        jobs.run_aside("read_import", import_id, READ_S)
        jobs.call_next(Import)


@shared_task
def settle() -> None:
    collecting.settle()


@shared_task
def wake() -> None:
    run_each(lambda: jobs.wake_forgotten(Import), importing.sweep_files)
