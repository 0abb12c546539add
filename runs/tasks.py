"""Celery: run one episode, call again for forgotten ones, withdraw gates, store the rewards of ended runs. A task takes
IDs and can run twice."""

from __future__ import annotations

import functools
import logging
import time
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from celery import Task, shared_task
from celery.signals import worker_ready
from django.db import close_old_connections

from episodes.models import Episode
from episodes.record import ending, rejudging
from episodes.stored import settled
from people.errors import AWAY
from people.sweeping import run_each
from runs.errors import NoServer
from runs.launch import feeding, launching, outages, paying, slots, withdrawing
from runs.play import campaigning, certifying, parking, person, playing, reverifying

log = logging.getLogger(__name__)
ROLLOUTS = "rollouts"
AWAY_S = 2.0
"""Between two looks for a database that is unavailable when a worker starts."""
UNPAID, PAID_S = 20, 15
"""The number of runs per sweep of payments, and its period."""


# if the database is unavailable when an episode starts, the call must not be lost: celery retries it a little later
@shared_task(bind=True, autoretry_for=AWAY, retry_backoff=1, retry_backoff_max=20, max_retries=20)
def play(task: Task[..., None], episode_id: str) -> None:
    playing.play(episode_id, task.request.hostname or "")


@shared_task(bind=True, autoretry_for=AWAY, retry_backoff=1, retry_backoff_max=20, max_retries=20)
def judge(_task: Task[..., None], episode_id: str) -> None:
    playing.judge(episode_id)


@shared_task(bind=True, autoretry_for=(*AWAY, NoServer), retry_backoff=1, retry_backoff_max=20, max_retries=5)
def certify(_task: Task[..., None], episode_id: str) -> None:
    # a thread of the worker can hold a connection that was lost since its last task
    close_old_connections()
    async_to_sync(certifying.certify_episode)(Episode.every.get(pk=episode_id))


@shared_task(bind=True, autoretry_for=(*AWAY, NoServer), retry_backoff=1, retry_backoff_max=20, max_retries=5)
def reverify(_task: Task[..., None], rejudging_id: str) -> None:
    close_old_connections()
    try:
        reverifying.judge_all(rejudging_id)
    except (*AWAY, NoServer):
        raise
    except Exception as error:
        # a pass that stays live would bar every other repair of its task
        rejudging.give_up(rejudging_id, f"{type(error).__name__}: {error}")
        raise


@shared_task(bind=True, autoretry_for=(*AWAY, NoServer), retry_backoff=1, retry_backoff_max=20, max_retries=5)
def campaign(_task: Task[..., None], campaign_id: str) -> None:
    close_old_connections()
    campaigning.work(campaign_id)


@shared_task
def wake() -> None:
    run_each(
        person.give_up_forgotten,
        launching.wake_forgotten,
        reverifying.wake_forgotten,
        campaigning.wake_forgotten,
        feeding.feed_all,
        # last, as a look waits for its answer
        outages.look_again,
        slots.look_again,
    )


@shared_task
def withdraw() -> None:
    run_each(*(functools.partial(withdrawing.withdraw_if_worse, run_id) for run_id in withdrawing.gated()))


@shared_task
def pay(run_id: str) -> None:
    paying.pay(run_id)


@shared_task
def pay_ended() -> None:
    for run_id in paying.unpaid().values_list("pk", flat=True)[:UNPAID]:
        # the next sweep calls again, so a call that waited this long has no use
        pay.apply_async((run_id,), expires=PAID_S)


@worker_ready.connect
def take_over(sender: Any, **about: Any) -> None:
    """Take over after a crash of a rollouts worker: continue its episodes from their records, and fetch outcomes that
    it had not fetched yet."""
    if str(sender.hostname).startswith(ROLLOUTS):
        from celery.worker import state  # not for web, which imports this module, too

        parking.threads.all = sender.controller.concurrency
        while not _took_over(sender.hostname):
            time.sleep(AWAY_S)
            state.maybe_shutdown()


def _took_over(worker: str) -> bool:
    """Take over, or return False without a database. The worker has no call yet: later, episodes that it runs itself
    would look like those that it lost."""
    try:
        lost = ending.lose_of_worker(worker)
        for episode_id in settled.unverified().filter(worker=worker).values_list("pk", flat=True):
            launching.judge_later(episode_id)
        # episodes of the lost worker are in no queue of calls: they are called for without the usual delay
        launching.wake_forgotten(*[timedelta(0)] if lost else [])
    except AWAY as error:
        log.warning("taking over waits for the database: %s", error)
        return False
    finally:
        close_old_connections()
    return True
