"""No environment server for a moment: episodes wait for it, and a verdict is asked again while its world lives."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.db import OperationalError
from django.utils import timezone
from websockets.asyncio.server import serve

from awmclient.schema import Finish
from awmenv.errors import AwmenvError, ServerRefused, SessionLost
from awmenv.models import Observation
from episodes.models import Episode, VerifierVersion
from episodes.record import ending, noting, recording
from episodes.stored import settled
from people.access import system
from runs.launch import launching
from runs.play import local, playing
from tests.awmenv.conftest import OpenFolders, start_server
from tests.awmenv.hostile_packs import pack
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db(transaction=True)
WORKER = "rollouts@here"
SCRIPT = [{"call": {"name": "add_row", "arguments": {}}}, {"answer": "done"}]


@pytest.fixture
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append((pk, delay_s)))
    return called


@pytest.fixture
def folder(settings, tmp_path):
    settings.VAR = tmp_path
    settings.AWMENV_URL = "http://127.0.0.1:9"
    folder = pack(tmp_path / "packs" / "mine")
    row = {"scenario": "open_1", "task_idx": 0, "scripts": {"oracle": SCRIPT}}
    (folder / "scripts.jsonl").write_text(json.dumps(row) + "\n")
    return folder


@pytest.fixture
def episode(ada, folder, calls):
    policy = launching.playable("open_1", 0, launching.policy_named("script:oracle"))
    run = launching.launch(ada, "away", [launching.LaunchRequest("open_1", 0, "Do something.", policy)])
    calls.clear()
    return run.episodes.get()


def verbs(episode):
    return list(episode.events.order_by("pk").values_list("verb", flat=True))


def test_queued_episode_waits_for_a_server_and_starts_later(settings, ada, episode, folder, calls):
    for _ in range(2):
        playing.play(episode.pk, WORKER)
    waits = Episode.objects.get()
    assert (waits.state, waits.fault, waits.started_at, waits.worker) == ("queued", "", None, "")
    assert calls == [(episode.pk, launching.AGAIN_S)] * 2 and verbs(episode).count("no environment server") == 1
    page = html(as_person(ada).get(f"/episodes/{episode.pk}/"))
    assert "Queued. The environment server did not respond." in page and "at ws://127.0.0.1:9" in page
    folders = OpenFolders()
    server = start_server(folders.mktemp("run"), folder, own_zygotes=False)
    try:
        settings.AWMENV_URL = server.url
        playing.play(episode.pk, WORKER)
        playing.play(episode.pk, WORKER)  # called twice, played once
    finally:
        server.stop()
        folders.remove()
    played = Episode.objects.get()
    assert (played.state, played.stop_reason, played.fault) == ("finished", "done", "")
    assert verbs(episode).count("started") == 1


def test_replaced_version_is_a_fault_of_the_environment(settings, episode, folder):
    planned = episode.scenario_digest
    (folder / "scripts.jsonl").write_text((folder / "scripts.jsonl").read_text().replace("done", "made"))
    folders = OpenFolders()
    server = start_server(folders.mktemp("run"), folder, own_zygotes=False)
    try:
        settings.AWMENV_URL = server.url
        playing.play(episode.pk, WORKER)
    finally:
        server.stop()
        folders.remove()
    failed = Episode.objects.get()
    assert len(planned) == 64 and failed.scenario_digest == planned
    assert (failed.state, failed.fault, failed.last_seq) == ("failed", "environment", 0)
    assert (
        f"The pack of open_1 was replaced: the episode was planned with version {planned[:16]}" in failed.fault_detail
    )


async def test_lagging_server_is_waited_for_after_a_replacement(episode, monkeypatch):
    other = Observation(metadata={"scenario_digest": "f" * 64})
    world = playing._World(None, episode, playing.servers.profile("awm"), extended=True)
    assert "and ffffffffffffffff is loaded" in world._other_version(other)
    assert world._other_version(Observation(metadata={"scenario_digest": episode.scenario_digest})) == ""


def test_an_old_episode_is_left_to_the_sweep(episode, calls):
    Episode.objects.update(created_at=episode.created_at - launching.WAKE_AFTER)
    playing.play(episode.pk, WORKER)
    assert calls == [] and launching.wake_forgotten() == 1 and calls == [(episode.pk, 0)]


def test_a_server_that_goes_away_at_the_reset_is_waited_for(settings, episode, monkeypatch):
    monkeypatch.setattr(playing, "AGAIN_S", 0.01)
    connections, actor = [], system(episode.project)

    async def answers(socket):
        connections.append(socket)
        await socket.recv()
        if len(connections) == 1:
            return  # killed while the scenario was loaded
        await socket.send(json.dumps({"type": "observation", "data": {"observation": {"reward_type": "reset_ok"}}}))

    async def reset():
        async with serve(answers, "127.0.0.1", 0) as server:
            settings.AWMENV_URL = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with await playing._world(actor, episode) as world:
                return await world.reset(scenario="open_1")

    assert asyncio.run(reset()).reward_type == "reset_ok" and len(connections) == 2


class Verifier:
    """A world whose verifier answers or fails in turn."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    async def verify(self, *_sent, **_about):
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, AwmenvError):
            raise answer
        return answer


@pytest.fixture
def finished(ada, episode, monkeypatch):
    monkeypatch.setattr(playing, "VERDICT_PAUSES_S", (0.0, 0.0))
    recording.begin(episode.pk, WORKER)
    ending.finish(system(episode.project), episode.pk, Finish(stop_reason="done"))
    return Episode.objects.select_related("project").get(pk=episode.pk)


def verified(episode, world):
    asyncio.run(playing._verify(system(episode.project), episode, world, None))
    return [one.reward_type for one in episode.outcomes.all()], list(
        episode.events.filter(verb="not verified").values_list("reason", flat=True)
    )


def test_a_verdict_that_cannot_be_fetched_is_asked_for_again(finished):
    world = Verifier(ServerRefused("busy"), ServerRefused("busy"), Observation(reward_type="complete", reward=1.0))
    assert verified(finished, world) == (["complete"], []) and world.asked == 3


def test_outcome_that_the_database_lost_is_fetched_later(settings, episode, folder, monkeypatch):
    called = []
    monkeypatch.setattr(launching, "judge_later", lambda pk, delay_s=0: called.append((pk, delay_s)))
    folders = OpenFolders()
    server = start_server(folders.mktemp("run"), folder, own_zygotes=False)

    def away(*_about):
        raise OperationalError("the database is restarting")

    try:
        settings.AWMENV_URL = server.url
        with monkeypatch.context() as patched:
            patched.setattr(local, "PATIENCE_S", 0.1)
            patched.setattr(noting, "note_unverified", away)
            playing.play(episode.pk, WORKER)
        ended = Episode.objects.get()
        assert (ended.state, list(settled.unverified()), called) == (
            "finished",
            [ended],
            [(ended.pk, launching.AGAIN_S)],
        )
        playing.judge(ended.pk)
    finally:
        server.stop()
        folders.remove()
    assert not settled.unverified().exists() and verbs(episode).count("not verified") == 1


def test_a_repaired_verifier_is_asked_again(finished, monkeypatch):
    task = {"project": finished.project, "scenario": finished.scenario, "task_idx": finished.task_idx}
    VerifierVersion.objects.create(**task, number=2, code="x", in_force_at=timezone.now())
    monkeypatch.setattr(Verifier, "judge", Verifier.verify, raising=False)
    world = Verifier(
        Observation(reward_type="complete", reward=1.0),
        ServerRefused("busy"),
        Observation(reward_type="others", reward=0.0),
    )
    assert verified(finished, world) == (["others"], []) and world.asked == 3


def test_a_verdict_that_stays_away_says_why(finished):
    world = Verifier(*[ServerRefused("busy")] * 3)
    assert verified(finished, world) == ([], ["busy"]) and world.asked == 3


def test_a_lost_world_is_said_to_be_lost_and_not_asked_again(finished):
    world = Verifier(SessionLost("the connection was closed"))
    reason = "The environment was lost before the verifier ran: the connection was closed"
    assert verified(finished, world) == ([], [reason]) and world.asked == 1


def test_lost_outcome_is_retried_until_known_or_explained(finished):
    assert list(settled.unverified()) == [finished]
    verified(finished, Verifier(SessionLost("the connection was closed")))
    assert not settled.unverified().exists()


def test_a_verdict_that_is_there_is_not_called_lost(finished):
    assert verified(finished, Verifier(Observation(reward_type="complete"))) == (["complete"], [])
    assert not settled.unverified().exists()
