"""An episode of ours that was cut off says so, and is played again from its plan."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import EpisodeStart
from episodes.models import Episode
from episodes.record import ending, recording
from people.access import bearer
from people.errors import Forbidden, NotFound
from people.record.members import issue_token
from runs.errors import NoEndpoint, NotBroken, UnknownTask
from runs.launch import launching
from tests.browsing import as_person, html

WORKER = "rollouts@here"


@pytest.fixture
def calls(monkeypatch):
    """What the workers are called for; nobody plays here."""
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def cut_off(actor):
    """An episode whose worker was killed in the middle."""
    run = launching.launch(actor, "nightly", launching.demo_starts()[:1])
    episode = run.episodes.get()
    for _ in range(ending.IDLE_ATTEMPTS):
        recording.begin(episode.pk, WORKER)
        assert ending.lose_of_worker(WORKER) == 1
    return Episode.objects.get(pk=episode.pk)


def test_failed_episode_page_explains_and_offers_rerun(ada, calls):
    broken, page = cut_off(ada), as_person(ada)
    text = html(page.get(broken.get_absolute_url()))
    assert "Interrupted after 0 actions" in text and "was stopped or killed" in text and "Rerun" in text
    answer = page.post(f"{broken.get_absolute_url()}again")
    again = Episode.objects.get(key=broken.again_key)
    assert answer.url == f"/projects/lab{again.get_absolute_url()}" and again.state == "queued"
    for name in ("run_id", "task", "scenario", "task_idx", "policy", "arm", "expert", "max_steps", "environment"):
        assert getattr(again, name) == getattr(broken, name), name
    text = html(page.get(broken.get_absolute_url()))
    assert f'href="/projects/lab{again.get_absolute_url()}">Open the rerun' in text and 'data-opens="again"' not in text
    assert broken.get_absolute_url() in html(page.get(again.get_absolute_url()))


def test_lost_external_loop_is_not_resumed(project, ada, calls):
    agent = bearer(issue_token(ada, "loop", "agent")[0])
    episode, _ = recording.start_episode(agent, EpisodeStart(key="e", task="t", policy={"awmweb": "model"}))
    Episode.objects.filter(pk=episode.pk).update(state="failed", fault="worker", fault_detail="no heartbeat for 90 s")
    text = html(as_person(ada).get(episode.get_absolute_url()))
    assert "Lost contact with the agent" in text and "The episode reopens" in text and 'data-opens="again"' not in text
    with pytest.raises(NotBroken):
        launching.rerun(ada, episode.pk)


def test_what_goes_on_or_ended_well_is_not_played_again(ada, calls):
    run = launching.launch(ada, "nightly", launching.demo_starts()[:1])
    with pytest.raises(NotBroken):
        launching.rerun(ada, run.episodes.get().pk)


def test_unknown_scenario_is_refused_before_queueing(ada, calls):
    broken = cut_off(ada)
    Episode.objects.filter(pk=broken.pk).update(scenario="gone_1")
    with pytest.raises(UnknownTask):
        launching.rerun(ada, broken.pk)
    assert not Episode.objects.filter(key=broken.again_key).exists()


@pytest.mark.parametrize(("asked", "configured"), [("small", "small"), ("", "agent")])
def test_rerun_asks_for_the_endpoint_of_its_episode(ada, calls, settings, asked, configured):
    broken = cut_off(ada)
    policy = {"awmweb": "model", "model": "m", **({"endpoint": asked} if asked else {})}
    Episode.objects.filter(pk=broken.pk).update(policy=policy)
    settings.AGENT_ENDPOINTS = {"other": EndpointConfig(base_url="http://127.0.0.1:9/v1", model="m")}
    with pytest.raises(NoEndpoint):
        launching.rerun(ada, broken.pk)
    settings.AGENT_ENDPOINTS = {configured: EndpointConfig(base_url="http://127.0.0.1:9/v1", model="m")}
    assert launching.rerun(ada, broken.pk).policy == policy


def test_a_stranger_finds_nothing_and_an_expert_may_not(ada, edo, max_, calls):
    broken = cut_off(ada)
    with pytest.raises(NotFound):
        launching.rerun(max_, broken.pk)
    with pytest.raises(Forbidden):
        launching.rerun(edo, broken.pk)


@pytest.mark.django_db(transaction=True)
def test_two_presses_at_once_are_one_episode_and_one_call(ada, calls):
    broken, results = cut_off(ada), []
    del calls[:]

    def press():
        try:
            results.append(launching.rerun(ada, broken.pk).pk)
        finally:
            connection.close()

    presses = [threading.Thread(target=press) for _ in range(4)]
    for one in presses:
        one.start()
    for one in presses:
        one.join(20)
    assert len(results) == 4 and {*results} == {*calls} and len(calls) == 1
