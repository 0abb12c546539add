"""Approvals that need several people: who counts, when they are decided, and what ends them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError

from awmclient.schema import AskOpen
from episodes.models import Episode
from episodes.visible.trajectory import steps_of
from experts import notifications, tasks
from experts.errors import AlreadyClaimed, AlreadyDecided, AtCapacity, NotForYou, TooLate
from experts.find import board, panels
from experts.find.answer_links import answer_path, link_of
from experts.find.reading import ask_view
from experts.metrics import records
from experts.metrics.records import Look
from experts.models import Advice, Ask, AskEvent, Assignment, QuorumDecision
from experts.record import advising, batch, closing, desk, links, opening, queue
from experts.rules.decisions import Misfit
from experts.rules.quorum import LateRule
from experts.who import advisers, eligibility
from people.access import bearer
from people.errors import Invalid
from people.models import Membership
from people.record.members import issue_token
from runs.plan import spending
from tests.browsing import as_person, html
from tests.experts.test_queue import at_once
from tests.experts.test_standing_answers import approval, give
from tests.people_by_name import person, token

REFUND = {"order": 7, "amount": 40}
EDITED = {"order": 7, "amount": 20}


@pytest.fixture
def waiting(asked):
    """An approval of one call that needs two people."""
    return asked("May I refund?", **approval(REFUND, name="issue_refund"), quorum={"of": 2})


@pytest.fixture
def mina(ada):
    return person(ada.project, "mina", "expert")


def verdict(word="approve", arguments=None, reason="The customer wrote twice."):
    call = {"id": "1", "verdict": word} | ({"arguments": arguments} if arguments else {})
    return {"calls": [call | ({"reason": reason} if word == "reject" else {})]}


def decide(actor, ask, decision=None, nonce="n", **more):
    lease = queue.claim(actor, ask.pk)
    sent = (lease.assignment_id, lease.lease_token, "", nonce)
    return advising.answer(actor, *sent, decision=decision or verdict(), **more)


def fresh(ask):
    return Ask.objects.select_related("accepted", "held", "assignment").get(pk=ask.pk)


def decided(ask):
    return [(one.by, one.verdict) for one in ask_view(fresh(ask)).decided]


def test_two_people_approve_and_the_agent_gets_one_decision(ada, edo, waiting):
    decide(edo, waiting)
    view = ask_view(fresh(waiting))
    assert (view.status, view.advice, view.quorum.of) == ("open", None, 2) and decided(waiting) == [("edo", "approve")]
    assert Assignment.objects.get().state == "queued" and "advice" not in steps_of(waiting.episode)[-1]
    decide(ada, waiting)
    view = ask_view(fresh(waiting))
    assert (view.status, view.advice.by, view.advice.decision.calls[0].verdict) == ("answered", "person", "approve")
    step = steps_of(waiting.episode)[-1]
    assert [one["by"] for one in step["advice"]["decided"]] == ["edo", "ada"] and step["typed"]["quorum"] == {"of": 2}
    assert decided(waiting) == [("edo", "approve"), ("ada", "approve")]
    assert "<b>edo and ada</b>" in html(as_person(edo).get(f"/asks/{waiting.pk}/"))


def test_every_decision_counts_on_metrics_home_and_costs(ada, edo, mina, asked):
    """Edo took 120 s and Mina, who decided last, 60 s: Edo was in Costs alone."""
    for number in range(10):
        ask = asked(f"Refund {number}?", **approval(REFUND | {"order": number}, name="issue_refund"), quorum={"of": 2})
        for actor, seconds in ((edo, 120), (mina, 60)):
            decide(actor, ask, nonce=f"{actor.name}{number}")
            Advice.objects.filter(ask=ask, author_key=actor.key).update(took_s=seconds)
        closing.consume(ada, ask.pk)
    seen = records.metrics_of(ada, Look(time="all"), timezone.now())
    assert (seen.desk.asks, seen.desk.answered, seen.desk.in_time.of, seen.desk.waited.n) == (10, 10, 10, 10)
    assert (seen.desk.took.n, seen.desk.took.median) == (20, 90)
    assert 3600 * seen.desk.per_hour.hours == pytest.approx(spending.human_s(Episode.objects.all())) == 1800
    assert {line.name: (line.answered, line.took.median) for line in seen.experts} == {
        "edo": (10, 120),
        "mina": (10, 60),
    }
    today = timezone.now() - timedelta(hours=1)
    assert [board.closed_today(actor, today)["mine"] for actor in (edo, mina, ada)] == [10, 10, 0]


def test_a_rejection_ends_it_with_the_persons_words(ada, edo, waiting):
    decide(edo, waiting)
    decide(ada, waiting, verdict("reject"))
    call = fresh(waiting).accepted.decision["calls"][0]
    assert (call["verdict"], call["reason"]) == ("reject", "The customer wrote twice.")
    assert decided(waiting) == [("edo", "approve"), ("ada", "reject")]


def test_a_rejection_of_some_calls_lets_none_run(edo, asked):
    ask = asked(**approval(REFUND, EDITED), quorum={"of": 2})
    mixed = {"calls": [{"id": "1", "verdict": "approve"}, {"id": "2", "verdict": "reject", "reason": "No."}]}
    with pytest.raises(Invalid, match="Reject every call, or none"):
        decide(edo, ask, mixed)
    assert fresh(ask).is_open and not QuorumDecision.objects.exists()


def test_an_edit_starts_the_count_again(ada, edo, mina, waiting):
    decide(edo, waiting)
    decide(ada, waiting, verdict("edit", EDITED))
    assert decided(waiting) == [("ada", "edit")]
    assert ask_view(fresh(waiting)).decided[0].calls[0].arguments == EDITED
    # what Edo approved were other arguments
    decide(edo, waiting, verdict("edit", EDITED), "n2")
    done = fresh(waiting)
    assert (done.status, done.accepted.decision["calls"][0]["arguments"]) == ("answered", EDITED)


def test_approvals_of_different_arguments_never_add_up(ada, edo, mina, waiting):
    decide(edo, waiting, verdict("edit", EDITED))
    decide(mina, waiting, seen=QuorumDecision.objects.get().calls_digest)
    assert fresh(waiting).is_open and decided(waiting) == [("mina", "approve")]
    decide(ada, waiting, verdict("edit", EDITED))
    assert fresh(waiting).is_open and decided(waiting) == [("ada", "edit")]


def test_no_way_drops_an_edit_that_its_author_has_not_seen(ada, edo, mina, waiting):
    desk.set_policy(ada, high_risk="")
    decide(edo, waiting, verdict("edit", EDITED))
    path = answer_path(waiting, mina.key).removeprefix("/answer/")
    with pytest.raises(Misfit, match="edo edited the call. Look at the edit"):
        links.answer(link_of(path, timezone.now()), "", verdict())
    assert "edo edited the call" in batch.decide(mina, [waiting.pk], "approve", "", "b")[waiting.pk]
    with pytest.raises(Misfit, match="edo edited the call"):
        advising.refuse_misfit(mina, fresh(waiting), "", verdict())
    assert Assignment.objects.get().holder == "", "a refusal leaves no claim"
    with pytest.raises(Misfit, match="edo edited the call"):
        decide(mina, waiting)
    assert decided(waiting) == [("edo", "edit")]


def test_the_form_of_a_page_approves_over_an_edit_it_showed(edo, mina, waiting):
    page = as_person(mina)
    lease = queue.claim(mina, waiting.pk)
    before = html(page.get(f"/asks/{waiting.pk}/"))
    queue.release(mina, lease.assignment_id, lease.lease_token)
    decide(edo, waiting, verdict("edit", EDITED))
    lease = queue.claim(mina, waiting.pk)
    shown = html(page.get(f"/asks/{waiting.pk}/"))
    seen = QuorumDecision.objects.get().calls_digest
    assert 'name="seen"' not in before and f'name="seen" value="{seen}"' in shown
    form = {"lease_token": lease.lease_token, "assignment": lease.assignment_id, "nonce": "p", "text": "",
            "decision": json.dumps(verdict())}  # fmt: skip
    refused = page.post(f"/asks/{waiting.pk}/answer", form, headers={"Accept": "application/json"})
    assert refused.status_code == 422 and "edo edited the call" in refused.content.decode()
    page.post(f"/asks/{waiting.pk}/answer", {**form, "seen": seen}, headers={"Accept": "application/json"})
    assert decided(waiting) == [("mina", "approve")]


def opened(path, **form):
    """Open a link without a session, or send its form; return status, text, and the decision that its form has."""
    page = Client().post(path, form, follow=True) if form else Client().get(path)
    text = html(page)
    hidden = re.search(r'name="decision"\s+value="([^"]*)"', text)
    return page.status_code, text, unescape(hidden[1]) if hidden else ""


def test_a_link_shows_an_edit_and_approves_just_that(edo, mina, waiting):
    decide(edo, waiting, verdict("edit", EDITED))
    path, seen = answer_path(waiting, mina.key), QuorumDecision.objects.get().calls_digest
    _, text, begun = opened(path)
    assert "edo edited the call." in text and f'name="seen" value="{seen}"' in text
    assert '<del class="mono">40</del>' in text and json.loads(begun)["calls"][0]["arguments"] == EDITED
    status, text, _ = opened(path, decision=begun, seen=seen)
    assert status == 200 and "You answered this ask" in text
    assert fresh(waiting).accepted.decision["calls"][0]["arguments"] == EDITED


def test_no_form_begins_with_the_reason_of_a_colleague(edo, mina, waiting):
    decision = verdict("edit", EDITED)
    decision["calls"][0]["reason"] = "Half of it."
    decide(edo, waiting, decision)
    path, seen = answer_path(waiting, mina.key), QuorumDecision.objects.get().calls_digest
    (begun,) = panels.written_by(mina, waiting).decision["calls"]
    assert begun == {"id": "1", "verdict": "edit", "arguments": EDITED}
    _, text, hidden = opened(path)
    assert text.count("Half of it.") == 1 and json.loads(hidden)["calls"] == [begun]
    opened(path, decision=hidden, seen=seen)
    assert fresh(waiting).accepted.decision["calls"] == [begun]


def test_a_link_without_scripts_has_the_edit_filled_in(edo, mina, waiting):
    decide(edo, waiting, verdict("edit", EDITED))
    path = answer_path(waiting, mina.key)
    assert re.search(r'name="call:0"\s+value="edit"\s+checked', opened(path)[1])
    form = {"plain": "1", "call:0": "edit", "arg:0:0": "7", "arg:0:1": "20"}
    opened(path, **form, seen=QuorumDecision.objects.get().calls_digest)
    assert fresh(waiting).accepted.decision["calls"][0]["arguments"] == EDITED


def test_a_link_opened_before_an_edit_shows_it_and_sends_nothing(edo, mina, waiting):
    path = answer_path(waiting, mina.key)
    opened(path)
    decide(edo, waiting, verdict("edit", EDITED))
    status, text, begun = opened(path, decision=json.dumps(verdict()), text="Fine.")
    assert status == 422 and "Look at the edit before you approve" in text and "Fine." in text
    assert json.loads(begun)["calls"][0] == {"id": "1", "verdict": "edit", "arguments": EDITED}
    assert decided(waiting) == [("edo", "edit")] and Assignment.objects.get().holder == ""
    # their own decision on what they saw: the agent's call
    opened(path, decision=json.dumps(verdict()), seen=QuorumDecision.objects.get().calls_digest)
    assert decided(waiting) == [("mina", "approve")]


def own_token(actor, behind):
    return bearer(issue_token(actor, f"mine {behind}", "answer", personal=True, behind=behind)[0])


def test_a_person_counts_once_by_every_way(ada, edo, waiting):
    path = answer_path(waiting, edo.key).removeprefix("/answer/")
    decide(edo, waiting)
    for again in (edo, replace(edo, role="admin"), replace(edo, entry="other"), own_token(edo, "person")):
        with pytest.raises(AlreadyDecided):
            queue.claim(again, waiting.pk)
    with pytest.raises(AlreadyDecided):
        links.answer(link_of(path, timezone.now()), "", verdict())
    assert "needs another person" in batch.decide(edo, [waiting.pk], "reject", "No.", "b")[waiting.pk]
    desk.set_policy(ada, high_risk="")
    give(edo, tool="issue_refund")
    assert fresh(waiting).is_open and decided(waiting) == [("edo", "approve")]
    page = as_person(edo)
    page.post(f"/asks/{waiting.pk}/claim")
    assert Assignment.objects.get().holder == ""


def test_a_link_and_a_page_of_one_person_count_once(ada, edo, waiting):
    links.answer(link_of(answer_path(waiting, edo.key).removeprefix("/answer/"), timezone.now()), "", verdict())
    assert decided(waiting) == [("edo", "approve")]
    with pytest.raises(AlreadyDecided):
        queue.claim(edo, waiting.pk)
    decide(ada, waiting)
    assert fresh(waiting).status == "answered"


def test_programs_without_a_person_never_count(ada, edo, asked, models):
    desk.set_policy(ada, high_risk="", model_first=True)
    give(edo, tool="issue_refund")
    waiting = asked("May I refund?", **approval(REFUND, name="issue_refund"), quorum={"of": 2})
    assert waiting.is_open and waiting.tiers == ["people"], "no standing answer and no model decides it"
    script, _ = token(ada.project, "answer")
    with pytest.raises(NotForYou, match="are no person"):
        queue.claim(script, waiting.pk)
    for behind in ("script", "model"):
        with pytest.raises(NotForYou, match="are no person"):
            queue.claim(own_token(edo, behind), waiting.pk)
    with pytest.raises(Invalid, match="only people can answer"):
        queue.transfer(ada, waiting.pk, "llm")


def test_a_role_is_required_of_each_person(ada, edo, asked):
    other = person(ada.project, "rosa", "admin")
    ask = asked(**approval(REFUND), quorum={"of": 2, "role": "admin"})
    with pytest.raises(NotForYou, match="2 people with the role admin. Your role is expert"):
        queue.claim(edo, ask.pk)
    assert eligibility.spot_of(edo, ask.pk, timezone.now()).place == "role"
    assert "Requires the role admin." in html(as_person(edo).get("/queue/"))
    assert eligibility.out_for(edo, eligibility.open_of(edo, timezone.now())) == [ask.pk]
    for who in (ada, other):
        decide(who, ask)
    assert fresh(ask).status == "answered"


def test_a_role_of_an_agent_bars_no_stricter_one(ada, edo, asked):
    ask = asked(**approval(REFUND), quorum={"of": 2, "role": "expert"})
    now = timezone.now()
    assert advisers.pool(ask, now)[0] == {ada.key, edo.key} and ada.role == "admin"
    assert eligibility.spot_of(ada, ask.pk, now).place == "free"
    assert eligibility.out_for(ada, eligibility.open_of(ada, now)) == []
    for who in (edo, ada):
        decide(who, ask)
    assert fresh(ask).status == "answered"


def test_rules_of_the_project_raise_what_an_agent_wants(ada, asked):
    desk.set_policy(ada, quorum="issue_* => 2\nhigh-risk => 3 admin\nafter 50% => admin")
    assert asked(**approval(REFUND)).quorum_of == 1
    assert asked(**approval(REFUND, name="issue_voucher")).quorum_of == 2
    risky = asked(**approval(REFUND, name="issue_refund"), quorum={"of": 2, "role": "expert"})
    assert (risky.quorum_of, risky.quorum_role) == (3, "admin") and risky.typed["quorum"] == {"of": 3, "role": "admin"}
    assert asked(**approval(REFUND, name="issue_voucher"), quorum={"of": 4}).quorum_of == 4


@pytest.mark.parametrize(
    ("setting", "ok"),
    [("a* => 2", 1), ("high-risk => 5 admin", 1), ("after 50% => billing", 1), ("a => 1", 0), ("a => 6", 0),
     ("a b => 2", 0), ("a => 2 viewer", 0), ("after 0% => x", 0), ("after 100% => x", 0), ("a => 2\n" * 21, 0)],
)  # fmt: skip
def test_a_rule_is_refused_with_its_line(ada, setting, ok):
    assert bool(desk.problems_of(ada, {"quorum": setting})) != bool(ok)


def test_only_an_approval_has_a_quorum():
    fields = {"key": "k", "episode": "e", "seq": 1, "question": "?"}
    for more in ({"quorum": {"of": 2}}, {**approval(REFUND), "quorum": {"of": 1}}, {**approval(REFUND), "quorum": 2}):
        with pytest.raises(ValidationError):
            AskOpen(**fields, **more)


def test_a_key_is_repeated_also_where_a_rule_raised_it(ada, asked):
    desk.set_policy(ada, quorum="* => 2")
    ask = asked("May I?", **approval(REFUND))
    body = AskOpen(key="q", episode=ask.episode_id, seq=1, question="May I?", **approval(REFUND))
    assert opening.open_ask(ada, body)[0] == ask


def test_the_deadline_says_how_many_approved(edo, waiting):
    decide(edo, waiting)
    Ask.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    done = closing.close_if_due(waiting.pk)
    call = done.accepted.decision["calls"][0]
    assert (done.status, call["verdict"]) == ("fell_back", "reject")
    assert call["reason"] == "no decision before the deadline, 1 of 2 approved"
    step = steps_of(waiting.episode)[-1]
    assert [one["by"] for one in step["advice"]["decided"]] == ["edo"]
    page = html(as_person(edo).get(f"/asks/{waiting.pk}/"))
    assert page.count("1 of 2 approved: edo.") == 2, "above, and in the record"


def end_hold(**more):
    Ask.objects.filter(held__isnull=False).update(held_until=timezone.now() - timedelta(seconds=1), **more)


def test_each_decision_is_held_and_counts_after_it(ada, edo, waiting):
    decide(edo, waiting, hold_s=5)
    assert decided(waiting) == []
    with pytest.raises(TooLate, match="edo has answered"):
        queue.claim(ada, waiting.pk)
    end_hold()
    for _ in range(2):
        tasks.deliver_held(waiting.pk)
    assert decided(waiting) == [("edo", "approve")] and fresh(waiting).is_open
    decide(ada, waiting, hold_s=5)
    assert fresh(waiting).is_open
    # also where the deadline came within the hold
    end_hold(deadline_at=timezone.now() - timedelta(seconds=1))
    assert closing.close_if_due(waiting.pk).status == "answered"


def test_a_first_approval_held_over_the_deadline_falls_back(edo, waiting):
    decide(edo, waiting, hold_s=5)
    end_hold(deadline_at=timezone.now() - timedelta(seconds=1))
    done = closing.close_if_due(waiting.pk)
    assert done.status == "fell_back" and decided(waiting) == [("edo", "approve")]


def test_an_undone_decision_counts_no_longer(ada, edo, waiting):
    decide(edo, waiting, hold_s=5)
    advising.withdraw(edo, waiting.pk)
    end_hold()
    assert closing.close_if_due(waiting.pk).is_open and decided(waiting) == []
    decide(edo, waiting)
    assert decided(waiting) == [("edo", "approve")]
    lease = advising.withdraw(edo, waiting.pk)
    assert decided(waiting) == [] and fresh(waiting).assignment.holder == edo.key
    advising.answer(edo, lease.assignment_id, lease.lease_token, "", "n", decision=verdict())
    decide(ada, waiting)
    advising.withdraw(ada, waiting.pk)
    assert fresh(waiting).is_open and decided(waiting) == [("edo", "approve")]


def test_a_withdrawal_takes_no_claim_of_others(ada, edo, waiting):
    decide(edo, waiting)
    lease = queue.claim(ada, waiting.pk)
    with pytest.raises(AlreadyClaimed, match="Your decision counts no longer. ada has claimed"):
        advising.withdraw(edo, waiting.pk)
    assert decided(waiting) == [] and fresh(waiting).assignment.holder == ada.key
    advising.answer(ada, lease.assignment_id, lease.lease_token, "", "n", decision=verdict())
    assert fresh(waiting).is_open and decided(waiting) == [("ada", "approve")]
    decide(edo, waiting)
    assert fresh(waiting).status == "answered"


def test_a_withdrawal_takes_no_held_answer_of_others(ada, edo, waiting):
    decide(edo, waiting)
    decide(ada, waiting, hold_s=5)
    with pytest.raises(TooLate, match="ada has answered"):
        advising.withdraw(edo, waiting.pk)
    end_hold()
    assert closing.close_if_due(waiting.pk).status == "answered"


def test_a_withdrawal_needs_no_room_for_a_claim(ada, edo, asked, waiting):
    decide(edo, waiting)
    desk.set_policy(ada, capacity=1)
    queue.claim(edo, asked("Which one?").pk)
    with pytest.raises(AtCapacity, match="counts no longer"):
        advising.withdraw(edo, waiting.pk)
    assert decided(waiting) == [] and fresh(waiting).assignment.state == "queued"


def test_a_counted_decision_cannot_be_edited_past_the_others(ada, edo, waiting):
    decide(edo, waiting)
    decide(ada, waiting)
    with pytest.raises(Invalid, match="several people"):
        advising.edit(ada, waiting.pk, "", None, "e", decision=verdict("edit", EDITED))


def test_who_decided_is_asked_no_more(ada, edo, mina, waiting):
    now = timezone.now()
    decide(edo, waiting)
    assert eligibility.spot_of(edo, waiting.pk, now).place == "decided"
    assert eligibility.claimable(edo, now).count == 0 and eligibility.claimable(mina, now).count == 1
    assert eligibility.out_for(edo, eligibility.open_of(edo, now)) == [waiting.pk]
    assert board.next_for(edo, now) is None and board.next_for(mina, now) == waiting
    subject = notifications.AskKind().read([waiting.pk])[waiting.pk]
    assert subject.recipients(now) == {ada.key, mina.key}
    assert subject.state_for(edo.key, now) == "You decided. 1 of 2 approved: edo."


def test_what_lacks_people_goes_to_a_group_once(ada, edo, mina, asked):
    desk.set_policy(ada, quorum="* => 2\nafter 50% => admin")
    ask = asked(**approval(REFUND))
    untouched = asked(**approval(REFUND))
    decide(edo, ask)
    half = ask.created_at + (ask.deadline_at - ask.created_at) / 2
    assert queue.find_more_people(half - timedelta(seconds=1)) == 0
    assert queue.find_more_people(half) == 1 and queue.find_more_people(half) == 0
    subject = notifications.AskKind().read([ask.pk])[ask.pk]
    assert subject.recipients(half) == {ada.key} and not fresh(untouched).handed_to
    assert "1 of 2 approved" in board.reached(fresh(ask)) and "admin" in board.reached(fresh(ask))
    assert board.next_for(ada, half) == ask
    assert AskEvent.objects.get(ask=ask, verb="to_group").reason == "admin: 1 of 2 approved: edo"
    decide(mina, ask)
    assert fresh(ask).status == "answered", "others can still decide it"


def test_a_counted_decision_is_not_looked_at_again(edo, waiting, monkeypatch):
    looks = []
    monkeypatch.setattr(advising, "_looks", [lambda *answer: looks.append(answer) or ""])
    lease = queue.claim(edo, waiting.pk)
    for _ in range(2):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "", "n", decision=verdict())
    assert len(looks) == 1 and decided(waiting) == [("edo", "approve")]


def test_the_same_press_after_a_reset_counts_again(ada, edo, mina, asked):
    ask = asked(**approval(REFUND), quorum={"of": 3})
    decide(edo, ask, nonce="same")
    decide(ada, ask, verdict("edit", EDITED))
    decide(mina, ask, seen=QuorumDecision.objects.get(counts=True).calls_digest)
    decide(edo, ask, nonce="same")
    assert decided(ask) == [("mina", "approve"), ("edo", "approve")]


@pytest.mark.parametrize("hold_s", [0, 5])
def test_who_left_or_lost_the_role_counts_no_more(ada, edo, mina, asked, hold_s):
    rosa = person(ada.project, "rosa", "admin")
    mine = Membership.objects.filter(user=rosa.person)
    changes = (("admin", lambda: mine.update(role="expert")), ("", mine.delete))
    for role, change in changes:
        ask = asked(**approval(REFUND), quorum={"of": 2, **({"role": role} if role else {})})
        decide(rosa, ask, hold_s=hold_s)
        change()
        end_hold()
        closing.close_if_due(ask.pk)
        decide(ada, ask)
        assert fresh(ask).is_open and decided(ask) == [("ada", "approve")]


@pytest.fixture
def senior(ada, mina):
    """Mina, an expert, as the senior expert of the project."""
    desk.set_policy(ada, senior=Membership.objects.get(user=mina.person))
    return mina


def test_an_escalation_to_the_senior_bars_no_one(ada, edo, senior, waiting):
    queue.transfer(ada, waiting.pk, "senior")
    assert eligibility.spot_of(edo, waiting.pk, timezone.now()).place == "free"
    assert eligibility.claimable(edo, timezone.now()).count == 1
    decide(senior, waiting)
    assert fresh(waiting).tier == "people" and advisers.pool(fresh(waiting), timezone.now())[0] == {ada.key, edo.key}
    decide(edo, waiting)
    assert fresh(waiting).status == "answered"


def test_a_decline_after_the_senior_leaves_it_to_the_others(ada, edo, senior, asked):
    ask = asked("May I refund?", **approval(REFUND, name="issue_refund"), quorum={"of": 2})
    decide(senior, ask)
    queue.decline_unclaimed(edo, ask.pk)
    assert (fresh(ask).status, fresh(ask).tier) == ("open", "people")
    with pytest.raises(Invalid, match="decided this ask"):
        queue.transfer(ada, ask.pk, "senior")
    queue.decline_unclaimed(ada, ask.pk)
    assert fresh(ask).status == "fell_back", "no one is left, and the senior has decided"


def test_no_senior_gets_what_another_role_decides(ada, edo, senior, asked):
    other = person(ada.project, "rosa", "admin")
    desk.set_policy(ada, quorum="* => 2 admin")
    ask = asked(**approval(REFUND))
    assert ask.tiers == ["people"]
    with pytest.raises(Invalid, match="does not have the role admin"):
        queue.transfer(ada, ask.pk, "senior")
    for who in (ada, other):
        decide(who, ask)
    assert fresh(ask).status == "answered"


def test_the_sweep_locks_only_what_is_late(ada, edo, asked, django_assert_num_queries):
    desk.set_policy(ada, quorum="* => 2\nafter 50% => admin")
    ask = asked(**approval(REFUND))
    decide(edo, ask)
    with django_assert_num_queries(1):
        assert queue.find_more_people(timezone.now()) == 0
    assert not queue._hand_to_group("x", LateRule(0.5, "admin"), timezone.now()), "erased meanwhile"


def press(actor, ask):
    """Claim and approve as one press does, again while someone else has the claim."""
    while True:
        try:
            return decide(actor, ask, nonce=f"of {actor.key}")
        except AlreadyClaimed:
            continue


@pytest.mark.django_db(transaction=True)
def test_two_people_at_once_count_once_each(ada, edo, waiting):
    results = at_once(*(lambda who=who: press(who, waiting) for who in (ada, edo, ada, edo)))
    done = fresh(waiting)
    assert done.status == "answered" and {by for by, _ in decided(waiting)} == {"ada", "edo"}, results
    assert QuorumDecision.objects.filter(counts=True).count() == 2
    assert AskEvent.objects.filter(verb="answered").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_hold_counts_once_among_readers(ada, edo, waiting):
    decide(edo, waiting, hold_s=5)
    end_hold()
    at_once(*(lambda: closing.close_if_due(waiting.pk) for _ in range(4)))
    assert decided(waiting) == [("edo", "approve")] and AskEvent.objects.filter(verb="counted").count() == 1
