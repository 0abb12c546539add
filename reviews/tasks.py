"""Celery: fill the queues that have a rule."""

from __future__ import annotations

from celery import shared_task

from reviews.record import rules


@shared_task
def fill_queues() -> None:
    rules.fill_by_rules()
