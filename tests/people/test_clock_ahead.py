"""A clock that was ahead once holds no work up: times that it wrote count as long ago."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import Episode, SearchMark
from episodes.record import indexing, recording
from imports.models import Trace
from imports.record import collecting
from people.models import ProviderTicket, long_ago, unheard_since
from people.record import following
from runs.launch import launching
from tests.people_by_name import token

DAYS = timedelta(days=5)


@pytest.fixture
def episode(ada):
    made, _ = recording.start_episode(ada, EpisodeStart(key="k", task="greet"))
    return made


@pytest.mark.parametrize(("minutes", "is_old"), [(-7200, True), (0, False), (5, False), (7200, True)])
def test_times_from_the_future_count_as_long_ago(episode, minutes, is_old):
    now = timezone.now()
    Episode.every.filter(pk=episode.pk).update(heartbeat_at=now + timedelta(minutes=minutes), state="running")
    moment = now - timedelta(minutes=1)
    assert Episode.every.silent_since(moment).exists() == is_old
    assert Episode.every.filter(unheard_since(moment)).exists() == is_old
    assert Episode.every.filter(long_ago("heartbeat_at", moment)).exists() == is_old


def test_search_reads_new_steps_after_a_clock_was_ahead(episode):
    indexing.work(0.1)
    SearchMark.objects.update(swept_at=timezone.now() + DAYS)
    indexing.work(0.1)
    assert SearchMark.objects.get().swept_at <= timezone.now()


def test_waiting_traces_and_forgotten_episodes_are_found(project, episode, monkeypatch):
    sender = token(project, "agent")[0]
    Trace.objects.create(project=project, token=sender.token, name="t", heard_at=timezone.now() + DAYS)
    assert [one.name for one in collecting._due(timezone.now())] == ["t"]
    Episode.every.filter(pk=episode.pk).update(created_at=timezone.now() + DAYS, state="queued", origin="builtin")
    called = []
    monkeypatch.setattr(launching, "wake_worker", called.append)
    assert launching.wake_forgotten() == 1 and called == [episode.pk]


def test_provider_is_asked_again_about_everyone(ada, settings, monkeypatch):
    settings.AWMWEB_OIDC_ISSUER = "http://127.0.0.1:9"
    ProviderTicket.objects.create(user=ada.person, sealed="x", is_refresh=True, checked_at=timezone.now() + DAYS)
    asked = []
    monkeypatch.setattr(following, "_check", lambda _asking, tickets, _now: asked.extend(tickets) or len(tickets))
    monkeypatch.setattr(following, "_json", lambda _answer: {})
    monkeypatch.setattr(following.httpx.Client, "get", lambda *_: None)
    assert following.check_due() == 1 and [one.user for one in asked] == [ada.person]
