"""A call to the workers that is lost costs a delay and never a page or an episode."""

from __future__ import annotations

import pytest
from django.db import OperationalError as DatabaseAway
from kombu.exceptions import OperationalError

from episodes.models import Episode
from people.record import jobs
from runs import tasks
from tests.browsing import as_person


@pytest.mark.django_db(transaction=True)
def test_the_demo_is_queued_although_no_worker_could_be_called(ada, monkeypatch):
    def gone(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr(jobs.current_app, "send_task", gone)
    assert as_person(ada).post("/demo/again").status_code == 302
    assert Episode.objects.filter(state="queued").exists()


def test_episode_resumes_after_a_database_outage(monkeypatch):
    tries = []

    def play(episode_id, worker):
        tries.append(episode_id)
        if len(tries) < 3:
            raise DatabaseAway("couldn't get a connection after 4.00 sec")

    monkeypatch.setattr(tasks.playing, "play", play)
    assert tasks.play.apply(args=["e1"]).successful() and tries == ["e1"] * 3
