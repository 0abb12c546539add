"""A model server that takes no request: no episode is started for it, the run says so, and goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from awmclient.choosing import chat
from awmclient.choosing.chat import EndpointConfig
from episodes.models import Episode
from runs.launch import feeding, launching, outages
from runs.models import ModelOutage
from runs.plan import limits
from runs.play import playing
from runs.show import failing
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.browsing import as_person, html
from tests.runs.planned import end, launched

pytestmark = pytest.mark.django_db(transaction=True)
ARMS = [{"name": "before", "policy": "model"}, {"name": "after", "policy": "model:after"}]
REFUSAL = "the endpoint answered 503: Loading model"


@pytest.fixture
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


@pytest.fixture
def models(settings):
    at = "http://127.0.0.1:9/v1"
    settings.AGENT_ENDPOINTS = {name: EndpointConfig(at, name) for name in ("agent", "after")}
    return settings.AGENT_ENDPOINTS


def called_of(arm):
    return Episode.objects.filter(arm=arm, planned__called_at__isnull=False)


def test_arm_whose_model_is_away_waits_and_holds_up_no_other(ada, calls, models):
    outages.begin("after", REFUSAL)
    plan = launched(ada, arms=ARMS, parallel=4)
    assert (called_of("before").count(), called_of("after").count()) == (4, 0)
    while waiting := called_of("before").filter(state="queued"):
        end(waiting[0].pk)
    plan.refresh_from_db()
    assert (called_of("before").count(), called_of("after").count(), plan.state) == (6, 0, "running")
    sentence = f"Model after does not respond; 6 episodes wait. Last refusal: {REFUSAL}"
    assert limits.waits(plan) == [sentence] and sentence in html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert [need.what for need in failing.models(ada, plan.started_at)] == ["Agent model after"]
    outages.end("after")
    assert called_of("after").count() == 4 and limits.waits(plan)[0].startswith("4 of 4 episodes are live")


def test_call_for_a_model_that_went_away_is_taken_back(ada, calls, models):
    plan = launched(ada, arms=ARMS, parallel=4)
    assert (called_of("before").count(), called_of("after").count()) == (2, 2)
    outages.begin("after", REFUSAL)
    for episode in list(called_of("after")):
        playing.play(episode.pk)
    assert (called_of("before").count(), called_of("after").count()) == (4, 0)
    assert {*Episode.objects.filter(run=plan.run).values_list("state", "attempt")} == {("queued", 0)}


def test_episode_at_work_or_without_a_plan_is_called_again(ada, calls, models):
    policy = launching.policy_named("model:after")
    run = launching.launch(ada, "one", [launching.LaunchRequest("helpdesk_1", 0, "Do it.", policy)])
    outages.begin("after", REFUSAL)
    calls.clear()
    playing.play(run.episodes.get().pk)
    assert calls == [run.episodes.get().pk] and run.episodes.get().state == "queued"


@pytest.mark.parametrize(("refusals", "away"), [(1, False), (2, True), (9, True)])
async def test_turn_notes_an_outage_and_its_end(ada, models, monkeypatch, refusals, away):
    monkeypatch.setattr(chat, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(chat, "LONGEST_PAUSE_S", 0.001)
    seen, left = [], [error(503, "Loading model")] * refusals
    monkeypatch.setattr(feeding, "feed_all", lambda: seen.append("fed"))

    def reply(body):
        return left.pop() if left else "ready"

    server = OpenAIServer(reply)
    await server.start()
    try:
        tell = playing.telling("after")
        client = chat.ChatClient(EndpointConfig(server.base_url, "toy"), on_away=tell)
        await client.complete([])
    finally:
        await server.kill()
    assert seen == ["fed"] * away
    assert not await asyncio.to_thread(ModelOutage.objects.exists)


def test_look_ends_an_outage_with_the_first_answer(ada, calls, models):
    server = OpenAIServer(lambda body: error(503, "Loading model"))
    with answering(server):
        models["after"] = EndpointConfig(server.base_url, "after")
        outages.begin("after", REFUSAL)
        outages.begin("gone", REFUSAL)
        outages.look_again()
        assert [*ModelOutage.objects.values_list("name", flat=True)] == ["after"]
        server.reply = lambda body: "ready"
        launched(ada, arms=ARMS)
        assert not called_of("after").exists()
        outages.look_again()
    assert called_of("after").exists() and not ModelOutage.objects.exists()


def test_half_of_an_emoji_in_a_refusal_ends_no_turn(calls, models, monkeypatch):
    outages.begin("after", "busy \ud83d\x00")
    assert ModelOutage.objects.get().reason == "busy ?"

    def fails(*_about):
        raise ValueError("whatever")

    monkeypatch.setattr(outages, "begin", fails)
    tell = playing.telling("after")
    for _refusal in range(outages.REFUSED):
        asyncio.run(tell(REFUSAL))


def test_a_host_that_drops_packets_stays_away(calls, models, monkeypatch):
    """Its kernel answers no connection: the queue of the listening socket is full, and no one takes from it."""
    monkeypatch.setattr(chat, "LOOK_S", 1.0)
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _place in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        models["after"] = EndpointConfig(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "after")
        outages.begin("after", REFUSAL)
        outages.look_again()
    assert ModelOutage.objects.filter(name="after").exists()
