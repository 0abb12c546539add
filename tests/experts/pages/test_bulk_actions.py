"""What can be done to asks from the queue without answering them: pass, set a priority, hand over, cancel."""

from __future__ import annotations

import pytest
from django.utils import timezone

from experts.errors import AlreadyClaimed, AlreadyDeclined, LeaseLost, TooLate
from experts.models import Advice, Ask, AskEvent, Decline
from experts.record import advising, closing, desk, queue
from people.access import expert_model
from people.errors import Forbidden, Invalid, NotFound
from people.models import Membership
from tests.asking import MODEL


def fresh(ask):
    return Ask.objects.select_related("assignment").get(pk=ask.pk)


def last(ask):
    return AskEvent.objects.filter(ask=ask).order_by("-pk").values_list("verb", "reason", "actor").first()


def test_a_priority_is_set_and_logged_once(asked, ada):
    ask = asked()
    for _ in range(2):
        queue.set_priority(ada, ask.pk, 7)
    assert fresh(ask).priority == 7
    assert list(AskEvent.objects.filter(ask=ask, verb="priority").values_list("reason", "actor")) == [("0 to 7", "ada")]


@pytest.mark.parametrize("priority", [101, -101])
def test_a_priority_out_of_bounds_is_refused_in_words(asked, ada, priority):
    with pytest.raises(Invalid, match="from -100 to 100"):
        queue.set_priority(ada, asked().pk, priority)


def test_model_claim_can_go_to_people_and_late_text_is_kept(asked, ada, edo, models, project):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask, model = asked(), expert_model(project, MODEL)
    _, lease = queue.claim_for_model(model)
    queue.transfer(ada, ask.pk, "people")
    assert (fresh(ask).tier, fresh(ask).tier_reason, last(ask)) == ("people", "handed", ("to_people", "handed", "ada"))
    with pytest.raises(LeaseLost):
        advising.answer(model, lease.assignment_id, lease.lease_token, "The oldest.", "")
    assert Advice.objects.get(ask=ask).late and queue.claim(edo, ask.pk)


def test_what_a_person_holds_is_not_handed_over(asked, ada, edo, models):
    ask = asked()
    queue.claim(edo, ask.pk)
    with pytest.raises(AlreadyClaimed, match="edo has claimed this ask"):
        queue.transfer(ada, ask.pk, "llm")
    assert fresh(ask).tier == "people"


def test_an_ask_is_handed_to_the_model_once(asked, ada, models):
    ask = asked()
    for _ in range(2):
        queue.transfer(ada, ask.pk, "llm")
    assert fresh(ask).tier == "llm" and AskEvent.objects.filter(ask=ask, verb="to_llm").count() == 1


def test_a_model_that_passed_is_not_asked_again(asked, ada, edo, models, project):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask, model = asked(), expert_model(project, MODEL)
    _, lease = queue.claim_for_model(model)
    desk.seen(edo)
    queue.decline(model, lease.assignment_id, lease.lease_token, "low_confidence")
    assert fresh(ask).tier == "people"
    with pytest.raises(Invalid, match="already declined this ask"):
        queue.transfer(ada, ask.pk, "llm")
    own = queue.claim(edo, ask.pk)
    with pytest.raises(Invalid, match="already declined this ask"):
        queue.escalate(edo, own.assignment_id, own.lease_token, "llm", "over to you")


@pytest.mark.parametrize(
    ("to", "words"),
    [("llm", "No expert model is available"), ("senior", "has no senior expert"), ("cache", "can be transferred to")],
)
def test_an_ask_is_handed_to_nobody_who_cannot_take_it(asked, ada, to, words):
    with pytest.raises(Invalid, match=words):
        queue.transfer(ada, asked().pk, to)


def test_declining_from_the_queue_needs_no_claim(asked, ada, edo):
    ask = asked()
    for _ in range(2):
        queue.decline_unclaimed(edo, ask.pk, "not my field")
    assert list(Decline.objects.values_list("author", "reason")) == [("edo", "not my field")]
    with pytest.raises(AlreadyDeclined):
        queue.claim(edo, ask.pk)
    assert queue.claim(ada, ask.pk)


def test_passing_on_what_one_holds_gives_it_back(asked, ada, edo):
    ask = asked()
    queue.claim(edo, ask.pk)
    queue.decline_unclaimed(edo, ask.pk)
    assert fresh(ask).assignment.state == "queued"


def test_who_holds_an_ask_keeps_it_while_all_others_pass(asked, ada, edo):
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    queue.decline_unclaimed(edo, ask.pk)
    assert advising.answer(ada, lease.assignment_id, lease.lease_token, "The oldest.", "n").late is False


def test_the_last_one_who_passes_from_the_queue_moves_the_ask_on(asked, ada, edo):
    ask = asked()
    queue.decline_unclaimed(edo, ask.pk)
    queue.decline_unclaimed(ada, ask.pk)
    assert (fresh(ask).status, fresh(ask).reason) == ("fell_back", "declined")


def test_passing_on_a_models_ask_does_not_take_it_from_the_model(asked, ada, edo, models):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask = asked()
    queue.decline_unclaimed(edo, ask.pk)
    queue.decline_unclaimed(ada, ask.pk)
    assert (fresh(ask).tier, fresh(ask).status) == ("llm", "open")


def test_a_closed_ask_is_left_alone(asked, ada, edo):
    ask = asked()
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    for action in (
        lambda: queue.decline_unclaimed(edo, ask.pk),
        lambda: queue.transfer(ada, ask.pk, "people"),
        lambda: queue.set_priority(ada, ask.pk, 1),
    ):
        with pytest.raises(TooLate):
            action()


def test_a_stranger_steers_nothing_and_an_expert_may_only_pass(asked, ada, edo, rita, max_, project):
    desk.set_policy(ada, senior=Membership.objects.get(user=ada.person, project=project))
    ask = asked()
    for who, refusal in ((max_, NotFound), (edo, Forbidden), (rita, Forbidden)):
        with pytest.raises(refusal):
            queue.transfer(who, ask.pk, "senior")
        with pytest.raises(refusal):
            queue.set_priority(who, ask.pk, 9)
        with pytest.raises(refusal):
            closing.cancel(who, ask.pk, "desk")
    for who, refusal in ((max_, NotFound), (rita, Forbidden)):
        with pytest.raises(refusal):
            queue.decline_unclaimed(who, ask.pk)
    assert (fresh(ask).tier, fresh(ask).priority, fresh(ask).status) == ("people", 0, "open")
