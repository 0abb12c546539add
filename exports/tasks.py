"""Celery: build an export in a child process, and call again for those that nobody works at."""

from __future__ import annotations

from celery import shared_task

from exports import requesting, working


@shared_task
def build(export_id: str) -> None:
    working.in_own_process(export_id)


@shared_task
def wake() -> None:
    requesting.wake_forgotten()
