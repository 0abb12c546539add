"""Asks answered by a person's own token: what the desk asks of a person, it asks of their token."""

from __future__ import annotations

import pytest
from django.utils import timezone

from experts.errors import AlreadyClaimed, AlreadyDeclined, AtCapacity, NotForYou
from experts.find.my_answers import my_answers
from experts.find.reading import active_standing
from experts.models import Advice, Ask, Presence, by_program
from experts.record import advising, desk, queue
from experts.who import online
from people.access import bearer
from people.models import Membership, TokenUser
from people.record import members
from tests.experts.test_looking import BACK, look  # noqa: F401
from tests.experts.test_standing_answers import REPLY, approval, give
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")


@pytest.fixture
def own(edo):
    """Edo by a token of his own, which a program uses."""
    return bearer(members.issue_token(edo, "cli", "expert", personal=True)[0])


def answered(actor, ask, text="Into 9."):
    lease = queue.claim(actor, ask.pk)
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n")


def test_token_has_the_skills_of_its_person(edo, own, asked):
    ask = asked(skills=["refunds"])
    for actor in (edo, own):
        with pytest.raises(NotForYou):
            queue.claim(actor, ask.pk)
    Membership.objects.filter(user=edo.person).update(skills=["refunds"])
    assert answered(own, ask).author_key == edo.key


def test_token_of_another_is_not_the_senior(ada, own, asked):
    ask = asked()
    desk.set_policy(ada, senior=Membership.objects.get(user=ada.person))
    Ask.objects.filter(pk=ask.pk).update(tier="senior", tiers=["senior"])
    with pytest.raises(NotForYou):
        queue.claim(own, ask.pk)


def test_decline_counts_for_person_and_token(edo, own, asked, project):
    person(project, "lea", "expert")
    for first, second in ((edo, own), (own, edo)):
        ask = asked()
        queue.decline_unclaimed(first, ask.pk, "not mine")
        with pytest.raises(AlreadyDeclined):
            queue.claim(second, ask.pk)


def test_claims_of_token_and_person_have_one_limit(ada, edo, own, asked):
    desk.set_policy(ada, capacity=1)
    queue.claim(edo, asked().pk)
    with pytest.raises(AtCapacity):
        queue.claim(own, asked().pk)


def test_token_takes_no_claim_from_a_page_of_its_person(edo, own, asked):
    ask = asked()
    queue.claim(edo, ask.pk)
    with pytest.raises(AlreadyClaimed):
        queue.claim(own, ask.pk)
    other = asked()
    first = queue.claim(own, other.pk)
    assert queue.claim(edo, other.pk).lease_token != first.lease_token


def test_second_look_at_a_token_is_overruled_by_anyway(look, edo, asked, client):  # noqa: F811
    look(BACK)
    secret = members.issue_token(edo, "other", "expert", personal=True)[1]
    ask = asked()

    def call(path, body):
        head = {"authorization": f"Bearer {secret}"}
        return client.post(f"/api/v1{path}", body, content_type="application/json", headers=head)

    lease = call(f"/asks/{ask.pk}/claim", {}).json()
    body = {"lease_token": lease["lease_token"], "text": "Into 9.", "nonce": "n"}
    path = f"/assignments/{lease['assignment']}/answer"
    refused = call(path, body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "second_look_model")
    assert call(path, {**body, "anyway": True}).status_code == 200
    assert Advice.objects.get(ask=ask).overruled


def test_answers_of_a_token_are_its_persons_by_a_program(edo, own, asked):
    by_script = answered(own, asked())
    app = bearer(members.issue_token(edo, "app", "expert", behind=TokenUser.PERSON, personal=True)[0])
    by_hand = answered(app, asked())
    assert [one.ask.pk for one in my_answers(edo)] == [by_hand.ask_id, by_script.ask_id]
    assert (by_script.is_by_script, by_hand.is_by_script) == (True, False)
    assert list(Advice.objects.filter(by_program())) == [by_script]
    assert Advice.objects.filter(by_program("ask__accepted__")).get() == by_script


def test_person_is_present_by_a_token_that_answers_alone(edo, project):
    reader = bearer(members.issue_token(edo, "reads", "read", personal=True)[0])
    desk.seen(reader)
    assert not Presence.objects.exists()
    desk.seen(bearer(members.issue_token(edo, "answers", "answer", personal=True)[0]))
    assert list(online.here(project, timezone.now()).values_list("actor_key", flat=True)) == [edo.key]


def test_standing_answer_of_a_token_ends_with_the_token(edo, asked, ada):
    token, _ = members.issue_token(edo, "cli", "expert", personal=True)
    of_token, of_person = give(bearer(token))[0], give(edo, tool="add_note")[0]
    assert asked(**approval(REPLY)).accepted.standing_id == of_token.pk
    members.revoke_token(edo, token.pk)
    assert active_standing(ada) == [of_person]
    assert asked(**approval(REPLY)).is_open
    assert asked(**approval(REPLY, name="add_note")).accepted.standing_id == of_person.pk
