"""A rollouts worker that starts without its database."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.exceptions import WorkerShutdown
from celery.worker import state
from django.db import OperationalError

from awmclient.schema import EpisodeStart
from episodes.models import Episode, EpisodeState
from episodes.record import ending, recording
from runs import tasks

HOST = "rollouts@here"
WORKER = SimpleNamespace(hostname=HOST, controller=SimpleNamespace(concurrency=2))


@pytest.fixture
def away(monkeypatch):
    """Let the database be away for the first looks."""
    left, real = [OperationalError("connection refused")] * 3, ending.lose_of_worker

    def lose(worker):
        if left:
            raise left.pop()
        return real(worker)

    monkeypatch.setattr(tasks, "AWAY_S", 0.0)
    monkeypatch.setattr(ending, "lose_of_worker", lose)
    return left


@pytest.mark.django_db(transaction=True)
def test_worker_takes_over_once_the_database_is_back(ada, away):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t"))
    Episode.objects.filter(pk=episode.pk).update(worker=HOST)
    tasks.take_over(WORKER)
    episode.refresh_from_db()
    assert not away and episode.state == EpisodeState.FAILED and "restarted" in episode.fault_detail


def test_worker_that_waits_for_the_database_can_be_stopped(db, away, monkeypatch):
    monkeypatch.setattr(state, "should_stop", 0)
    with pytest.raises(WorkerShutdown):
        tasks.take_over(WORKER)
    assert len(away) == 2
