"""The second look: rules that return an answer with their reason, wherever it was written."""

from __future__ import annotations

import json
import time

import pytest

from experts.find.answer_links import answer_path
from experts.models import Ask, Draft
from experts.record import advising, batch, desk, queue
from experts.rules import second_look
from experts.rules.second_look import Returned
from people.access import expert_model
from tests.browsing import as_person
from tests.experts.test_answer_links import opened
from tests.experts.test_standing_answers import REPLY, approval

RULE = r"\b\d{16}\b => Remove the card number." + "\ngarantía => Write English."
CARD = "Use 4111111111111111."


def is_returned(setting, *said):
    try:
        second_look.refuse(setting, said)
    except Returned as returned:
        return returned.message
    return ""


@pytest.mark.parametrize(
    ("setting", "said", "message"),
    [
        (RULE, CARD, "Not sent: a rule of this project says: Remove the card number."),
        (RULE, "Use card 12.", ""),
        (RULE, "La GARANTÍA no.", "Not sent: a rule of this project says: Write English."),
        (RULE, f"\ud800 {CARD}", "Not sent: a rule of this project says: Remove the card number."),
        ("", CARD, ""),
        ("\n  \n", CARD, ""),
    ],
)
def test_first_rule_that_finds_its_pattern_returns_the_answer(setting, said, message):
    assert is_returned(setting, said) == message


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("x => y\n" * 21, "at most 20 rules"),
        ("x", "Line 1"),
        ("a => b\n=> c", "Line 2"),
        ("( => c", "no pattern"),
        (r"(a)\1 => c", "no pattern"),
        ("((a{1000}){1000}){1000} => c", "no pattern"),
        ("a" * 301 + " => c", "Line 1"),
        (RULE, ""),
        ("", ""),
    ],
)
def test_rules_that_cannot_be_used_are_refused(ada, setting, problem):
    assert problem in desk.problems_of(ada, {"second_look": setting}).get("second_look", "")
    assert bool(problem) == bool(desk.problems_of(ada, {"second_look": setting}))


def test_pattern_made_to_be_slow_takes_linear_time():
    def took(size):
        start = time.process_time()
        second_look.refuse("(a*)*b => x", ["a" * size])
        return time.process_time() - start

    took(1000)
    assert took(400_000) < 40 * max(took(40_000), 0.001)


def test_page_keeps_the_text_and_sends_it_once_mended(ada, edo, asked):
    desk.set_policy(ada, second_look=RULE)
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    body = {"lease_token": lease.lease_token, "text": CARD, "nonce": "n", "tool_calls": "[]", "then": "watch"}
    page = as_person(edo).post(f"/asks/{ask.pk}/answer", body)
    assert (
        page.status_code == 422 and "Remove the card number." in page.content.decode() and CARD in page.content.decode()
    )
    assert Ask.objects.get(pk=ask.pk).is_open
    as_person(edo).post(f"/asks/{ask.pk}/answer", {**body, "text": "Use the card on file."})
    accepted = Ask.objects.get(pk=ask.pk).accepted
    assert accepted.text == "Use the card on file."
    with pytest.raises(Returned):
        advising.edit(edo, ask.pk, CARD, None)


def test_calls_and_decisions_are_looked_at_before_a_claim(ada, edo, asked):
    desk.set_policy(ada, second_look=RULE)
    ask, other = asked(**approval({**REPLY, "card": "4111111111111111"})), asked(**approval(REPLY))
    decision = {"calls": [{"id": "1", "verdict": "approve"}]}
    status, text = opened(answer_path(ask, edo.key), decision=json.dumps(decision))
    assert status == 422 and "Remove the card number." in text
    assert not Ask.objects.get(pk=ask.pk).assignment.holder
    assert "Remove the card" in batch.decide(edo, [other.pk], "reject", CARD, "n")[other.pk]


def test_models_are_not_returned(ada, asked, models):
    desk.set_policy(ada, second_look=RULE)
    ask = asked()
    model = expert_model(ada.project, "small")
    Ask.objects.filter(pk=ask.pk).update(tier="llm")
    taken, lease = queue.claim_for_model(model)
    advising.answer(model, lease.assignment_id, lease.lease_token, CARD, "")
    assert Ask.objects.get(pk=taken.pk).accepted.text == CARD and not Draft.objects.exists()
