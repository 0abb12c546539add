"""What a decline leads to is on the page before the press, and what it led to after it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from experts.models import Ask
from experts.record import desk, queue
from experts.who import declining
from people.models import Membership
from tests.browsing import as_person, html
from tests.people_by_name import person


def before(actor, ask):
    return declining.before_of(Ask.objects.get(pk=ask.pk), actor.key, timezone.now())


def after_decline(actor, ask):
    claim = queue.claim(actor, ask.pk)
    page = as_person(actor)
    shown = html(page.get(f"/asks/{ask.pk}/"))
    done = page.post(f"/asks/{ask.pk}/pass", {"lease_token": claim.lease_token}, follow=True)
    return shown, html(done)


@pytest.fixture
def alone(ada, edo):
    """Ada is the only one who can answer."""
    Membership.objects.filter(user=edo.person).delete()
    return ada


def test_decline_of_the_only_expert_says_the_agent_goes_on(asked, alone):
    ask = asked()
    words = "You are the only one who can answer. The agent goes on without advice."
    assert before(alone, ask) == words
    shown, done = after_decline(alone, ask)
    assert words in shown and "Others can still answer" not in shown
    assert Ask.objects.get(pk=ask.pk).status == "fell_back"
    assert "Declined. No one else can answer. The agent goes on without advice." in done
    assert "Others can still answer" not in done


def test_decline_in_the_queue_says_the_same(asked, alone):
    ask = asked()
    page = as_person(alone)
    assert "You are the only one who can answer." in html(page.get("/queue/"))
    said = page.post(f"/queue/{ask.pk}/pass", headers={"accept": "application/json"}).json()["said"]
    assert said == "Declined. No one else can answer. The agent goes on without advice."


def test_decline_of_an_approval_names_its_default(asked, alone):
    calls = [{"id": "c1", "name": "refund", "arguments": {"amount": 3}}]
    alone_words = "You are the only one who can answer. "
    silent = asked(kind="approval", calls=calls)
    assert before(alone, silent) == f"{alone_words}The agent goes on without advice."
    rejects = asked(kind="approval", calls=calls, on_timeout="reject")
    assert before(alone, rejects) == f"{alone_words}The agent gets the default: reject."


@pytest.mark.parametrize(("here", "words"), [(True, ""), (False, ", but none of them is online")])
def test_decline_with_others_says_whether_they_are_online(asked, ada, edo, here, words):
    if here:
        desk.seen(ada)
    ask = asked()
    assert before(edo, ask) == f"Others can still answer{words}."
    _, done = after_decline(edo, ask)
    assert f"Declined. Others can still answer{words}." in done
    assert f"You declined. Others can still answer{words}." in html(as_person(edo).get(f"/asks/{ask.pk}/"))


def test_decline_that_goes_to_a_model_says_so(asked, ada, edo, models):
    ask = asked()
    assert before(edo, ask) == "No one else is online. The ask goes to the model."
    assert "Declined. The ask is with the model now." in after_decline(edo, ask)[1]
    assert "You declined. The ask is with the model now." in html(as_person(edo).get(f"/asks/{ask.pk}/"))


def test_a_skill_of_one_makes_them_the_only_expert(asked, ada, edo):
    Membership.objects.filter(user=edo.person).update(skills=["tax"])
    ask = asked(skills=["tax"])
    assert before(edo, ask).startswith("You are the only one who can answer.")
    assert before(ada, ask) == "Others can still answer, but none of them is online."


def test_release_says_whether_anyone_else_can_claim(asked, ada, edo, project):
    ask, page = asked(), as_person(edo)
    token = queue.claim(edo, ask.pk).lease_token
    done = page.post(f"/asks/{ask.pk}/release", {"lease_token": token}, follow=True)
    assert "Released. Others can claim it." in html(done)
    person(project, "pia", "reviewer")
    Membership.objects.filter(user=ada.person).delete()
    fields = {"lease_token": queue.claim(edo, ask.pk).lease_token}
    said = page.post(f"/queue/{ask.pk}/release", fields, headers={"accept": "application/json"}).json()["said"]
    assert said == "Released. No one else can claim it."


def test_sending_to_a_model_says_what_follows_it(asked, edo, models):
    ask = asked()
    Ask.objects.filter(pk=ask.pk).update(tiers=["people"])
    queue.claim(edo, ask.pk)
    page = " ".join(html(as_person(edo).get(f"/asks/{ask.pk}/")).split())
    assert "otherwise the agent goes on without advice." in page
    Ask.objects.filter(pk=ask.pk).update(tiers=["llm", "people"])
    page = " ".join(html(as_person(edo).get(f"/asks/{ask.pk}/")).split())
    assert "otherwise the ask returns to people." in page
