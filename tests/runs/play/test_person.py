"""A person plays an episode as its agent: it waits and parks as for an ask, and its record is that of any agent."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv
from episodes.models import Episode
from episodes.record import ending, recording
from episodes.visible.trajectory import steps_of
from experts.models import Ask
from people import access
from people.errors import Invalid
from runs.errors import BadPlan, NotForkable, WrongState
from runs.launch import launching, preflight
from runs.models import PersonTurn
from runs.play import forking, person, playing
from runs.play.local import LocalDashboard
from tests.browsing import as_person, html
from tests.runs.planned import document, launched

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def called(monkeypatch, settings):
    """The episodes that a worker was called for; a wait parks at once."""
    settings.AWMWEB_PARK_AFTER_S = 0
    calls = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: calls.append(pk))
    return calls


@pytest.fixture
def queued(ada, called):
    policy = launching.policy_named("person")
    start = launching.LaunchRequest("helpdesk_1", 0, "Price the mug", policy=policy, arm="person", expert="plain")
    return launching.launch(ada, "nightly", [start]).episodes.get()


def attempt(queued):
    assert recording.begin(queued.pk, "rollouts@here")
    episode = Episode.objects.select_related("project").get(pk=queued.pk)
    dash = LocalDashboard(access.system(episode.project), queued=episode)
    result = async_to_sync(rollout)(
        playing.policy_of(episode), FakeEnv(), dash, task=episode.task, expert="plain", nudge_after=0, stall_after=0
    )
    queued.refresh_from_db()
    return result


def post(person_, queued, **fields):
    return as_person(person_).post(f"/episodes/{queued.pk}/play", fields)


def test_person_plays_an_episode_and_the_record_is_an_agents(ada, edo, rita, queued, called):
    assert attempt(queued).parked and queued.state == "parked"
    page = html(as_person(edo).get(f"/episodes/{queued.pk}/play?tool=get_item"))
    assert "Price the mug" in page and 'name="field:0"' in page and "Call get_item" in page
    assert re.findall(r'aria-current="page"\s*>.*?([A-Z]\w+)</a>', page, re.S)[:1] == ["Episodes"]
    called.clear()
    assert post(edo, queued, number=1, tool="get_item", act="call", **{"field:0": "mug"}).status_code == 302
    queued.refresh_from_db()
    assert (queued.state, called) == ("queued", [queued.pk])
    assert post(edo, queued, number=1, tool="get_item", act="call", **{"field:0": "mug"}).status_code == 302, "a repeat"
    other = post(edo, queued, number=1, tool="get_item", act="call", **{"field:0": "cup"})
    assert other.status_code == 409 and "Turn 1 was sent from another page" in html(other)
    assert attempt(queued).parked
    page = html(as_person(edo).get(f"/episodes/{queued.pk}/play"))
    assert "item: mug" in page and "Turn 2" in page
    assert post(rita, queued, number=2, act="answer", answer="9").status_code == 403, "reviewers do not play"
    refused = post(ada, queued, number=2, act="answer", answer="9")
    assert refused.status_code == 409 and "edo acts in this episode" in html(refused)
    assert list(person.to_play(edo)) == [queued] and not person.to_play(ada).exists()
    post(edo, queued, number=2, act="answer", answer="It costs 9.")
    result = attempt(queued)
    assert (result.stop_reason, queued.final_answer, queued.state) == ("done", "It costs 9.", "finished")
    steps = steps_of(queued)
    [call] = [step for step in steps if step["kind"] == "tool_call"]
    assert (call["name"], call["arguments"], call["turn"]) == ("get_item", {"item": "mug"}, 1)
    assert not Ask.objects.exists() and queued.policy_kind == "person"
    assert {one.author for one in PersonTurn.objects.all()} == {"edo"}
    assert "The episode has ended" in html(as_person(edo).get(f"/episodes/{queued.pk}/play"))


def test_turn_that_cannot_be_is_refused_and_kept(ada, edo, queued):
    attempt(queued)
    for said in ({"call": {"name": "rm", "arguments": {}}}, {"answer": " "}, {"answer": "x" * 20_001}):
        with pytest.raises(Invalid):
            person.say(edo, queued.pk, 1, said)
    with pytest.raises(WrongState):
        person.say(edo, queued.pk, 2, {"answer": "x" * 20_000})
    assert post(edo, queued, number="x", act="answer", answer="kept").status_code == 422
    again = post(edo, queued, number=1, act="dance", answer="kept")
    assert again.status_code == 422 and "kept" in html(again)
    other = launching.launch(ada, "of a script", [launching.LaunchRequest("helpdesk_1", 0, "t", policy={})])
    pk = other.episodes.get().pk
    assert as_person(edo).get(f"/episodes/{pk}/play").status_code == 404
    with pytest.raises(WrongState, match="No person acts"):
        person.say(edo, pk, 1, {"answer": "x"})


def test_asked_expert_pauses_the_players_turn(ada, edo, queued):
    attempt(queued)
    person.say(edo, queued.pk, 1, {"call": {"name": "ask_expert", "arguments": {"question": "Which mug?"}}})
    assert attempt(queued).parked and Ask.objects.get().question == "Which mug?"
    with pytest.raises(WrongState, match="does not wait"):
        person.say(edo, queued.pk, 2, {"answer": "x"})
    assert "Your question waits for an answer." in html(as_person(edo).get(f"/episodes/{queued.pk}/play"))


@pytest.mark.parametrize("taken_over", [False, True])
def test_wait_ends_with_its_attempt(ada, queued, monkeypatch, taken_over):
    looked = []

    def meanwhile(*_):
        looked.append(1)
        assert len(looked) == 1, "it waits on and holds its thread"
        if taken_over:
            Episode.every.filter(pk=queued.pk).update(attempt=2)
        else:
            ending.cancel(ada, queued.pk, "enough")
        return False

    monkeypatch.setattr(person, "_park_if_due", meanwhile)
    assert attempt(queued).stopped and queued.state == ("waiting" if taken_over else "cancelled")


def test_own_episodes_come_first_and_branch_nowhere(ada, edo, queued):
    start = launching.LaunchRequest("helpdesk_1", 0, "t", policy=launching.policy_named("person"))
    later = launching.launch(ada, "later", [start]).episodes.get()
    attempt(queued)
    attempt(later)
    assert list(person.to_play(edo)) == [queued, later]
    person.say(edo, later.pk, 1, {"call": {"name": "get_item", "arguments": {"item": "mug"}}})
    attempt(later)
    assert list(person.to_play(edo)) == [later, queued] and list(person.to_play(ada)) == [queued]
    assert list(person.to_play(edo, queued.run_id)) == [queued]
    person.say(edo, later.pk, 2, {"gave_up": True})
    assert attempt(later).stop_reason == "gave_up"
    with pytest.raises(NotForkable, match="A person acted in this episode"):
        forking.parent_of(ada, later.pk)


def test_preflight_plays_an_arm_without_a_person():
    plan = document(arms=[{"name": "person", "person": True}, {"name": "script"}])
    tasks = [("helpdesk_1", 0, "t")]
    assert [arm.name for arm in preflight.trial(plan, tasks).arms] == ["script"]
    alone = document(arms=[{"name": "person", "policy": "person"}])
    assert alone.arms[0].person is True
    with pytest.raises(BadPlan, match="an arm of an agent"):
        preflight.trial(alone, tasks)
    with pytest.raises(BadPlan, match="single arms"):
        document(policy="person")


def test_forgotten_episode_ends_as_given_up(ada, edo, queued):
    attempt(queued)
    almost = timezone.now() + person.FORGOTTEN - timedelta(minutes=1)
    assert person.give_up_forgotten(almost) == 0
    assert person.give_up_forgotten(almost + timedelta(minutes=2)) == 1
    assert attempt(queued).stop_reason == "gave_up"


def test_arm_of_a_person_is_planned_and_names_no_policy(ada, edo, called):
    plan = launched(ada, arms=[{"name": "script"}, {"name": "person", "person": True}], tasks=["helpdesk_1/0"])
    episode = plan.tries.get(arm__name="person").episode
    assert episode.policy["awmweb"] == "person" and plan.document["arms"][1]["policy"] == "person"
    assert document(**plan.document).digest == plan.digest, "the plan as YAML launches the same"
    with pytest.raises(BadPlan, match="names no policy"):
        document(arms=[{"name": "person", "person": True, "policy": "model"}])
    attempt(episode)
    assert "Act in 1" in html(as_person(edo).get(f"/runs/{plan.pk}/"))
    assert as_person(edo).get(f"/runs/{plan.pk}/play").url.endswith(f"/episodes/{episode.pk}/play")
