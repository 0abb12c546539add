"""The simulated human: a registry answers the questions that match it, and nothing else, without a person."""

from __future__ import annotations

import pytest

from awmclient.schema import AskOpen, Finish, Outcome
from awmenv.blockers import CANT_ANSWER
from episodes.models import Episode
from episodes.record import ending, recording
from episodes.stored.packs import blockers_of
from experts import endings
from experts.models import Ask, AskEvent
from experts.record import opening
from experts.who.cached import known_answer
from notices.models import Delivery
from people.access import system
from runs.errors import BadPlan
from runs.launch import launching, planning
from runs.show.asking import asking_of
from runs.show.comparison import compare_run
from tests.runs.planned import document, launched

pytestmark = pytest.mark.django_db(transaction=True)
TASK, CONTACT = "helpdesk_1/1", "Which agent is the contact of Hotel Aurelia?"
ARMS = [{"name": "people", "expert": "plain"}, {"name": "registry", "expert": "plain", "experts": "registry"}]


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)


def begun(actor, arm):
    plan = launched(actor, arms=ARMS, tasks=[TASK])
    episode = plan.tries.get(arm__name=arm).episode
    assert recording.begin(episode.pk, "w")
    return episode


def ask(actor, episode, question, **more):
    wanted = AskOpen(key=question, episode=episode.pk, seq=more.pop("seq"), question=question, deadline_s=300, **more)
    found, _ = opening.open_ask(system(actor.project), wanted)
    return Ask.objects.select_related("accepted", "episode").get(pk=found.pk)


def test_registry_answers_matches_and_refuses_all_others(ada, edo):
    episode = begun(ada, "registry")
    [blocker] = blockers_of("helpdesk_1", 1)
    right, wrong = ask(ada, episode, CONTACT, seq=1), ask(ada, episode, "May I go home?", seq=2)
    assert (right.status, right.blocker, right.accepted.text) == ("answered", "contact", blocker.answer)
    assert (wrong.status, wrong.blocker, wrong.accepted.text) == ("answered", "", CANT_ANSWER)
    assert right.accepted.value().observation() == {"status": "advice", "advice": blocker.answer}
    assert endings.headline(right) == "The script registry of blockers answered in under 1 s."
    assert Episode.objects.get(pk=episode.pk).state == "running"
    assert not Delivery.objects.exists() and not AskEvent.objects.filter(verb="to_people").exists()
    ending.finish(system(ada.project), episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(system(ada.project), episode.pk, Outcome(reward_type="complete", reward=1.0))
    found = next(one for one in asking_of(compare_run(ada, episode.run_id)).arms if one.arm == "registry")
    assert (found.asks, found.matched, found.found, found.human_s) == (2, 1, 1, 0)


def test_typed_asks_and_other_arms_still_reach_people(ada, edo):
    episode = begun(ada, "registry")
    options = {"kind": "choice", "options": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]}
    assert ask(ada, episode, "Which one?", seq=1, **options).status == "open"
    other = begun(ada, "people")
    asked = ask(ada, other, CONTACT, seq=1)
    assert (asked.status, asked.blocker) == ("open", "contact")


def test_answer_of_a_registry_is_reused_for_no_one(ada, edo):
    ask(ada, begun(ada, "registry"), "May I go home?", seq=1)
    assert known_answer(ask(ada, begun(ada, "people"), "May I go home?", seq=1), "all") is None


@pytest.mark.parametrize(
    ("arm", "why"),
    [
        ({"expert": "off", "experts": "registry"}, "has an expert"),
        ({"expert": "plain", "experts": "registry", "people": 0.5}, "no share of people"),
        ({"expert": "plain", "experts": "people"}, "registry"),
    ],
)
def test_registry_that_cannot_answer_is_refused(arm, why):
    with pytest.raises(BadPlan, match=why):
        document(arms=[{"name": "one", **arm}])


def test_registry_where_no_task_has_one_is_refused(ada):
    with pytest.raises(BadPlan, match="The arm registry asks the registry of blockers, and no task"):
        planning.launch(ada, document(arms=ARMS, tasks=["helpdesk_1/0"]))
    planning.launch(ada, document(arms=ARMS, tasks=["helpdesk_1/0", TASK]))
