"""Pictures that calls of our own rollouts return: the record and the agent have a part, and a restart compares them."""

from __future__ import annotations

import base64

import pytest
from asgiref.sync import async_to_sync

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv, FakeResult
from episodes.models import Episode, Picture, PictureUse
from episodes.record import pictures
from episodes.visible.trajectory import steps_of
from people import access
from people.errors import Busy
from runs.play import local
from runs.play.local import LocalDashboard
from tests.pictures import HTML, drawn

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = [{"call": {"name": "list_items", "arguments": {}}}, {"answer": "Seen."}]
PNG = drawn()


def shot(data, kind="png"):
    return [{"type": "image", "data": base64.b64encode(data).decode(), "mimeType": f"image/{kind}"}]


class Browser(FakeEnv):
    """A world that returns a picture of itself for every call."""

    shown = PNG

    async def call_tool(self, name, arguments):
        return FakeResult({"content": shot(self.shown)})


class Page:
    """A world of actions that shows a picture of itself."""

    async def reset(self):
        return {"observation": {}}

    async def step(self, action):
        seen = {"page": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{shot(PNG)[0]['data']}"}}]}
        return {"observation": seen, "reward": 0.0, "done": True}


class Killed(BaseException):
    """The worker ends here."""


class Seeing(ScriptedPolicy):
    """Notes what it is shown."""

    def __init__(self):
        super().__init__(SCRIPT)
        self.views = []

    async def act(self, view):
        self.views.append(list(view.steps))
        return await super().act(view)


class Mortal(Seeing):
    """Ends the worker at its second choice."""

    async def act(self, view):
        if view.turn == 2:
            raise Killed
        return await super().act(view)


@pytest.fixture
def play(ada):
    """A call that plays an episode of this key, and returns its result."""

    def inner(policy, world=Browser):
        async def run():
            dash = LocalDashboard(access.system(ada.project))
            return await rollout(policy, world(), dash, task="Look", key="one")

        return async_to_sync(run)()

    return inner


def result_of(episode):
    return next(step["result"] for step in steps_of(episode) if step["kind"] == "tool_call")


def test_picture_of_a_result_is_a_part_for_record_and_agent(play):
    policy = Seeing()
    play(policy)
    episode = Episode.objects.get()
    (part,) = result_of(episode)["content"]
    assert (part["type"], part["media_type"]) == ("image", "image/png")
    assert PictureUse.objects.get(episode=episode).picture.sha256 == part["blob"]
    assert part["blob"] in str(policy.views[-1]), "the agent goes on with what is recorded"
    assert shot(PNG)[0]["data"][-60:] not in str(policy.views[-1])


def test_picture_of_an_observation_is_a_part(play):
    play(ScriptedPolicy([{"act": {"click": 1}}, {"answer": "Seen."}]), Page)
    episode = Episode.objects.get()
    (step,) = (step for step in steps_of(episode) if step["kind"] == "action")
    assert PictureUse.objects.get(episode=episode).picture.sha256 in str(step["observation"])


def test_what_is_no_picture_becomes_words(play, monkeypatch):
    monkeypatch.setattr(Browser, "shown", HTML)
    play(Seeing())
    (part,) = result_of(Episode.objects.get())["content"]
    assert part["text"].startswith("[picture left out: ")


@pytest.mark.parametrize("changed", [False, True])
def test_restart_compares_the_pictures_of_the_record(play, monkeypatch, changed):
    with pytest.raises(Killed):
        play(Mortal())
    if changed:
        monkeypatch.setattr(Browser, "shown", drawn(shade=7))
    ended = play(Seeing())
    said = "The world cannot be restored: step 3 brings something else now." if changed else ""
    assert ended.detail == said
    assert Episode.objects.get().state == ("failed" if changed else "finished")


def test_pictures_beyond_those_of_a_step_become_words(play, monkeypatch):
    async def many(self, name, arguments):
        return FakeResult({"content": [part for n in range(22) for part in shot(drawn(size=(8, 8), shade=n * 9))]})

    monkeypatch.setattr(Browser, "call_tool", many)
    play(Seeing())
    parts = result_of(Episode.objects.get())["content"]
    assert [part["type"] for part in parts] == ["image"] * 20 + ["text"] * 2
    assert Picture.objects.count() == 20


def test_decoders_that_stay_busy_are_no_other_world(play, monkeypatch):
    with pytest.raises(Killed):
        play(Mortal())

    def busy(*call):
        raise Busy

    monkeypatch.setattr(pictures, "decoded", busy)
    monkeypatch.setattr(local, "PATIENCE_S", 0.1)
    ended = play(Seeing())
    assert ended.fault == "dashboard", ended
    assert "cannot be restored" not in ended.detail


def test_picture_waits_while_others_are_read(play, monkeypatch):
    plain, calls = pictures.decoded, []

    def busy(*call):
        calls.append(1)
        if len(calls) < 3:
            raise Busy
        return plain(*call)

    monkeypatch.setattr(pictures, "decoded", busy)
    play(Seeing())
    assert (len(calls), Picture.objects.count()) == (3, 1)
