"""Celery: build or push an export in a child process, and call again for those that no worker handles."""

from __future__ import annotations

from celery import shared_task

from exports.jobs import working
from exports.models import Export, Push
from people import jobs


@shared_task
def build(export_id: str) -> None:
    working.in_own_process("build_export", export_id)


@shared_task
def push(push_id: str) -> None:
    working.in_own_process("push_export", push_id)


@shared_task
def wake() -> None:
    jobs.wake_forgotten(Export, Push)
