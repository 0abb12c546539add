"""An episode that waits for a person gives back its thread, and any worker goes on with it when the answer comes."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.schema import STEP, AskOpen, EpisodeStart
from awmclient.testing import FakeEnv
from awmclient.words.toolcalls import Call
from episodes.models import Episode
from episodes.record import ending, recording
from episodes.show.durability import chips
from episodes.visible.trajectory import steps_of
from experts.models import Ask
from experts.record import advising, closing, opening, queue
from people import access
from people.errors import AppError
from runs.launch import launching
from runs.play import parking
from runs.play.local import LocalDashboard

pytestmark = pytest.mark.django_db(transaction=True)


class Asking:
    """Reads, asks, does as it is told, and keeps what it was shown."""

    def __init__(self):
        self.views = []

    def resume(self, views):
        self.views = list(views)

    async def act(self, view):
        self.views.append(view)
        if view.turn == 1:
            return Turn(calls=[Call("get_item", {"item": "mug"})])
        if view.turn == 2:
            return Turn(calls=[Call("ask_expert", {"question": "Which discount?"})])
        return Turn(answer="Done.")


@pytest.fixture
def called(monkeypatch):
    """The episodes that a worker was called for."""
    calls = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: calls.append(pk))
    return calls


@pytest.fixture
def queued(ada, called):
    start = launching.LaunchRequest(
        "helpdesk_1", 0, "Price the mug", policy={"awmweb": "script"}, expert="plain", arm="a"
    )
    episode = launching.launch(ada, "nightly", [start]).episodes.get()
    called.clear()
    return episode


def attempt(queued, worker="rollouts@here", *, ask_deadline_s=3600, policy=None, env=None, **more):
    assert recording.begin(queued.pk, worker)
    episode = Episode.objects.select_related("project").get(pk=queued.pk)
    dash = LocalDashboard(access.system(episode.project), queued=episode)
    run = async_to_sync(rollout)
    policy = policy or Asking()
    plan = {"task": episode.task, "expert": "plain", "ask_deadline_s": ask_deadline_s, **more}
    result = run(policy, env or FakeEnv(), dash, **plan)
    queued.refresh_from_db()
    return policy, result


def answer(edo, queued, text="Nine percent."):
    lease = queue.claim(edo, Ask.objects.get(episode=queued).pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, text, "n", [])
    queued.refresh_from_db()
    return lease


def test_a_parked_episode_goes_on_with_its_answer(queued, edo, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    policy, result = attempt(queued)
    assert (result.parked, result.fault, queued.state, queued.worker) == (True, None, "parked", "")
    assert queued.parked_at is not None
    assert ending.lose_of_worker("rollouts@here") == 0
    assert ending.lose_silent(timezone.now() + timedelta(days=2)) == 0
    answer(edo, queued)
    assert (queued.state, called) == ("queued", [queued.pk])
    again, result = attempt(queued, "rollouts@there")
    assert (result.stop_reason, queued.state, queued.attempt) == ("done", "finished", 2)
    assert queued.parked_at is None
    assert again.views[:2] == policy.views
    assert again.views[2].steps[-1]["advice"]["advice"] == "Nine percent."
    kinds = [step["kind"] for step in steps_of(queued) if step["kind"] != "verification"]
    assert kinds == ["message", "message", "tool_call", "ask", "message"]
    verbs = list(queued.events.order_by("pk").values_list("verb", flat=True))
    assert verbs == ["queued", "started", "parked", "unparked", "resumed", "finished"]


class Pricing:
    """Sets two prices in one turn, and then says that it is done."""

    async def act(self, view):
        calls = [Call("set_price", {"item": item, "price": 1.0}) for item in ("mug", "pen")]
        return Turn(content="Both are too dear.", calls=calls) if view.turn == 1 else Turn(answer="Done.")


class Faulty(FakeEnv):
    """Loses its worker at the second price."""

    async def call_tool(self, name, arguments):
        if self.calls.count("set_price") == 1:
            raise KeyboardInterrupt
        return await super().call_tool(name, arguments)


def test_gated_calls_wait_parked_and_run_as_decided(queued, edo, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    _, result = attempt(queued, policy=Pricing(), approve=["set_*"])
    ask = Ask.objects.get(episode=queued)
    assert result.parked and [call["id"] for call in ask.typed["calls"]] == ["1", "2"]
    lease = queue.claim(edo, ask.pk)
    edit = {"id": "1", "verdict": "edit", "arguments": {"item": "mug", "price": 9.0}}
    decision = {"calls": [edit, {"id": "2", "verdict": "approve"}]}
    advising.answer(edo, lease.assignment_id, lease.lease_token, "", "n", decision=decision)
    with pytest.raises(KeyboardInterrupt):  # between the two calls
        attempt(queued, policy=Pricing(), env=Faulty(), approve=["set_*"])
    assert ending.lose_of_worker("rollouts@here") == 1
    env = FakeEnv()
    _, result = attempt(queued, "rollouts@there", policy=Pricing(), env=env, approve=["set_*"])
    assert result.stop_reason == "done" and env.prices == {"mug": 9.0, "pen": 1.0}
    assert Ask.objects.filter(episode=queued).count() == 1
    first, second = [step for step in steps_of(queued) if step["kind"] == "tool_call"]
    assert first["approval"]["proposed"] == {"item": "mug", "price": 1.0}
    assert (first["arguments"]["price"], second["approval"]) == (9.0, {"verdict": "approve", "by": "person"})


def test_a_parked_ask_of_30_days_falls_back_in_the_sweep(queued, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued, ask_deadline_s=30 * 86_400)
    assert closing.close_due(timezone.now() + timedelta(days=29)) == 0
    Ask.objects.filter(episode=queued).update(deadline_at=timezone.now() - timedelta(seconds=1))
    assert closing.close_due() == 1
    queued.refresh_from_db()
    assert (queued.state, called) == ("queued", [queued.pk])
    policy, result = attempt(queued)
    assert result.stop_reason == "done"
    assert policy.views[-1].steps[-1]["advice"]["status"] == "no_advice"


def test_an_answer_taken_back_parks_its_episode_again(queued, edo, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    answer(edo, queued)
    advising.withdraw(edo, Ask.objects.get(episode=queued).pk)
    queued.refresh_from_db()
    assert queued.state == "parked"
    assert not recording.begin(queued.pk, "rollouts@there")
    closing.cancel(access.system(queued.project), Ask.objects.get(episode=queued).pk)
    queued.refresh_from_db()
    assert (queued.state, called) == ("queued", [queued.pk] * 2)


def test_going_on_writes_only_what_is_new(queued, edo, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    answer(edo, queued)
    with CaptureQueriesContext(connection) as asked:
        attempt(queued)
    updates = [table for one in asked for table in re.findall(r'UPDATE "?([a-z]+_[a-z]+)', one["sql"])]
    assert updates == ["episodes_episode", "experts_ask", "episodes_episode"]
    ask = Ask.objects.get(episode=queued)
    assert ask.delivered_at == ask.consumed_at is not None
    assert queued.tools and not any('"tools" =' in one["sql"] for one in asked)


def test_an_answered_episode_is_called_for_once(queued, edo, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    long_ago = timezone.now() - 2 * launching.WAKE_AFTER
    Episode.objects.filter(pk=queued.pk).update(created_at=long_ago)
    answer(edo, queued)
    assert (launching.wake_forgotten(), called) == (0, [queued.pk])
    Episode.objects.filter(pk=queued.pk).update(heartbeat_at=long_ago)
    assert (launching.wake_forgotten(), called) == (1, [queued.pk] * 2)


def test_interrupted_episode_is_called_for_in_the_next_sweep(queued, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    long_ago = timezone.now() - 2 * launching.WAKE_AFTER
    Episode.objects.filter(pk=queued.pk).update(state="waiting", parked_at=None, created_at=long_ago, worker="gone")
    assert ending.lose_of_worker("gone") == 1
    assert (launching.wake_forgotten(), called) == (1, [queued.pk])


@pytest.fixture
def external(ada):
    """An episode of an external loop that waits for its first ask."""
    start = EpisodeStart(key="own-1", task="Price the mug", expert="plain")
    episode, _ = recording.start_episode(ada, start)
    opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Which discount?", deadline_s=86_400))
    return episode


def test_external_episode_parks_until_its_loop_is_back(external, ada, edo, called):
    assert recording.park_now(ada, external.pk).state == "parked"
    assert recording.park_now(ada, external.pk).state == "parked"
    assert ending.lose_silent(timezone.now() + timedelta(days=2)) == 0
    answer(edo, external)
    assert (external.state, called) == ("queued", [])
    assert chips(external, timezone.now()) == [("ask", "answered, waits for its loop")]
    later = timezone.now() + timedelta(days=2)
    assert (ending.lose_silent(later), launching.wake_forgotten(timedelta(0)), called) == (0, 0, [])
    assert not recording.begin(external.pk, "rollouts@here")
    note = {"kind": "note", "content": "read the advice"}
    recording.append_steps(ada, external.pk, [STEP.validate_python({"seq": 2, **note})])
    external.refresh_from_db()
    assert (external.state, external.parked_at) == ("running", None)
    assert ending.lose_silent(later) == 1


def test_step_of_a_parked_loop_makes_silence_count_again(external, ada):
    recording.park_now(ada, external.pk)
    note = {"kind": "note", "content": "still here"}
    recording.append_steps(ada, external.pk, [STEP.validate_python({"seq": 2, **note})])
    external.refresh_from_db()
    assert (external.state, external.parked_at) == ("waiting", None)


def test_park_without_an_open_ask_is_refused(external, ada, max_):
    closing.cancel(ada, Ask.objects.get(episode=external).pk)
    with pytest.raises(AppError, match="does not wait") as refused:
        recording.park_now(ada, external.pk)
    assert (refused.value.code, refused.value.status) == ("not_waiting", 409)
    with pytest.raises(AppError, match="Not found"):
        recording.park_now(max_, external.pk)


def test_cancelling_a_parked_episode_closes_its_ask(queued, ada, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    ending.cancel(ada, queued.pk, "no longer needed")
    queued.refresh_from_db()
    assert (queued.state, Ask.objects.get(episode=queued).status, called) == ("cancelled", "cancelled", [])


def test_an_episode_is_parked_once_it_waited_long_enough(queued, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    Episode.objects.filter(pk=queued.pk).update(state="waiting")
    ask = Ask.objects.get(episode=queued).pk
    settings.AWMWEB_PARK_AFTER_S = 60
    assert not parking.park_if_due(ask, 1, 59.9)
    assert not parking.park_if_due(ask, 2, 61)  # another attempt plays it
    assert parking.park_if_due(ask, 1, 61)
    assert parking.park_if_due(ask, 1, 61)  # again, after an answer that was lost
    assert not parking.park_if_due(ask, 2, 61)


def test_waiting_episodes_park_early_for_queued_ones(queued, ada, settings, monkeypatch):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    Episode.objects.filter(pk=queued.pk).update(state="waiting")
    ask = Ask.objects.get(episode=queued).pk
    settings.AWMWEB_PARK_AFTER_S = 60
    monkeypatch.setattr(parking, "threads", parking.Threads())
    parking.threads.all = 1
    with parking.threads.occupy():
        assert not parking.park_if_due(ask, 1, 2)
        start = launching.LaunchRequest("helpdesk_1", 1, "Another", policy={"awmweb": "script"})
        launching.launch(ada, "more", [start])
        assert not parking.park_if_due(ask, 1, 0.1)
    assert not parking.park_if_due(ask, 1, 2)  # a thread is free
    with parking.threads.occupy():
        assert parking.park_if_due(ask, 1, 2)


def test_an_agent_cannot_take_a_parked_episode_over(queued, settings, project):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    with pytest.raises(AppError):
        recording.heartbeat(access.system(project), queued.pk, attempt=0)
    queued.refresh_from_db()
    assert queued.state == "parked"


def test_interrupted_episode_stays_queued_without_its_answer(queued, edo, called, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    attempt(queued)
    Episode.objects.filter(pk=queued.pk).update(state="waiting", parked_at=None, worker="rollouts@here")
    assert ending.lose_of_worker("rollouts@here") == 1
    answer(edo, queued)
    advising.withdraw(edo, Ask.objects.get(episode=queued).pk)
    queued.refresh_from_db()
    assert queued.state == "queued"


def test_withdrawn_answer_keeps_an_episode_parked_for_another(ada, edo, called):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="two", task="t", expert="plain"))
    asks = [
        opening.open_ask(ada, AskOpen(key=f"q{seq}", episode=episode.pk, seq=seq, question="Which?"))[0]
        for seq in (1, 2)
    ]
    recording.park_now(ada, episode.pk)
    lease = queue.claim(edo, asks[0].pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "This one.", "n")
    advising.withdraw(edo, asks[0].pk)
    assert Episode.objects.get(pk=episode.pk).state == "parked"
    assert ending.lose_silent(timezone.now() + timedelta(days=1)) == 0
