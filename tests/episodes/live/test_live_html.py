"""What live pages hear: pictures in place of steps, drawn once for all pages of a process, as a fragment shows them."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from awmclient.schema import STEP, EpisodeStart
from episodes import events
from episodes.events import hint
from episodes.live import live_html
from episodes.live.hub import GAP, Listener
from episodes.live.live_html import Showings, drawn
from episodes.record import recording
from episodes.show import html_cache
from episodes.show.html_cache import Album
from episodes.show.windows import MOST
from episodes.visible import trajectory
from episodes.visible.lens import BLIND, EVERYTHING
from tests.browsing import as_person

TOPICS = ("episode:e", "episode:e:people")


def call(seq, **more):
    return {"seq": seq, "kind": "tool_call", "name": f"look_{seq}", "arguments": {"at": seq}, "result": "x", **more}


def append(ada, pk, *bodies):
    recording.append_steps(ada, pk, [STEP.validate_python(body) for body in bodies])


def told(pk, since=0):
    texts, more = [], True
    while more:
        steps, more = trajectory.sent_after(EVERYTHING, pk, since, MOST * 2)
        texts += [text for _, text in steps]
        since = steps[-1][0] if steps else since
    return events.steps_frame(pk, texts)


def seqs(html):
    return [int(seq) for seq in re.findall(r'<li[^>]*\sdata-seq="(\d+)"', html)]


@pytest.fixture
def episode(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="be seen", expert="plain"))[0].pk


def test_waiting_frames_are_merged_before_drawing(ada, episode):
    append(ada, episode, call(1), call(2))
    first = told(episode)
    append(ada, episode, call(3))
    other = json.dumps({"type": "episode", "state": "running"})
    picture, *rest = drawn(EVERYTHING, [first, other, told(episode, 2)])
    frame = json.loads(picture)
    assert (frame["type"], frame["episode"], frame["last"]) == ("pictures", episode, 3)
    assert seqs(frame["html"]) == [1, 2, 3] and "look_2" in frame["html"] and rest == [other]


def test_of_more_than_a_page_takes_in_only_the_newest_are_drawn(ada, episode):
    append(ada, episode, *(call(seq) for seq in range(1, MOST + 51)))
    frame = json.loads(drawn(EVERYTHING, [told(episode)])[0])
    assert frame["last"] == MOST + 50 and seqs(frame["html"]) == list(range(51, MOST + 51))


def test_pictures_of_large_changes_are_parted_as_steps_are(ada, episode):
    """A reader with an ordinary limit shuts out frames above a megabyte."""
    rows = [{"id": row, **{f"text_{column}": "漢" * 90 for column in range(6)}} for row in range(8)]
    changes = {"notes": {"added": rows, "changed": [], "removed": []}}
    append(ada, episode, *(call(seq, state_diff=changes) for seq in range(1, 61)))
    parts = drawn(EVERYTHING, [told(episode)])
    frames = [json.loads(part) for part in parts]
    assert len(frames) > 1 and max(map(len, parts)) < 1024 * 1024
    assert [seq for frame in frames for seq in seqs(frame["html"])] == list(range(1, 61))
    assert [frame["last"] for frame in frames] == [seqs(frame["html"])[-1] for frame in frames]


def test_the_picture_that_is_told_is_the_picture_that_is_fetched(ada, episode, monkeypatch):
    at = "2026-01-02T03:04:05Z"
    broken = call(3, result=None, error="no\nsuch row", at=at, meta={"traceback": "line 7 of the tool"})
    append(ada, episode, call(1, state_diff={"t": {"added": [{"id": 1}]}}), call(2, result="x" * 40_000), broken)
    pushed = json.loads(drawn(EVERYTHING, [told(episode)])[0])["html"]
    monkeypatch.setattr(html_cache, "_album", Album())
    fetched = as_person(ada).get(f"/episodes/{episode}/steps.html?since=0&parts=0").content.decode()
    assert pushed in fetched and "line 7 of the tool" in pushed


def test_pictures_for_a_blind_reader_have_no_rewards(ada, episode):
    append(ada, episode, {"seq": 1, "kind": "action", "action": {"go": 1}, "observation": {"at": 1}, "reward": 0.125})
    assert "0.125" in drawn(EVERYTHING, [told(episode)])[0] and "0.125" not in drawn(BLIND, [told(episode)])[0]


async def next_payload(page):
    while (payload := await asyncio.wait_for(page.get(), 60)).texts == GAP.texts:
        pass  # a new subscription begins with one
    return payload


@pytest.fixture
def hear(house_servers):
    """Tell of a step of the episode that is watched."""
    valkey = events.connection()
    return lambda seq: valkey.publish(events.CHANNEL, hint("episode:e", events.STEPS, "e", json.dumps(call(seq))))


async def test_episode_pages_share_one_rendering_until_they_leave(hear, monkeypatch):
    times = []
    monkeypatch.setattr(live_html, "drawn", lambda _, texts: times.append(texts) or texts)
    shown, ada, rita, max_ = Showings(EVERYTHING), Listener(), Listener(), Listener()
    for page in (ada, rita, max_):
        await shown.add(page, *TOPICS)
    shown.drop(max_, *TOPICS)
    hear(1)
    assert await next_payload(ada) is await next_payload(rita)
    assert [1 for texts in times if '"seq": 1' in "".join(texts)] == [1] and max_.take() in (None, GAP)
    for page in (ada, rita):
        shown.drop(page, *TOPICS)
    assert shown._showings == {}


async def test_undrawable_steps_are_a_gap_and_the_next_follow(hear, monkeypatch, caplog):
    def breaks_once(_, texts):
        if '"seq": 1,' in "".join(texts):
            raise ValueError("no picture")
        return texts

    monkeypatch.setattr(live_html, "drawn", breaks_once)
    shown, page = Showings(EVERYTHING), Listener()
    await shown.add(page, *TOPICS)
    hear(1)
    while "could not be drawn" not in caplog.text:
        assert (await asyncio.wait_for(page.get(), 60)).texts == GAP.texts
        await asyncio.sleep(0.01)
    hear(2)
    assert '"seq": 2' in (await next_payload(page)).texts[0]
    shown.drop(page, *TOPICS)
