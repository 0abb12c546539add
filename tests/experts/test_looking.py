"""The second look of a model, over HTTP against a local server: what it is shown, what it returns, and that no fault of
it holds an answer back."""

from __future__ import annotations

import contextlib
import json
import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import AskOpen
from episodes.models import Episode, OutcomeHold
from experts import looking
from experts.find.answer_links import answer_path
from experts.models import Ask, AskEvent, ModelCall
from experts.record import advising, batch, desk, opening, queue
from people.errors import AppError
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.browsing import as_person, html
from tests.episodes.visible.test_briefings import INFORMED, WORDS, briefed
from tests.experts.test_answer_links import opened
from tests.experts.test_standing_answers import REPLY, approval
from tests.people_by_name import token

WHY = "Ticket 9 <does> not exist."
BACK = json.dumps({"return": True, "reason": WHY})
JSON = {"accept": "application/json"}


@pytest.fixture
def look(settings, ada):
    """An expert model that says this to every answer of people."""
    with contextlib.ExitStack() as stack:

        def start(reply, timeout_s=60.0):
            server = OpenAIServer(lambda body: reply(body) if callable(reply) else reply)
            stack.enter_context(answering(server))
            wise = EndpointConfig(server.base_url, "wise-1", "k", timeout_s=timeout_s, options={"seed": 7})
            settings.EXPERT_ENDPOINTS = {"wise": wise}
            desk.set_policy(ada, second_look_model="wise")
            return server

        yield start


def sent(actor, ask, text="Into 9.", accept="text/html", **more):
    """Claim an ask and send an answer with the form of its page."""
    lease = queue.claim(actor, ask.pk)
    body = {"lease_token": lease.lease_token, "text": text, "nonce": "n", "tool_calls": "[]", "then": "watch"}
    return as_person(actor).post(f"/asks/{ask.pk}/answer", {**body, **more}, headers={"accept": accept})


def fresh(ask):
    return Ask.objects.select_related("accepted", "episode", "project").get(pk=ask.pk)


def test_returned_answer_keeps_its_text_and_can_be_sent_anyway(look, edo, asked):
    look(BACK)
    ask = asked()
    page = html(sent(edo, ask))
    assert "Not sent: the model wise thinks: Ticket 9 &lt;does&gt; not exist." in page and "Into 9.</textarea>" in page
    assert fresh(ask).is_open and page.count("Send anyway") == 1 and "hidden>Send anyway" not in page
    said = sent(edo, ask, accept="application/json")
    assert said.status_code == 422 and said.json()["error"]["code"] == "second_look_model"
    sent(edo, ask, anyway="1")
    accepted = fresh(ask).accepted
    assert (accepted.text, accepted.overruled) == ("Into 9.", f"wise: {WHY}")
    events = AskEvent.objects.filter(ask=ask, verb="returned").values_list("actor", "reason")
    assert list(events) == [("edo", f"wise: {WHY}")] * 2
    assert "Sent despite a second look.</b>wise: Ticket 9 &lt;does&gt;" in html(as_person(edo).get(f"/asks/{ask.pk}/"))
    assert "overruled" not in json.dumps(accepted.value().model_dump()), "no agent reads it"
    calls = {(call.purpose, call.fault, call.model, str(call.options)) for call in ModelCall.objects.all()}
    assert calls == {("look", "", "wise-1", "{'seed': 7}")}
    assert accepted.value().model is None and "wise-1 (seed 7)" in html(as_person(edo).get(f"/asks/{ask.pk}/"))


def test_anyway_without_a_return_is_looked_at(look, edo, asked):
    server = look(BACK)
    ask = asked()
    assert sent(edo, ask, anyway="1").status_code == 422 and len(server.bodies) == 1
    assert sent(edo, ask, text="Into 8.").status_code == 422, "another text is looked at again"
    assert len(server.bodies) == 2 and fresh(ask).is_open


@pytest.mark.parametrize(
    "reply",
    [
        '{"return": false}',
        "Looks good to me.",
        '{"return": true}',
        '{"return": true, "reason": " "}',
        '{"return": "yes", "reason": "no"}',
        f"<think>{BACK} No, it is there.</think>{json.dumps({'return': False})}",
        "{" * 5000,
        lambda body: error(500, "down"),
        lambda body: {"role": "assistant", "content": None},
    ],
)
def test_reply_without_a_return_lets_the_answer_pass(look, edo, asked, reply):
    server = look(reply)
    ask = asked()
    sent(edo, ask)
    call = ModelCall.objects.get(ask=ask)
    assert fresh(ask).accepted.text == "Into 9." and fresh(ask).accepted.overruled == "" and server.bodies
    assert bool(call.fault) == (isinstance(reply, str) and '{"return": false}' not in reply or callable(reply))
    assert not fresh(ask).episode.events.filter(verb="model_failed").exists(), "the ask was never the model's"


def test_slow_and_dead_models_hold_no_answer_back(look, edo, asked, monkeypatch, settings):
    over = threading.Event()
    server = look(lambda body: over.wait(60) and BACK or BACK)
    monkeypatch.setattr(looking, "LOOK_S", 1.0)
    slow = asked()
    try:
        sent(edo, slow)
    finally:
        over.set()
    assert fresh(slow).accepted.text == "Into 9." and "no answer within 1 s" in ModelCall.objects.get(ask=slow).fault
    settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig("http://127.0.0.1:9/v1", "wise-1", "k")}
    dead = asked()
    sent(edo, dead)
    assert fresh(dead).accepted.text == "Into 9." and ModelCall.objects.get(ask=dead).fault
    assert len(server.bodies) == 1


def test_routing_counts_looks_that_came_too_late(look, edo, ada, asked, monkeypatch):
    over = threading.Event()
    server = look(lambda body: over.wait(60) and BACK or BACK)
    monkeypatch.setattr(looking, "LOOK_S", 1.0)
    try:
        sent(edo, asked())
    finally:
        over.set()
    server.reply = lambda body: '{"return": false}'
    sent(edo, asked())
    page = " ".join(html(as_person(ada).get("/routing/")).split())
    assert "1 of its last 2 second looks came too late:" in page


@pytest.mark.parametrize("without", ["time", "tokens", "room", "setting", "endpoint", "people only", "size"])
def test_no_look_is_taken_without(look, ada, edo, asked, settings, monkeypatch, without):
    server = look(BACK)
    ask, text = asked(), "Into 9."
    if without == "time":
        soon = timezone.now() + timedelta(seconds=looking.LEFT_S)
        Ask.objects.filter(pk=ask.pk).update(deadline_at=soon)
    elif without == "tokens":
        desk.set_policy(ada, model_tokens_per_hour=0)
    elif without == "room":
        full = threading.BoundedSemaphore(1)
        full.acquire()
        monkeypatch.setattr(looking, "_rooms", {settings.AWMWEB_EXPERT_LIMIT: full})
    elif without == "setting":
        desk.set_policy(ada, second_look_model="")
    elif without == "endpoint":
        settings.EXPERT_ENDPOINTS = {}
    elif without == "people only":
        Episode.objects.filter(pk=ask.episode_id).update(policy={"experts": "people"})
    else:
        monkeypatch.setattr(looking, "ANSWER_CHARS", 10)
    sent(edo, ask, text=text)
    assert fresh(ask).accepted.text == text and not server.bodies


def test_closed_ask_keeps_the_late_text_without_a_look(look, ada, edo, asked):
    server = look(BACK)
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    body = {"lease_token": lease.lease_token, "text": "late words", "nonce": "n", "tool_calls": "[]"}
    as_person(edo).post(f"/asks/{ask.pk}/answer", body)
    assert ask.advice.get(late=True).text == "late words" and not server.bodies


def test_edits_and_links_are_looked_at_and_programs_not(look, ada, edo, asked, project):
    server = look(lambda body: BACK if "Into 9" in body["messages"][1]["content"] else '{"return": false}')
    ask, linked = asked(), asked()
    sent(edo, ask, text="Into 8.")
    edited = as_person(edo).post(
        f"/asks/{ask.pk}/amend", {"text": "Into 9.", "nonce": "m", "tool_calls": "[]"}, headers=JSON
    )
    assert edited.status_code == 422 and fresh(ask).accepted.text == "Into 8."
    path = answer_path(linked, edo.key)
    status, text = opened(path, text="Into 9.")
    assert status == 422 and "Send anyway" in text and "Into 9." in text and not linked.assignment.holder
    assert opened(path, text="Into 9.", anyway="1")[0] == 200 and fresh(linked).accepted.overruled
    looks = len(server.bodies)
    clerk, other = token(project, "expert")[0], asked()
    lease = queue.claim(clerk, other.pk)
    advising.answer(clerk, lease.assignment_id, lease.lease_token, "Into 9.", "c")
    assert len(server.bodies) == looks


def test_each_call_of_a_batch_is_looked_at(look, ada, edo, asked, monkeypatch):
    server = look(lambda body: BACK if '"ticket": 9' in body["messages"][1]["content"] else '{"return": false}')
    wrong, right = asked(**approval({**REPLY, "arguments": {"ticket": 9}})), asked(**approval(REPLY))
    said = batch.decide(edo, [wrong.pk, right.pk], "approve", "", "b")
    assert said == {wrong.pk: f"Not sent: the model wise thinks: {WHY}", right.pk: ""} and len(server.bodies) == 2
    assert fresh(wrong).is_open and fresh(wrong).assignment.holder == "", "the claim is given back"
    monkeypatch.setattr(batch, "LOOKS_S", -1.0)
    assert batch.decide(edo, [wrong.pk], "approve", "", "c") == {wrong.pk: batch.LATER} and len(server.bodies) == 2
    desk.set_policy(ada, second_look_model="")
    assert batch.decide(edo, [wrong.pk], "approve", "", "d") == {wrong.pk: ""}


def test_namesake_cannot_overrule_the_return_of_another(look, ada, edo, asked):
    server = look(BACK)
    ask = asked()
    assert sent(edo, ask, accept="application/json").status_code == 422
    queue.release(edo, ask.assignment.pk, fresh(ask).assignment.lease_token)
    AskEvent.objects.filter(ask=ask).update(actor=ada.name)
    assert sent(ada, ask, accept="application/json", anyway="1").status_code == 422 and len(server.bodies) == 2


def test_model_sees_no_more_than_who_answers(look, ada, edo):
    server = look('{"return": false}')
    episode, other = briefed(ada, INFORMED, expert="informed"), briefed(ada, {**INFORMED, "text": "x"})
    asks = []
    for seq in (2, 3):
        wanted = AskOpen(key=f"q{seq}", episode=episode.pk, seq=seq, question="Which?")
        asks.append(opening.open_ask(ada, wanted)[0])
        Ask.objects.filter(pk=asks[-1].pk).update(draft_hint="a hint for another model")
    sent(edo, asks[0])
    OutcomeHold.objects.create(episode=other, actor_key=edo.key, by="review")
    sent(edo, asks[1])
    shown = [json.loads(body["messages"][1]["content"]) for body in server.bodies]
    assert [WORDS in json.dumps(one) for one in shown] == [True, False], "withheld from edo, and so from the model"
    for one in shown:
        assert one["answer"] == {"text": "Into 9."} and "success_criteria" not in one
        assert "a hint" not in json.dumps(one)


def test_model_of_the_second_look_is_one_that_is_configured(look, ada, settings):
    look(BACK)
    assert "configured" in desk.problems_of(ada, {"second_look_model": "other"})["second_look_model"]
    settings.EXPERT_ENDPOINTS = {}
    page = html(as_person(ada).get("/routing/"))
    assert 'value="wise" selected>wise, not configured' in page
    with pytest.raises(AppError):
        desk.set_policy(ada, second_look_model="other")
