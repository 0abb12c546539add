"""Celery: the sweep, a second net below what waiting requests settle by themselves, the models' turn, and notices."""

from __future__ import annotations

from celery import shared_task

from episodes import recording
from experts import closing, courier, llm, notices


@shared_task
def sweep() -> None:
    closing.settle_due()
    recording.lose_silent()
    llm.work()


@shared_task
def notify() -> None:
    courier.work()


@shared_task
def forget_notices() -> None:
    notices.forget_old()


@shared_task
def advise() -> None:
    llm.work()
