"""An episode of ours survives its worker: another attempt goes on from the record, and only one attempt writes."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from awmclient import errors
from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv
from episodes.models import Episode
from episodes.record import ending, recording
from episodes.visible.trajectory import steps_of
from people import access
from runs.launch import launching
from runs.play.local import LocalDashboard

WORKER = "rollouts@here"
SCRIPT = [
    {"say": "Let me see.", "call": {"name": "get_item", "arguments": {"item": "mug"}}},
    {"ask": {"question": "Which discount?"}, "unadvised": [
        {"call": {"name": "set_price", "arguments": {"item": "mug", "price": 9}}}
    ]},
    {"answer": "Done."},
]  # fmt: skip


class Killed(BaseException):
    """The worker ends here."""


@pytest.fixture
def queued(transactional_db, ada, monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    start = launching.LaunchRequest(
        "helpdesk_1", 0, "Price the mug", policy={"awmweb": "script"}, expert="plain", arm="a"
    )
    return launching.launch(ada, "nightly", [start]).episodes.get()


def attempt(queued, *, dies_at=None):
    """Take the episode into play; returns its port, and how the rollout ended."""
    assert recording.begin(queued.pk, WORKER)
    episode = Episode.objects.select_related("project").get(pk=queued.pk)
    writes = 0

    class Mortal(LocalDashboard):
        async def start_episode(self, task, **fields):
            port = await super().start_episode(task, **fields)
            append = port.append

            async def dying(steps):
                nonlocal writes
                writes += 1
                done = await append(steps)
                if writes == dies_at:
                    raise Killed
                return done

            port.append = dying
            ports.append(port)
            return port

    ports = []
    dash = Mortal(access.system(episode.project), queued=episode)
    run = async_to_sync(rollout)
    try:
        result = run(ScriptedPolicy(SCRIPT), FakeEnv(), dash, task=episode.task, expert="plain", ask_deadline_s=5)
    except Killed:
        result = None
    return ports[0], result


def test_a_lost_worker_costs_no_episode(queued):
    first, _ = attempt(queued, dies_at=3)
    assert ending.lose_of_worker(WORKER) == 1
    queued.refresh_from_db()
    assert (queued.state, queued.attempt) == ("queued", 1)
    _, result = attempt(queued)
    queued.refresh_from_db()
    assert (result.stop_reason, queued.state, queued.attempt, queued.final_answer) == ("done", "finished", 2, "Done.")
    steps = [step for step in steps_of(queued) if step["kind"] != "verification"]
    assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
    assert [step["kind"] for step in steps[2:]] == ["message", "tool_call", "ask", "tool_call", "message"]
    said = [(event.verb, event.reason) for event in queued.events.order_by("pk")]
    assert ("interrupted", "its worker was restarted") in said
    assert ("resumed", "attempt 2, from step 5") in said
    with pytest.raises(errors.EpisodeEnded):
        async_to_sync(first.append)({"kind": "note", "content": "I still live."})


def test_an_attempt_that_was_taken_over_writes_nothing_more(queued):
    first, _ = attempt(queued, dies_at=3)
    ending.lose_of_worker(WORKER)
    recording.begin(queued.pk, "rollouts@there")
    for write in (
        lambda: first.append({"kind": "note", "content": "I still live."}),
        lambda: first.ask("Which discount?"),
        first.heartbeat,
        lambda: first.finish("done"),
        lambda: first.fail("worker", "gone"),
    ):
        with pytest.raises(errors.EpisodeEnded):
            async_to_sync(write)()
    queued.refresh_from_db()
    assert (queued.state, queued.last_seq) == ("running", 4)


def test_an_episode_that_ends_its_workers_is_failed_in_the_end(queued):
    attempt(queued, dies_at=3)
    states = []
    for _ in range(ending.IDLE_ATTEMPTS):
        ending.lose_of_worker(WORKER)
        queued.refresh_from_db()
        states.append(queued.state)
        recording.begin(queued.pk, WORKER)
    ending.lose_of_worker(WORKER)
    queued.refresh_from_db()
    assert (states, queued.state, queued.fault) == (["queued"] * 3, "failed", "worker")
    assert "3 attempts in a row recorded no new step" in queued.fault_detail
