"""Celery: read the steps that cannot be found yet."""

from __future__ import annotations

from celery import shared_task

from episodes.record import indexing


@shared_task
def index() -> None:
    indexing.work()
