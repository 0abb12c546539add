"""Celery: the sweep, a second net below what waiting requests settle by themselves."""

from __future__ import annotations

from celery import shared_task

from episodes import recording
from experts import queue


@shared_task
def sweep() -> None:
    queue.settle_due()
    recording.lose_silent()
