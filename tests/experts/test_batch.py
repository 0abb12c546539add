"""Approvals that one press decides: which may be together, what each agent gets, and what is refused."""

from __future__ import annotations

import json

import pytest

from episodes.models import Episode, Run
from experts.models import Ask, StandingAnswer
from experts.record import batch, desk, queue
from experts.rules import risk
from people.errors import AppError, Forbidden, Invalid
from people.models import AuditEntry
from tests.browsing import as_person
from tests.experts.test_standing_answers import BROKEN, REPLY, approval, give


def verdicts(*asks):
    found = Ask.objects.select_related("accepted").in_bulk([one.pk for one in asks])
    return [found[one.pk].accepted and found[one.pk].accepted.value().decision.calls[0].verdict for one in asks]


def test_equal_calls_are_approved_by_one_press(edo, asked):
    asks = [asked(**approval({**REPLY, "ticket": number})) for number in range(5)]
    said = batch.decide(edo, [one.pk for one in asks], "approve", "", "n")
    assert said == {one.pk: "" for one in asks} and verdicts(*asks) == ["approve"] * 5
    again = batch.decide(edo, [one.pk for one in asks], "approve", "", "n")
    assert set(again.values()) == {""}, "the same press again"
    assert all(one.advice.count() == 1 for one in asks)
    other = batch.decide(edo, [one.pk for one in asks], "reject", "Too much.", "n")
    assert all("another answer" in why for why in other.values()), "not said to be rejected: it was approved"
    assert verdicts(*asks) == ["approve"] * 5


def test_calls_are_rejected_with_one_reason_each_agent_gets(edo, asked):
    asks = [asked(**approval(REPLY, name=name)) for name in ("send_reply", "delete_branch")]
    batch.decide(edo, [one.pk for one in asks], "reject", "Use the template.", "n")
    calls = [one.accepted.value().decision.calls[0] for one in Ask.objects.all()]
    assert {(call.verdict, call.reason) for call in calls} == {("reject", "Use the template.")}


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([approval(REPLY, name="close")], "of 2 tools"),
        ([approval(REPLY, REPLY)], "single call"),
        ([{}], "Only approvals can be"),
        ([approval(REPLY), {**approval(REPLY), "expert": "informed"}], "blind and some see"),
    ],
)
def test_asks_that_are_not_equal_are_not_approved_together(edo, asked, others, why):
    asks = [asked(**typed) for typed in (approval(REPLY), *others)]
    with pytest.raises(Invalid, match=why):
        batch.decide(edo, [one.pk for one in asks], "approve", "", "n")
    assert Ask.objects.filter(status="open").count() == len(asks)


def test_high_risk_calls_are_approved_one_by_one(ada, edo, asked):
    first, second = asked(**approval(REPLY, name="create_refund")), asked(**approval(REPLY, name="create_refund"))
    with pytest.raises(Invalid, match="create_refund is of high risk"):
        batch.decide(edo, [first.pk, second.pk], "approve", "", "n")
    with pytest.raises(Invalid, match="of high risk"):
        give(edo, tool="create_refund")
    desk.set_policy(ada, high_risk="")
    given, answered = give(edo, tool="create_refund", at_most=3)
    assert answered == 2
    desk.set_policy(ada, high_risk="*REFUND*")
    assert asked(**approval(REPLY, name="create_refund")).is_open, "a tool that became one ends what was given"


def test_taken_and_closed_asks_are_named_and_the_others_decided(edo, ada, asked):
    taken, closed, left = (asked(**approval(REPLY)) for _ in range(3))
    queue.claim(ada, taken.pk)
    batch.decide(edo, [closed.pk], "reject", "no", "first")
    said = batch.decide(edo, [taken.pk, closed.pk, left.pk], "approve", "", "n")
    assert said[left.pk] == "" and "claimed" in said[taken.pk].lower() and said[closed.pk]
    assert verdicts(taken, closed, left) == [None, "reject", "approve"]


def test_only_those_who_answer_decide_together(rita, edo, asked):
    ask = asked(**approval(REPLY))
    with pytest.raises(Forbidden):
        batch.decide(rita, [ask.pk], "approve", "", "n")
    for verdict, reason in (("edit", ""), ("reject", " ")):
        with pytest.raises(AppError):
            batch.decide(edo, [ask.pk], verdict, reason, "n")
    with pytest.raises(Invalid, match="at most 100"):
        batch.decide(edo, [ask.pk] * 101, "approve", "", "n")


def test_page_says_how_many_were_decided_and_keeps_the_rest(edo, ada, asked):
    asks = [asked(**approval(REPLY)) for _ in range(3)]
    queue.claim(ada, asks[0].pk)
    body = {"ask": [one.pk for one in asks], "verdict": "approve", "nonce": "n", "back": "?kind=approval"}
    page = as_person(edo).post("/queue/decide", body, follow=True)
    text = page.content.decode()
    assert "Approved 2 calls." in text and "1 not decided" in text and asks[0].pk in text
    assert page.redirect_chain[-1][0].endswith("?kind=approval")


def test_batch_approves_no_call_that_breaks_its_schema(edo, asked):
    typed = approval(REPLY)
    typed["calls"][0]["schema"] = BROKEN
    asks = [asked(**approval(REPLY)), asked(**typed)]
    with pytest.raises(Invalid, match="do not fit its tool: ticket is not of type string. Decide it on its page"):
        batch.decide(edo, [ask.pk for ask in asks], "approve", "", "n")
    assert all(ask.is_open for ask in Ask.objects.all())
    assert batch.decide(edo, [ask.pk for ask in asks], "reject", "No.", "n") == {ask.pk: "" for ask in asks}


def ahead(asks, **more):
    return {"ask": [one.pk for one in asks], "verdict": "ahead", "hours": "1", "at_most": "3", "nonce": "n", **more}


def test_calls_like_the_approved_ones_are_approved_ahead(edo, asked):
    asks = [asked(**approval({**REPLY, "ticket": number})) for number in range(2)]
    other = asked(**approval({**REPLY, "template": "other"}))
    page = as_person(edo)
    form = page.get("/queue/ahead", {"ask": [one.pk for one in asks]}, headers={"HX-Request": "true"}).content.decode()
    assert 'value="template"' in form and 'value="ticket"' not in form, "only what all of them share"
    for _ in range(2):  # the same press again
        page.post("/queue/decide", ahead(asks, same=["template", "ticket"]), follow=True)
    standing = StandingAnswer.objects.get()
    assert (standing.arguments, standing.at_most, standing.author) == ({"template": "refund"}, 3, "edo")
    assert AuditEntry.objects.filter(verb="standing_answer.given", target=standing.pk).count() == 1
    like = asked(**approval({**REPLY, "ticket": 9}))
    assert like.accepted.by == "standing" and verdicts(*asks, other) == ["approve", "approve", None]
    page.post(f"/queue/standing/{standing.pk}/end")
    assert asked(**approval({**REPLY, "ticket": 10})).is_open, "undone"


@pytest.mark.parametrize(("form", "is_open"), [({}, True), ({"further": "on"}, False)])
def test_ahead_leaves_calls_with_further_arguments_to_people(edo, asked, form, is_open):
    asks = [asked(**approval({**REPLY, **other})) for other in ({"ticket": 1}, {"note": "a"})]
    page = as_person(edo)
    shown = page.get("/queue/ahead", {"ask": [one.pk for one in asks]}, headers={"HX-Request": "true"}).content.decode()
    assert "ticket, note</span> can have any value" in shown and 'name="further"' in shown
    page.post("/queue/decide", ahead(asks, same=["template"], **form), follow=True)
    assert not asked(**approval({"template": "refund", "note": "b", "ticket": 7})).is_open
    assert asked(**approval({**REPLY, "bcc": "x@example.com"})).is_open is is_open


def test_ahead_of_a_batch_refuses_before_it_approves(edo, asked):
    risky = [asked(**approval(REPLY, name="create_refund")) for _ in range(2)]
    fit = [asked(**approval(REPLY)) for _ in range(2)]
    page = as_person(edo)
    for body, why in (
        (ahead(risky), "create_refund is of high risk"),
        (ahead(fit, at_most="0"), "from 1 to 100,000"),
        (ahead(fit, at_most="many"), "from 1 to 100,000"),
        (ahead(fit, hours="9" * 30), "from 1 to 100,000"),
        (ahead(fit, run="of another"), "not all of that run"),
    ):
        assert why in page.post("/queue/decide", body, follow=True).content.decode()
    form = page.get("/queue/ahead", {"ask": [one.pk for one in risky]}, headers={"HX-Request": "true"}).content.decode()
    assert "of high risk" in form and "<form" not in form
    assert Ask.objects.filter(status="open").count() == 4 and not StandingAnswer.objects.exists()


def test_ahead_with_verifier_access_stays_in_its_run(edo, asked):
    asks = [asked(**approval(REPLY), expert="informed") for _ in range(2)]
    page = as_person(edo)
    said = page.post("/queue/decide", ahead(asks), follow=True).content.decode()
    assert "in their run only" in said and not StandingAnswer.objects.exists()
    run = Run.objects.create(project=edo.project, name="r", expert="informed")
    Episode.objects.filter(pk__in=[one.episode_id for one in asks]).update(run=run)
    page.post("/queue/decide", ahead(asks, run=run.pk), follow=True)
    assert StandingAnswer.objects.get().privilege == "sees_verifier" and verdicts(*asks) == ["approve"] * 2


def test_standing_answer_of_an_informed_ask_stays_in_its_run(edo, asked):
    ask, client = asked(**approval(REPLY), expert="informed"), as_person(edo)
    lease = queue.claim(edo, ask.pk)
    run = Run.objects.create(project=edo.project, name="r", expert="informed")
    Episode.objects.filter(pk=ask.episode_id).update(run=run)
    decision = {"calls": [{"id": "1", "verdict": "approve"}]}
    body = {"lease_token": lease.lease_token, "text": "", "nonce": "n", "decision": json.dumps(decision)}
    for where, status in (({}, 422), ({"run": "other"}, 422), ({"run": run.pk}, 302)):
        ahead = json.dumps([{"tool": "send_reply", "arguments": {}, "hours": 1, "at_most": 2, **where}])
        page = client.post(f"/asks/{ask.pk}/answer", {**body, "standing": ahead, "watch": "watch"})
        assert page.status_code == status, where
    assert StandingAnswer.objects.get().privilege == "sees_verifier"


def test_standing_answer_for_an_ended_run_is_refused(edo, asked):
    episode = asked(**approval(REPLY)).episode
    run = Run.objects.create(project=edo.project, name="r")
    Episode.objects.filter(pk=episode.pk).update(run=run)
    given, _ = give(edo, tool="other", run=run.pk)
    Episode.objects.filter(pk=episode.pk).update(state="finished")
    with pytest.raises(Invalid, match="all episodes of this run have ended"):
        give(edo, run=run.pk)
    assert list(StandingAnswer.objects.all()) == [given]


@pytest.mark.parametrize(
    ("setting", "tool", "high"),
    [
        ("", "delete_all", False),
        ("delete*", "Delete_all", True),
        ("a, b c\nd*", "dx", True),
        ("[a", "[a", True),
        ("*" * 60, "x" * 200, True),
    ],
)
def test_high_risk_is_a_matter_of_the_name(setting, tool, high):
    assert risk.is_high(setting, tool) is high


def test_setting_of_high_risk_tools_is_bounded(ada):
    assert "at most 50" in desk.problems_of(ada, {"high_risk": "a " * 51})["high_risk"]
    assert "100 characters" in desk.problems_of(ada, {"high_risk": "a" * 101})["high_risk"]
    assert not desk.problems_of(ada, {"high_risk": "a b, c"})
