"""Celery: build or push an export in a child process, and retry those that no worker handles."""

from __future__ import annotations

from celery import shared_task

from exports.jobs import pushing, requesting, working


@shared_task
def build(export_id: str) -> None:
    working.in_own_process("build_export", export_id)


@shared_task
def push(push_id: str) -> None:
    working.in_own_process("push_export", push_id)


@shared_task
def wake() -> None:
    requesting.wake_forgotten()
    pushing.wake_forgotten()
