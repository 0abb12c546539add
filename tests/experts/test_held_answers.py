"""An answer that is held: no agent sees it, its author undoes it, and it is sent exactly once."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.models import Episode
from episodes.record import ending
from episodes.visible.trajectory import steps_of
from experts import llm, tasks
from experts.errors import StillOpen, TooLate, Used
from experts.find import held_answers
from experts.models import Advice, Ask, AskEvent, StandingAnswer
from experts.record import advising, batch, closing, desk, queue
from experts.rules.routing import hold_s
from people.errors import AppError, KeyConflict
from people.record import jobs
from tests.browsing import as_person, html
from tests.experts.test_queue import at_once
from tests.experts.test_standing_answers import REPLY, approval
from tests.people_by_name import person, token


def hold(actor, ask, text="Into 4127.", seconds=5, **more):
    lease = queue.claim(actor, ask.pk)
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n", hold_s=seconds, **more)


def pass_hold(ask, **more):
    """Let the hold of an answer end."""
    Ask.objects.filter(pk=ask.pk).update(held_until=timezone.now() - timedelta(seconds=1), **more)


def fresh(ask):
    return Ask.objects.select_related("accepted", "held", "assignment").get(pk=ask.pk)


@pytest.mark.parametrize(
    ("wanted", "left", "held"), [(5, 600, 5), (5, 30, 3), (10, 30, 3), (0, 600, 0), (5, 9, 0), (5, -1, 0)]
)
def test_a_hold_takes_at_most_a_tenth_of_the_time_left(wanted, left, held):
    now = timezone.now()
    assert hold_s(wanted, now, now + timedelta(seconds=left)) == held


def test_no_agent_sees_a_held_answer_until_its_end(ada, edo, asked):
    ask = asked()
    hold(edo, ask)
    agent, _ = token(ada.project, "agent")
    seen = closing.look(agent, ask.pk)
    assert (seen.status, seen.accepted, seen.delivered_at) == ("open", None, None)
    with pytest.raises(StillOpen):
        closing.consume(agent, ask.pk)
    assert "advice" not in steps_of(ask.episode)[-1] and Episode.objects.get().state == "waiting"
    pass_hold(ask)
    seen = closing.look(agent, ask.pk)
    assert (seen.status, seen.accepted.text, seen.held_id, seen.held_until) == ("answered", "Into 4127.", None, None)
    assert steps_of(ask.episode)[-1]["advice"]["author"] == "edo" and Episode.objects.get().state == "running"
    event = AskEvent.objects.get(verb="answered")
    assert (event.actor, event.actor_key) == (edo.name, edo.key)


def test_answer_withdrawn_while_it_is_read_is_not_delivered(ada, edo, asked, monkeypatch):
    ask, plain, left = asked(), closing.visible_or_404, [edo]
    hold(edo, ask, seconds=0)

    def then_withdrawn(*call):
        row = plain(*call)
        if left:
            advising.withdraw(left.pop(), ask.pk)
        return row

    monkeypatch.setattr(closing, "visible_or_404", then_withdrawn)
    agent, _ = token(ada.project, "agent")
    seen = closing.look(agent, ask.pk)
    assert (seen.status, seen.accepted, seen.delivered_at) == ("open", None, None)


def test_time_held_counts_as_waiting_and_not_as_work(edo, asked):
    ask = asked()
    sent = hold(edo, ask)
    pass_hold(ask)
    tasks.deliver_held(ask.pk)
    closed = fresh(ask)
    assert closed.closed_at > sent.created_at and sent.took_s < 5
    assert Advice.objects.get().created_at == sent.created_at


def test_a_held_ask_is_work_for_no_one(ada, edo, asked):
    desk.set_policy(ada, capacity=1)
    ask, other = asked(), asked("And this?")
    hold(edo, ask)
    assert fresh(ask).taken_by(timezone.now())[0] == edo.name
    with pytest.raises(TooLate, match="edo has answered this ask"):
        queue.claim(ada, ask.pk)
    for act in (queue.decline_unclaimed, lambda who, pk: queue.transfer(who, pk, "people")):
        with pytest.raises(TooLate, match="answered"):
            act(ada, ask.pk)
    page = html(as_person(edo).get("/queue/"))
    assert f'data-key="{ask.pk}"' not in page and f'data-key="{other.pk}"' in page
    assert queue.claim(edo, other.pk), "a held answer takes no room of its author"


def test_undo_gives_back_the_claim_and_the_text(ada, edo, asked):
    desk.set_policy(ada, capacity=1)
    ask, other = asked(), asked("And this?")
    sent = hold(edo, ask)
    queue.claim(edo, other.pk)
    began = fresh(ask).assignment.claimed_at
    lease = advising.withdraw(edo, ask.pk)
    row = fresh(ask)
    assert (row.status, row.held, row.accepted, row.assignment.claimed_at) == ("open", None, None, began)
    page = html(as_person(edo).get(f"/asks/{ask.pk}/"))
    assert "Into 4127.</textarea>" in page and lease.lease_token in page
    closing.close_due(timezone.now() + timedelta(seconds=20))
    assert fresh(ask).is_open, "what was undone never leaves"
    # under the nonce of the undone one, as a page that was loaded again sends it
    again = advising.answer(edo, lease.assignment_id, lease.lease_token, "Into 4128.", "n", hold_s=5)
    pass_hold(ask)
    assert closing.close_if_due(ask.pk).accepted == again != sent
    assert again.text == "Into 4128." and Advice.objects.get(pk=sent.pk).took_s is None, "the time is counted once"


def test_undo_selects_again_what_the_answer_was_sent_to(edo, asked):
    first, sent, other = asked(), asked(), asked()
    for ask in (first, sent):
        hold(edo, ask)
    page = as_person(edo)
    page.post("/asks/undo", {"ask": [first.pk, sent.pk], "own": first.pk})
    shown = html(page.get(f"/asks/{first.pk}/"))
    boxes = dict(re.findall(r'name="with"\s+value="(\w+)"\s*(checked)?', shown))
    assert boxes == {sent.pk: "checked", other.pk: ""}


def test_edited_and_withdrawn_answer_frees_its_first_nonce(edo, asked):
    ask = asked()
    hold(edo, ask, seconds=0)
    advising.edit(edo, ask.pk, "Into 4127, please.", None, nonce="e")
    lease = advising.withdraw(edo, ask.pk)
    again = advising.answer(edo, lease.assignment_id, lease.lease_token, "Into 4128.", "n")
    assert fresh(ask).accepted == again and again.text == "Into 4128."


def test_only_its_author_undoes_a_held_answer(ada, edo, asked):
    ask = asked()
    hold(edo, ask)
    with pytest.raises(AppError):
        advising.withdraw(ada, ask.pk)
    assert fresh(ask).held is not None


def test_a_repeated_press_is_the_same_held_answer(edo, asked):
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    press = (edo, lease.assignment_id, lease.lease_token, "Yes.", "n")
    assert advising.answer(*press, hold_s=5) == advising.answer(*press, hold_s=5) == advising.answer(*press)
    assert Advice.objects.count() == 1 and fresh(ask).is_open


def test_other_words_under_the_nonce_of_a_held_answer_fail(edo, asked):
    """A page that is open twice has one draft and one nonce: words that do not go are never called sent."""
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    press = (edo, lease.assignment_id, lease.lease_token)
    advising.answer(*press, "Yes.", "n", hold_s=5)
    for words, more in (("Yes, both.", {}), ("Yes.", {"asks_back": True})):
        with pytest.raises(KeyConflict, match="Undo or edit"):
            advising.answer(*press, words, "n", hold_s=5, **more)
    pass_hold(ask)
    assert closing.close_if_due(ask.pk).accepted.text == "Yes."
    edited = advising.edit(edo, ask.pk, "Yes, 4127.", None, nonce="e")
    assert advising.edit(edo, ask.pk, "Yes, 4127.", None, nonce="e") == edited
    with pytest.raises(KeyConflict):
        advising.edit(edo, ask.pk, "Yes, 4128.", None, nonce="e")


def test_ask_cancelled_within_the_hold_keeps_its_answer_as_late(ada, edo, asked):
    first, second = asked(), asked("And this?")
    hold(edo, first)
    hold(edo, second)
    closing.cancel(ada, first.pk)
    ending.cancel(ada, second.episode_id, "enough")
    for ask in (first, second):
        row = fresh(ask)
        assert (row.status, row.held_id, row.accepted) == ("cancelled", None, None)
        assert row.assignment.state == "void" and Advice.objects.get(ask=ask).late
        with pytest.raises(TooLate):
            advising.withdraw(edo, ask.pk)
    assert "Into 4127." in html(as_person(edo).get(f"/asks/{first.pk}/"))


def test_answer_whose_hold_is_over_is_sent_before_its_ask_ends(ada, edo, asked):
    """Its author was shown that it went, and no process has delivered it yet."""
    first, second = asked(), asked("And this?")
    for ask in (first, second):
        hold(edo, ask)
        pass_hold(ask)
    closing.cancel(ada, first.pk)
    ending.cancel(ada, second.episode_id, "enough")
    for ask in (first, second):
        assert (fresh(ask).status, fresh(ask).accepted.text) == ("answered", "Into 4127.")


def test_answer_cut_off_within_its_hold_counts_as_no_late_one(ada, edo, asked):
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    # as when a claim was lost once: the same nonce is stored already, beside the ask
    Advice.objects.create(ask=ask, text="Into 4127.", author_key=edo.key, nonce="n", late=True, source="human")
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Into 4127.", "n", hold_s=5)
    closing.cancel(ada, ask.pk)
    assert fresh(ask).status == "cancelled"
    page = html(as_person(edo).get(f"/asks/{ask.pk}/"))
    assert "not sent: the ask ended while the answer could still be undone" in page
    assert "Not sent: the ask ended while you could still undo it." in html(as_person(edo).get("/my-answers/"))


def test_a_held_answer_leaves_also_after_the_deadline(edo, asked):
    """No process ran between the end of the hold and the deadline."""
    ask = asked()
    hold(edo, ask)
    pass_hold(ask, deadline_at=timezone.now())
    assert closing.close_due() == 1
    assert (fresh(ask).status, fresh(ask).accepted.text) == ("answered", "Into 4127.")


def test_sweep_delivers_what_no_worker_was_called_for(edo, asked, monkeypatch):
    calls = []
    monkeypatch.setattr(jobs.transaction, "on_commit", lambda call: call())
    monkeypatch.setattr(jobs, "call_worker", lambda task, *args, **more: calls.append((task, args, more)))
    ask = asked()
    hold(edo, ask)
    assert ("experts.tasks.deliver_held", (ask.pk,), {"delay_s": 5}) in calls
    monkeypatch.setattr(llm, "work", lambda: None)
    tasks.sweep()
    tasks.deliver_held(ask.pk)
    assert fresh(ask).is_open, "too early, as a worker with a fast clock"
    pass_hold(ask)
    tasks.sweep()
    assert fresh(ask).status == "answered"
    closed = fresh(ask).closed_at
    tasks.deliver_held(ask.pk)
    assert fresh(ask).closed_at == closed and AskEvent.objects.filter(verb="answered").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_deliverers_at_once_one_delivers(ada, edo, asked):
    ask = asked()
    hold(edo, ask)
    pass_hold(ask)
    agent, _ = token(ada.project, "agent")
    calls = (lambda: tasks.deliver_held(ask.pk), closing.close_due, lambda: closing.look(agent, ask.pk))
    results = at_once(*calls, *calls)
    assert [one for one in results if isinstance(one, Exception)] == []
    assert AskEvent.objects.filter(verb="answered").count() == 1 and fresh(ask).status == "answered"


@pytest.mark.django_db(transaction=True)
def test_an_undo_and_a_delivery_at_once_end_in_one_of_two_states(ada, edo, asked):
    desk.set_policy(ada, capacity=9)
    for _ in range(5):
        ask = asked(**approval(REPLY))
        calls = [{"id": ask.typed["calls"][0]["id"], "verdict": "approve"}]
        hold(edo, ask, "", decision={"calls": calls})
        pass_hold(ask)
        agent, _ = token(ada.project, "agent")
        results = at_once(
            lambda ask=ask: advising.withdraw(edo, ask.pk), lambda ask=ask, who=agent: closing.look(who, ask.pk)
        )
        undone = any(isinstance(one, queue.AskClaim) for one in results)
        assert [one for one in results if isinstance(one, Exception) and not isinstance(one, Used)] == []
        row = fresh(ask)
        assert (row.status, row.delivered_at is None) == (("open", True) if undone else ("answered", False))


def test_programs_and_models_are_not_held_unless_they_say_so(ada, edo, asked, client, settings):
    settings.AWMWEB_UNDO_S = 5
    first, second = asked(), asked("And this?")
    _, secret = token(ada.project, "expert")

    def call(path, **body):
        headers = {"Authorization": f"Bearer {secret}"}
        return client.post(f"/api/v1{path}", json.dumps(body), "application/json", headers=headers)

    lease = call(f"/asks/{first.pk}/claim").json()
    sent = call(f"/assignments/{lease['assignment']}/answer", lease_token=lease["lease_token"], text="a", nonce="n")
    assert sent.status_code == 200 and fresh(first).status == "answered"
    lease = call(f"/asks/{second.pk}/claim").json()
    body = {"lease_token": lease["lease_token"], "text": "b", "nonce": "n", "hold_s": 10}
    assert call(f"/assignments/{lease['assignment']}/answer", **body).status_code == 200 and fresh(second).is_open
    undone = call(f"/assignments/{lease['assignment']}/undo")
    assert undone.status_code == 200 and undone.json()["lease_token"] != lease["lease_token"]
    assert call(f"/assignments/{lease['assignment']}/answer", **body | {"hold_s": 11}).status_code == 422
    body |= {"lease_token": undone.json()["lease_token"], "nonce": "n2", "hold_s": 0}
    assert call(f"/assignments/{lease['assignment']}/answer", **body).status_code == 200
    assert fresh(second).status == "answered"


def test_desk_says_how_long_pages_hold(ada, edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    for chosen, wanted in ((None, 5), (0, 0), (9, 9)):
        desk.set_policy(ada, undo_s=chosen)
        ask, client = asked(f"And {chosen}?"), as_person(edo)
        client.post(f"/asks/{ask.pk}/claim")
        body = {"text": "Yes.", "nonce": "n", "lease_token": fresh(ask).assignment.lease_token, "then": "watch"}
        client.post(f"/asks/{ask.pk}/answer", body)
        row = fresh(ask)
        assert row.is_open is bool(wanted)
        if wanted:
            assert round((row.held_until - row.held.created_at).total_seconds()) == wanted
    with pytest.raises(AppError):
        desk.set_policy(ada, undo_s=11)


def press(client, page, **beside):
    """Press the button of the toast, as it is on a page, or beside a list."""
    toast = re.search(r'<form method="post" action="([^"]*/asks/undo)".*?</form>', page)
    fields = re.findall(r'name="(ask|own)" value="([^"]+)"', toast[0])
    body = {"ask": [value for name, value in fields if name == "ask"]}
    own = {name: value for name, value in fields if name == "own"}
    return client.post(toast[1], body | own | beside, follow=True)


def test_every_page_undoes_the_newest_answer_without_scripts(edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    ask, client = asked(), as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    body = {"text": "Into 4127.", "nonce": "n", "lease_token": fresh(ask).assignment.lease_token, "then": "watch"}
    page = html(client.post(f"/asks/{ask.pk}/answer", body, follow=True))
    assert "Answered by you" in page and "Answered. The agent gets it in" in page
    page = html(press(client, html(client.get("/episodes/"))))
    assert "Undone before it was read. The ask is yours again, with what you sent." in page
    assert "Into 4127.</textarea>" in page and "data-held=" not in page


def test_undo_beside_the_queue_leads_back_to_its_list(edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    ask, client = asked(), as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    body = {"text": "Into 4127.", "nonce": "n", "lease_token": fresh(ask).assignment.lease_token, "then": "watch"}
    client.post(f"/asks/{ask.pk}/answer", body)
    answer = press(client, html(client.get("/episodes/")), beside="?show=mine&ask=other")
    assert answer.redirect_chain[-1][0].endswith(f"/queue/?show=mine&ask={ask.pk}")


def test_a_batch_is_undone_as_a_whole(edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    asks, client = [asked(**approval({**REPLY, "ticket": number})) for number in range(7)], as_person(edo)
    body = {"ask": [one.pk for one in asks], "verdict": "approve", "nonce": "n", "back": ""}
    page = html(client.post("/queue/decide", body, follow=True))
    assert "Approved 7 calls. The agents get them in" in page and "calls. You can withdraw" not in page
    assert all(fresh(one).is_open for one in asks)
    page = html(press(client, page))
    assert "Undone before it was read. 7 asks are open again." in page
    assert all((fresh(one).held, fresh(one).assignment.state) == (None, "queued") for one in asks)
    assert all(one.pk in page for one in asks)
    batch.decide(edo, body["ask"], "approve", "", "n2", 5)
    Ask.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    assert closing.close_due() == 7 and {fresh(one).accepted.nonce.partition("/")[0] for one in asks} == {"n2"}


def test_one_answer_to_a_group_is_undone_as_a_whole(edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    asks = [asked() for _ in range(3)]
    Ask.objects.update(group="g")
    client = as_person(edo)
    client.post(f"/asks/{asks[0].pk}/claim")
    slot = fresh(asks[0]).assignment
    body = {"text": "This.", "nonce": "n", "lease_token": slot.lease_token, "with": [one.pk for one in asks[1:]]}
    page = html(client.post(f"/asks/{asks[0].pk}/answer", body, follow=True))
    assert "Answered 3 asks. The agents get them in" in page and "Sent" not in page
    held = held_answers.of(edo, timezone.now())
    assert (set(held.asks), held.own) == ({one.pk for one in asks}, asks[0].pk)
    page = html(press(client, page))
    assert "The ask is yours again, with what you sent. 2 asks are open again." in page
    assert [fresh(one).assignment.state for one in asks] == ["claimed", "queued", "queued"]


def test_undo_says_that_a_standing_answer_stays(edo, asked, settings):
    settings.AWMWEB_UNDO_S = 5
    asks, client = [asked(**approval(REPLY)) for _ in range(2)], as_person(edo)
    body = {"ask": [asks[0].pk], "verdict": "ahead", "same": ["template"], "hours": "1", "at_most": "3", "nonce": "n"}
    page = html(client.post("/queue/decide", body, follow=True))
    assert fresh(asks[0]).is_open and fresh(asks[1]).accepted.by == "standing", "given ahead, and held for no one"
    assert "The standing answer that you gave with it is active" in html(press(client, page))
    assert StandingAnswer.objects.get().ended_at is None


def test_after_the_hold_undo_withdraws_until_the_agent_has_read(ada, edo, asked):
    first, second = asked(), asked("And this?")
    for ask in (first, second):
        hold(edo, ask)
        pass_hold(ask)
        closing.close_due()
    closing.consume(ada, second.pk)
    client = as_person(edo)
    assert "The ask is yours again" in html(client.post("/asks/undo", {"ask": first.pk, "own": first.pk}, follow=True))
    page = html(client.post("/asks/undo", {"ask": second.pk, "own": second.pk}, follow=True))
    assert "1 answer not undone: The agent has read this answer" in page


def test_held_answers_are_their_authors_own_and_of_their_project(ada, edo, elsewhere, asked):
    hold(edo, asked())
    now = timezone.now()
    assert held_answers.of(ada, now) is None and held_answers.of(edo, now + timedelta(seconds=6)) is None
    there = person(elsewhere, "edo", "expert")
    assert held_answers.of(there, now) is None


def test_files_of_a_held_answer_are_its_authors_alone(ada, edo, asked):
    from experts.find.attached import visible_files
    from experts.record import attaching
    from tests.asking import picture

    ask = asked()
    lease = queue.claim(edo, ask.pk)
    attaching.attach(edo, ask.pk, "a.png", picture())
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Look.", "n", hold_s=5)
    agent, _ = token(ada.project, "agent")
    assert not visible_files(agent).exists() and not visible_files(ada).exists() and visible_files(edo).exists()
    pass_hold(ask)
    closing.close_due()
    assert visible_files(agent).exists()
