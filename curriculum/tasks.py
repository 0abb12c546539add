"""Celery: play one episode, and call again for the forgotten ones. A task takes ids and may run twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery import Task, shared_task
from celery.signals import worker_ready
from django.db import Error as DatabaseError
from django.db import close_old_connections

from curriculum import launching, playing
from episodes import recording

ROLLOUTS = "rollouts"


# a database that is away when an episode is taken up must not cost the call: it is made again a little later
@shared_task(bind=True, autoretry_for=(DatabaseError,), retry_backoff=1, retry_backoff_max=20, max_retries=20)
def play(task: Task[..., None], episode_id: str) -> None:
    playing.play(episode_id, task.request.hostname or "")


@shared_task
def wake() -> None:
    launching.wake_forgotten()


@worker_ready.connect
def take_over(sender: Any, **about: Any) -> None:
    """A rollouts worker comes back after a crash: what its predecessor was playing is lost, what was queued is not."""
    if str(sender.hostname).startswith(ROLLOUTS):
        lost = recording.lose_of_worker(sender.hostname)
        recording.note_lost_verdicts(sender.hostname)
        launching.wake_forgotten(*[timedelta(0)] if lost else [])
        close_old_connections()
