"""Celery: send due notifications; remove old log rows and counters."""

from __future__ import annotations

from celery import shared_task

from notices import sending
from notices.record import allowances, channels, deliveries, slack
from people.sweeping import run_each


@shared_task
def send() -> None:
    sending.work()


@shared_task
def redraw(kind: str, subject_id: str) -> None:
    run_each(lambda: slack.redraw(kind, subject_id), lambda: channels.draw(kind, subject_id))


@shared_task
def redraw_missed() -> None:
    run_each(slack.redraw_missed, channels.draw_missed)


@shared_task
def forget() -> None:
    run_each(deliveries.forget_old, channels.forget_old, allowances.forget_old)
