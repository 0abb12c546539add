"""An ask beside the queue: looking claims nothing, and one answer serves the equal asks that are chosen with it."""

from __future__ import annotations

import json
import re

import pytest

from experts.models import Ask, AskEvent
from experts.record import advising, queue
from tests.browsing import as_person, html
from tests.experts.test_standing_answers import REPLY, approval, give

FETCHED = {"sec-fetch-dest": "empty"}


def look(actor, ask):
    return html(as_person(actor).get(f"/asks/{ask.pk}/look", headers=FETCHED))


def fresh(ask):
    return Ask.objects.select_related("accepted", "assignment").get(pk=ask.pk)


def press(client, ask, **more):
    """Claim an ask as a script does, and send the form that it shows."""
    token = client.post(f"/asks/{ask.pk}/claim", headers={"accept": "application/json"}).json()["token"]
    nonce = re.search(r'name="nonce" value="([^"]*)"', html(client.get(f"/asks/{ask.pk}/")))[1]
    body = {"lease_token": token, "nonce": nonce, "tool_calls": "[]", "then": "watch", **more}
    return client.post(f"/asks/{ask.pk}/answer", body, follow=True)


def decided(call, **fields):
    return json.dumps({"calls": [{"id": call["id"], **fields}]})


def test_looking_shows_the_form_and_claims_nothing(asked, edo):
    ask = asked()
    shown = look(edo, ask)
    assert f'data-looks="/projects/lab/asks/{ask.pk}/claim"' in shown and "Looking, unclaimed" in shown
    assert 'name="lease_token" value="closed"' in shown and "<textarea" in shown
    assert fresh(ask).assignment.state == "queued"
    assert not AskEvent.objects.filter(ask=ask, verb="claimed").exists()


def test_two_who_look_see_each_other(asked, edo, ada):
    ask = asked()
    look(edo, ask)
    assert "edo is" in look(ada, ask)


def test_looking_gives_no_lease_of_another(asked, edo, ada):
    ask = asked()
    token = queue.claim(ada, ask.pk).lease_token
    shown = look(edo, ask)
    assert token not in shown and "<textarea" not in shown and "ada is answering" in shown


@pytest.mark.parametrize("skills", [["tax"], []])
def test_looking_at_what_one_cannot_claim_shows_no_form(asked, edo, skills):
    ask = asked(skills=skills)
    if not skills:
        queue.decline_unclaimed(edo, ask.pk)
    shown = look(edo, ask)
    assert "<textarea" not in shown and "data-looks" not in shown


def test_a_viewer_looks_without_a_form(asked, rita):
    shown = look(rita, asked())
    assert "<textarea" not in shown and "Your role can view asks" in shown


def test_looking_is_for_members_of_the_project(asked, max_):
    assert as_person(max_).get(f"/asks/{asked().pk}/look", headers=FETCHED).status_code == 404


def test_a_script_gets_the_lease_or_who_has_it(asked, edo, ada):
    ask, scripts = asked(), {"accept": "application/json"}
    lease = as_person(edo).post(f"/asks/{ask.pk}/claim", headers=scripts).json()
    assert lease["token"] == fresh(ask).assignment.lease_token and lease["until"]
    refused = as_person(ada).post(f"/asks/{ask.pk}/claim", headers=scripts)
    assert refused.status_code == 409 and "edo has claimed this ask" in refused.json()["error"]["message"]


def test_equal_approvals_are_decided_with_the_first(asked, edo):
    first, second, third, other = (asked(**approval(call)) for call in (REPLY, REPLY, REPLY, {"ticket": 1}))
    client = as_person(edo)
    shown = look(edo, first)
    assert "Decide all 3" in " ".join(shown.split()) and f'value="{second.pk}">' in shown and other.pk not in shown
    call = first.typed["calls"][0]
    chosen = {"with": [second.pk, other.pk], "decision": decided(call, verdict="approve")}
    assert "Sent to 2 asks." in html(press(client, first, **chosen))
    assert [fresh(one).status for one in (first, second, third, other)] == ["answered", "answered", "open", "open"]
    assert fresh(second).accepted.decision["calls"][0]["verdict"] == "approve"


def test_an_edited_call_decides_no_other(asked, edo):
    first, second = asked(**approval(REPLY)), asked(**approval(REPLY))
    edited = decided(first.typed["calls"][0], verdict="edit", arguments={**REPLY, "ticket": 5})
    done = html(press(as_person(edo), first, decision=edited, **{"with": [second.pk]}))
    assert "the call was edited for one ask" in done and fresh(second).is_open and not fresh(first).is_open


def test_high_risk_approvals_are_not_offered_together(asked, edo):
    first, second = (asked(**approval(REPLY, name="delete_branch")) for _ in range(2))
    assert second.pk not in look(edo, first)
    verdict = decided(first.typed["calls"][0], verdict="approve")
    done = html(press(as_person(edo), first, decision=verdict, **{"with": [second.pk]}))
    assert "of high risk" in done and fresh(second).is_open


def test_the_same_question_of_other_tasks_is_offered_unticked(asked, edo):
    first, near, far = asked(task="Task 27"), asked(task="Task 27"), asked(task="Task 28")
    shown = look(edo, first)
    assert f'value="{near.pk}" checked' in shown and f'value="{far.pk}">' in shown
    client = as_person(edo)
    for _ in range(2):
        press_of = press(client, first, text="Into 5.", **{"with": [near.pk, far.pk]}) if fresh(first).is_open else None
        assert press_of is None or "Sent to 3 asks." in html(press_of)
    assert {fresh(one).accepted.text for one in (first, near, far)} == {"Into 5."}


def test_a_blind_ask_gets_no_answer_of_one_that_sees(asked, edo):
    blind, informed = asked(task="Task 1"), asked(task="Task 2", expert="informed")
    assert informed.pk not in look(edo, blind)
    press(as_person(edo), informed, text="Into 5.", **{"with": [blind.pk]})
    assert fresh(blind).is_open


def test_standing_answers_are_one_line_above_the_list(asked, edo):
    give(edo, arguments={"template": "refund"})
    asked(**approval(REPLY)), asked()
    page = " ".join(html(as_person(edo).get("/queue/")).split())
    assert "<b>1 standing answer</b>approved 1 call" in page
    assert page.index("1 standing answer") < page.index('data-part="asks"')
    day = html(as_person(edo).get("/queue/?parts=day", headers={"hx-request": "true"}))
    assert "End the standing answer for send_reply" in day, "a refresh keeps its button"
    assert 'data-part="standing"' not in html(as_person(edo).get("/queue/?parts=rows", headers={"hx-request": "true"}))


def test_held_answer_beside_the_queue_says_so(asked, ada, edo, settings):
    settings.AWMWEB_UNDO_S = 5
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Into 4127.", "n", hold_s=5)
    own, other = look(edo, ask), look(ada, ask)
    assert "Answered by you" in own and "Answered by edo" in other
    assert "Into 4127." in own and "Into 4127." not in other
    assert "data-looks" not in own + other and "Looking, unclaimed" not in own + other
