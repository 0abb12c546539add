"""Episodes on two real environment servers: a killed one is replaced, and an attempt returns to its own."""

from __future__ import annotations

import json

import pytest

from episodes.models import Episode
from episodes.record import ending
from episodes.visible.trajectory import steps_of
from runs.launch import launching
from runs.plan import choosing
from runs.play import local, playing
from tests.awmenv.conftest import OpenFolders, start_server
from tests.awmenv.hostile_packs import pack

pytestmark = pytest.mark.django_db(transaction=True)
WORKER = "rollouts@here"
CALL = {"call": {"name": "add_row", "arguments": {}}}
SCRIPT = [CALL, CALL, CALL, {"answer": "done"}]


@pytest.fixture
def two(settings, tmp_path, monkeypatch):
    """Two servers, each with folders of its own."""
    settings.VAR = tmp_path
    monkeypatch.setattr(choosing, "_rooms", choosing.Rooms())
    monkeypatch.setattr(launching, "wake_worker", lambda *_call, **_how: None)
    mine = pack(tmp_path / "packs" / "mine")
    row = {"scenario": "open_1", "task_idx": 0, "scripts": {"oracle": SCRIPT}}
    (mine / "scripts.jsonl").write_text(json.dumps(row) + "\n")
    folders = OpenFolders()
    made = [start_server(folders.mktemp(f"run{number}"), mine) for number in range(2)]
    settings.AWMENV_URL = ",".join(server.url for server in made)
    yield {server.url: server for server in made}
    for server in made:
        if server.process.poll() is None:
            server.stop()
    folders.remove()


def queued(ada, count=1):
    policy = launching.playable("open_1", 0, launching.policy_named("script:oracle"))
    requests = [launching.LaunchRequest("open_1", 0, "Add rows.", policy) for _ in range(count)]
    return list(launching.launch(ada, "two", requests).episodes.order_by("pk"))


def sessions(server):
    return json.loads(server.get("/stats"))["resets"]


def after_step(monkeypatch, number, act):
    """Do something once, when an episode has this many steps."""
    append, done = local.LocalEpisode.append, []

    async def appended(self, step):
        seq = await append(self, step)
        if seq >= number and not done:
            done.append(seq)
            act()
        return seq

    monkeypatch.setattr(local.LocalEpisode, "append", appended)


def test_episodes_are_spread_over_the_servers(ada, two):
    for episode in queued(ada, 4):
        playing.play(episode.pk, WORKER)
    ended = Episode.objects.all()
    assert {one.state for one in ended} == {"finished"}
    assert [sessions(server) for server in two.values()] == [2, 2]
    assert {one.world[playing.SERVER] for one in ended} == set(two)


def test_killed_server_is_replaced_in_the_middle(ada, two, monkeypatch):
    (episode,) = queued(ada)
    killed = []

    def kill():
        (at,) = [url for url, server in two.items() if sessions(server)]
        two[at].process.kill()
        two[at].process.wait(10)
        killed.append(at)

    after_step(monkeypatch, 2, kill)
    playing.play(episode.pk, WORKER)
    played = Episode.objects.get()
    assert (played.state, played.stop_reason, played.fault, played.attempt) == ("finished", "done", "", 1)
    rows = [step["result"] for step in steps_of(played) if step["kind"] == "tool_call"]
    assert len(rows) == 3 and len({json.dumps(row) for row in rows}) == len(rows), "each once in its world"
    (other,) = set(two) - set(killed)
    assert sessions(two[other]) == 1 and played.world[playing.SERVER] == killed[0]


def test_attempt_that_continues_returns_to_its_server(ada, two, monkeypatch):
    (episode,) = queued(ada)

    def cut():
        raise KeyboardInterrupt

    after_step(monkeypatch, 2, cut)
    with pytest.raises(KeyboardInterrupt):
        playing.play(episode.pk, WORKER)
    monkeypatch.undo()
    monkeypatch.setattr(launching, "wake_worker", lambda *_call, **_how: None)
    at = Episode.objects.get().world[playing.SERVER]
    (other,) = set(two) - {at}
    ending.lose_of_worker(WORKER)
    playing.play(episode.pk, WORKER)
    played = Episode.objects.get()
    assert (played.state, played.attempt) == ("finished", 2)
    assert (sessions(two[at]), sessions(two[other])) == (2, 0)
    assert played.world[playing.SERVER] == at
