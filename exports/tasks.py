"""Celery: build or push an export in a child process, and call again for those that no worker handles.

A build keeps a core busy for minutes and must not share a process with threads that answer asks.
"""

from __future__ import annotations

from celery import shared_task

from exports.models import Export, Push
from people import jobs


@shared_task
def build(export_id: str) -> None:
    jobs.run_aside("build_export", export_id)


@shared_task
def push(push_id: str) -> None:
    jobs.run_aside("push_export", push_id)


@shared_task
def wake() -> None:
    jobs.wake_forgotten(Export, Push)
