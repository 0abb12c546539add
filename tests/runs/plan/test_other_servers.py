"""Runs on an environment server that is not awmweb's: asked what it can, sent nothing it does not know, named."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.urls import reverse
from websockets.sync.client import connect

from awmclient.choosing.chat import EndpointConfig
from awmweb.variables import environments
from episodes.models import Episode
from episodes.record import ending
from people.access import system
from runs.errors import BadPlan, UnknownEnvironment, UnknownTask
from runs.launch import launching, planning
from runs.models import Plan
from runs.plan import servers
from runs.play import certifying, playing
from tests.browsing import as_person, html
from tests.runs.faulty import Plan as Turns
from tests.runs.faulty import plan as turns_of
from tests.runs.planned import document, launched
from tests.runs.upstream import Upstream

pytestmark = pytest.mark.django_db(transaction=True)
TASK = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "alone"}]}


@pytest.fixture
def upstream(settings, monkeypatch):
    server = Upstream(key="secret-1")
    profile = {"url": server.url, "headers": {"X-Key": "secret-1"}, "timeout_s": 5.0}
    settings.ENVIRONMENTS = {"lab": profile}
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    yield server
    server.stop()


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.setattr(playing, "policy_of", lambda episode: Turns(turns_of(seed=None)[:1] + [{"answer": "a b"}]))


def played(ada, worker="w"):
    plan = launched(ada, environment="lab", **TASK)
    pk = plan.tries.get().episode_id
    playing.play(pk, worker)
    return plan, Episode.objects.get(pk=pk)


def test_upstream_server_plays_and_verifies_an_episode(ada, rita, upstream, agent):
    plan, episode = played(ada)
    assert (episode.state, episode.stop_reason, episode.environment) == ("finished", "done", "lab")
    assert episode.outcomes.get().reward_type == "complete" and upstream.verified[0]["final_answer"] == "a b"
    assert upstream.strange == [], "upstream knows none of these fields"
    assert episode.world == {} and plan.server["version"] == "0.1.0" and plan.server["extended"] is False
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "agent_world_model_env 0.1.0, no recorded worlds and no state differences" in page
    page = html(as_person(rita).get(reverse("environment")))
    assert upstream.url in page and "agent_world_model_env 0.1.0" in page and "secret-1" not in page


def test_server_that_does_not_respond_keeps_episodes_queued(ada, rita, upstream, agent):
    upstream.stop()
    upstream.stop = lambda: None
    plan, episode = played(ada)
    assert episode.state == "queued" and plan.server["problem"]
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "does not respond: Connection refused" in page and "Errno" not in page


def test_episode_waits_for_a_slot_of_a_full_server(ada, agent, settings, monkeypatch):
    """OpenEnv's own server has one session by default, so that a run of several episodes at a time finds it full."""
    server = Upstream(slots=1)
    settings.ENVIRONMENTS = {"lab": {"url": server.url}}
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    monkeypatch.setattr(playing, "AGAIN_S", 0.1)
    try:
        with connect(server.url.replace("http", "ws") + "/ws", proxy=None) as holder:
            holder.send('{"type": "state"}')
            holder.recv()
            threading.Timer(1, holder.close).start()
            _, episode = played(ada)
    finally:
        server.stop()
    assert (episode.state, episode.fault, server.resets) == ("finished", "", 1)


def test_builtin_server_by_another_name_has_all_it_can(ada, rita, words, agent, settings, monkeypatch):
    """A profile whose server is awmweb's own is asked what it is: worlds are recorded, and replays certified."""
    server, settings.VAR = words
    settings.AWMENV_URL, settings.ENVIRONMENTS = "http://127.0.0.1:9", {"twin": {"url": server.url}}
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    plan = launched(ada, environment="twin", tasks=["words_1/0"], arms=[{"name": "alone"}])
    playing.play(plan.tries.get().episode_id, "w")
    episode = Episode.objects.get()
    assert (episode.state, episode.environment, plan.server["extended"]) == ("finished", "twin", True)
    assert episode.world["final"] and any('"state_diff":{"t"' in step.body for step in episode.steps.all())
    found = asyncio.run(_certified(episode))
    assert (found.grade, found.calls) == ("exact", 2)
    assert f"awmenv {settings.VERSION}, records worlds" in html(as_person(rita).get(f"/runs/{plan.pk}/"))


def test_lost_session_is_a_fault_of_the_environment(ada, upstream, agent):
    upstream.ends_after = 1
    plan, episode = played(ada)
    assert (episode.state, episode.fault) == ("failed", "environment")
    assert planning.retry(ada, plan.run_id) == 1 and Plan.objects.get().tries.get().episode.environment == "lab"


@pytest.mark.parametrize(("drift", "state"), [(0, "finished"), (1, "failed")])
def test_killed_worker_replays_and_compares_results(ada, upstream, agent, monkeypatch, drift, state):
    """Without a record of its world an episode goes on if its calls bring what they brought, and else it fails."""
    plan = launched(ada, environment="lab", **TASK)
    pk = plan.tries.get().episode_id

    class Killed(BaseException):
        """Ends the attempt as a killed process does: nothing of it runs on."""

    class Dies(Turns):
        async def act(self, view):
            if view.turn > 1:
                raise Killed
            return await super().act(view)

    with monkeypatch.context() as patch:
        patch.setattr(playing, "policy_of", lambda episode: Dies(turns_of(seed=None)[:1] + [{"answer": "a b"}]))
        with pytest.raises(Killed):
            playing.play(pk, "w")
    assert ending.lose_of_worker("w") == 1
    upstream.drift = drift
    playing.play(pk, "w")
    episode = Episode.objects.get(pk=pk)
    assert (episode.state, episode.attempt, upstream.strange) == (state, 2, [])
    assert episode.fault == ("environment" if drift else "")


def test_certificate_of_a_foreign_episode_is_refused(ada, upstream, agent):
    _, episode = played(ada)
    found = asyncio.run(_certified(episode))
    assert (found.grade, found.difference) == ("refused", "The world was not recorded.")


async def _certified(episode):
    return await certifying.certify_episode(episode)


def test_unknown_server_is_refused_or_a_fault(ada, upstream, agent, settings):
    with pytest.raises(UnknownEnvironment, match="names no server 'nowhere'. Known: awm, lab."):
        launched(ada, environment="nowhere", **TASK)
    plan = launched(ada, environment="lab", **TASK)
    settings.ENVIRONMENTS = {}
    playing.play(plan.tries.get().episode_id, "w")
    episode = Episode.objects.get()
    assert (episode.state, episode.fault) == ("failed", "environment")
    assert servers.known("lab").name == "awm" and system(ada.project)


def test_plan_gives_the_text_of_a_task_that_no_pack_has(ada, rita, upstream, agent, settings):
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig("http://127.0.0.1:9", "m")}
    said = {"environment": "lab", "policy": "model", "tasks": ["far_1/7"], "arms": [{"name": "alone"}]}
    with pytest.raises(UnknownTask, match="No loaded pack contains the scenario 'far_1'"):
        launched(ada, **said)
    plan = launched(ada, **said, texts={"far_1/7": "Write two words."})
    planning.add_seeds(ada, plan.pk, 1)
    for pk in plan.tries.values_list("episode_id", flat=True):
        playing.play(pk, "w")
    assert {(one.task, one.state) for one in Episode.objects.all()} == {("Write two words.", "finished")}
    for page in (f"/runs/{plan.pk}/", f"/episodes/{pk}/"):
        assert "far_1" in html(as_person(rita).get(page))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"environment": "lab", "tasks": ["a/0"], "texts": {"a/1": "Go."}}, "'a/1' is not in the list of tasks"),
        ({"environment": "lab", "texts": {"a/0": "Go."}}, "'a/0' is not in the list of tasks"),
        ({"tasks": ["a/0"], "texts": {"a/0": "Go."}}, "texts are for tasks of a further server"),
        ({"environment": "lab", "tasks": ["a/0"], "texts": {"a/0": ""}}, "plan.texts.a/0"),
    ],
)
def test_text_of_a_task_is_refused_where_it_can_not_be(said, problem):
    with pytest.raises(BadPlan, match=problem):
        document(**said)


def test_plan_on_the_built_in_server_keeps_its_digest():
    assert document().digest == document(environment="awm").digest != document(environment="lab").digest


def test_settings_name_servers_or_stop_the_start(monkeypatch):
    monkeypatch.setenv("AWMWEB_ENVIRONMENT_LAB_URL", "https://env.example.org")
    monkeypatch.setenv("AWMWEB_ENVIRONMENT_LAB_HEADERS", '{"X-Key": "secret-1"}')
    found = environments("lab")["lab"]
    assert found == {"url": "https://env.example.org", "headers": {"X-Key": "secret-1"}, "timeout_s": 120}
    assert "secret-1" not in repr(servers.ServerProfile("lab", **found))
    for names in ("awm", "lab,lab", "a-b"):
        with pytest.raises(SystemExit, match="AWMWEB_ENVIRONMENTS"):
            environments(names)
    monkeypatch.setenv("AWMWEB_ENVIRONMENT_LAB_HEADERS", "secret-1")
    with pytest.raises(SystemExit) as stopped:
        environments("lab")
    assert "HEADERS" in str(stopped.value) and "secret-1" not in str(stopped.value)
    monkeypatch.setenv("AWMWEB_ENVIRONMENT_LAB_URL", "ftp://x")
    with pytest.raises(SystemExit, match="AWMWEB_ENVIRONMENT_LAB_URL"):
        environments("lab")
