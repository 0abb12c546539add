"""Celery: index steps that are not searchable yet."""

from __future__ import annotations

from celery import shared_task

from episodes.record import indexing


@shared_task
def index() -> None:
    indexing.work()
