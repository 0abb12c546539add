"""Celery: play one episode, and call again for the forgotten ones. A task takes ids and may run twice."""

from __future__ import annotations

from celery import shared_task

from curriculum import launching, playing


@shared_task
def play(episode_id: str) -> None:
    playing.play(episode_id)


@shared_task
def wake() -> None:
    launching.wake_forgotten()
