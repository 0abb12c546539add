"""Celery: the sweep, which closes what no waiting request has closed, and the run of the expert models."""

from __future__ import annotations

from celery import shared_task

from episodes.record import ending
from experts import llm, slack_answers
from experts.record import closing, queue
from people.sweeping import run_each


@shared_task
def sweep() -> None:
    run_each(closing.close_due, queue.find_more_people, ending.lose_silent, llm.work)


@shared_task
def deliver_held(ask: str) -> None:
    closing.close_if_due(ask)


@shared_task
def advise() -> None:
    llm.work()


@shared_task
def send_from_slack(delivery: str, slack_user: str, nonce: str, version: str) -> None:
    slack_answers.send_looked_at(delivery, slack_user, nonce, version)
