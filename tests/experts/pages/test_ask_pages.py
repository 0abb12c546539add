"""The queue and the page of an ask: who sees what, claiming and sending by form, once, and what is kept when late."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.schema import STEP, AskOpen, EpisodeStart
from episodes.record import recording
from experts.find import board
from experts.models import Advice, Ask, Assignment
from experts.record import advising, closing, desk, opening, queue
from people.models import Membership
from tests.browsing import as_person, html

TOOLS = [
    {
        "name": "merge",
        "description": "Merge two tickets.",
        "input_schema": {"type": "object", "properties": {"into": {"type": "integer"}}, "required": ["into"]},
    },
    {"name": "odd", "input_schema": {"type": "no such type"}},
]


@pytest.fixture
def episode(ada):
    plan = EpisodeStart(
        key="one", task="merge the tickets", expert="plain", scenario="helpdesk_2", task_idx=4, tools=TOOLS
    )
    return recording.start_episode(ada, plan)[0]


@pytest.fixture
def ask(ada, episode):
    return opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Into which <b>one</b>?"))[0]


def hidden(page, name):
    return re.search(rf'name="{name}" value="([^"]*)"', html(page))[1]


def send(client, ask, **fields):
    page = client.get(f"/asks/{ask.pk}/")
    body = {
        "lease_token": hidden(page, "lease_token"),
        "nonce": "n",
        "text": "Into 4127.",
        "tool_calls": "[]",
        **fields,
    }
    return client.post(f"/asks/{ask.pk}/answer", body)


def test_the_queue_shows_the_question_as_text_and_who_may_claim(edo, rita, ask):
    page = html(as_person(edo).get("/queue/"))
    assert "1 ask is open, due in" in page and "Into which &lt;b&gt;one&lt;/b&gt;?" in page and "helpdesk_2 / 4" in page
    assert f"/asks/{ask.pk}/claim" in page
    assert f"/asks/{ask.pk}/claim" not in html(as_person(rita).get("/queue/"))


def test_rows_show_question_without_its_markdown(edo, ada, episode):
    text = "Is **this** right?\n\n```python\nmerge(4127)\nclose()\n```"
    ask = opening.open_ask(ada, AskOpen(key="code", episode=episode.pk, seq=1, question=text))[0]
    client, line = as_person(edo), "Is this right? merge(4127) …"
    assert f">{line}</a>" in html(client.get("/queue/"))
    assert line in html(client.get(f"/episodes/{episode.pk}/"))
    queue.claim(edo, ask.pk)
    send(client, ask)
    assert line in html(client.get("/my-answers/")) and line in html(client.get("/queue/"))


def test_an_empty_queue_says_so_and_a_filter_says_what_it_hides(edo, project, ask):
    hides = html(as_person(edo).get("/queue/?show=mine"))
    assert "No open asks match." in hides and "1 open ask outside this filter" in hides
    Ask.objects.all().delete()
    assert "No agent is stuck." in html(as_person(edo).get("/queue/"))


@pytest.mark.parametrize("deep", ["[" * 950 + "]" * 950, '{"a":' * 950 + "1" + "}" * 950])
def test_pages_show_result_that_nests_too_deeply(ada, edo, episode, deep):
    step = {"seq": 1, "kind": "tool_call", "name": "tree", "arguments": {}, "result": deep}
    recording.append_steps(ada, episode.pk, [STEP.validate_python(step)])
    asked = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=2, question="Which?", context=deep))[0]
    client = as_person(edo)
    queue.claim(edo, asked.pk)
    one, mine = f"/episodes/{episode.pk}/", f"/asks/{asked.pk}/"
    for path in (one, f"{one}replay/", f"{one}steps.html", mine, f"{mine}steps.html"):
        page = client.get(path)
        assert page.status_code == 200 and deep[:40].replace('"', "&quot;") in html(page), path


def test_a_stranger_finds_nothing_of_an_ask(max_, ask):
    client = as_person(max_)
    assert "Into which" not in html(client.get("/queue/"))
    for path in ("", "steps.html"):
        assert client.get(f"/asks/{ask.pk}/{path}").status_code == 404
    for action in ("claim", "renew", "release", "pass", "answer"):
        assert client.post(f"/asks/{ask.pk}/{action}").status_code == 404


def test_not_found_page_keeps_navigation_when_signed_in(edo, client):
    lost = as_person(edo).get("/nowhere/")
    assert lost.status_code == 404 and 'aria-label="Main"' in html(lost)
    assert 'aria-label="Main"' not in html(client.get("/nowhere/"))


def test_anonymous_visitor_signs_in_and_returns(client, db, ask):
    answer = client.get(f"/asks/{ask.pk}/")
    assert answer.status_code == 302 and answer["Location"] == f"/login?next=%2Fasks%2F{ask.pk}%2F"


def test_a_reviewer_reads_an_ask_and_may_not_claim_it(rita, ask):
    client = as_person(rita)
    assert "Your role can view asks but not answer them." in html(client.get(f"/asks/{ask.pk}/"))
    assert client.post(f"/asks/{ask.pk}/claim").status_code == 403


def test_page_of_an_ask_says_why_it_cannot_be_claimed(edo, ada, ask):
    client = as_person(edo)
    Ask.objects.filter(pk=ask.pk).update(skills=["law"])
    page = html(client.get(f"/asks/{ask.pk}/"))
    assert "Requires: law." in page and "Claim and answer" not in page
    desk.set_policy(ada, senior=Membership.objects.get(user=ada.person))
    Ask.objects.filter(pk=ask.pk).update(skills=[], tier="senior")
    page = html(client.get(f"/asks/{ask.pk}/"))
    assert "Only the senior expert can claim it." in page and "Claim and answer" not in page


def test_page_of_a_declined_ask_offers_no_claim(edo, ada, ask):
    queue.decline_unclaimed(edo, ask.pk)
    declined, free = (html(as_person(one).get(f"/asks/{ask.pk}/")) for one in (edo, ada))
    assert "You declined. Others can still answer" in declined and "Claim and answer" not in declined
    assert "Claim and answer" in free


def test_ids_of_ask_and_episode_stay_copyable_after_a_refresh(edo, ask, episode):
    client = as_person(edo)
    for address in (f"/asks/{ask.pk}/", f"/asks/{ask.pk}/steps.html?since=0&parts=1"):
        page = html(client.get(address))
        assert all(f'data-copy-text="{one}"' in page for one in (ask.pk, episode.pk)), address


def test_claiming_shows_the_form_with_the_agents_tools(edo, ask):
    client = as_person(edo)
    page = client.post(f"/asks/{ask.pk}/claim", follow=True)
    assert page.status_code == 200 and hidden(page, "lease_token") and "Claimed until" in html(page)
    assert json.loads(re.search(r'id="tools-data"[^>]*>(.*?)</script>', html(page))[1])[0]["name"] == "merge"


def test_foreign_lease_shows_holder_without_token(edo, ada, ask):
    token = queue.claim(edo, ask.pk).lease_token
    client = as_person(ada)
    page = html(client.post(f"/asks/{ask.pk}/claim", follow=True))
    assert "edo is answering" in page and token not in page and 'name="lease_token"' not in page


def test_an_answer_reaches_the_ask_once_however_often_it_is_sent(edo, ask):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    page = client.get(f"/asks/{ask.pk}/")
    body = {
        "lease_token": hidden(page, "lease_token"),
        "nonce": hidden(page, "nonce"),
        "text": "Into 4127.",
        "then": "watch",
    }
    first, second = (client.post(f"/asks/{ask.pk}/answer", body) for _ in range(2))
    assert first.status_code == second.status_code == 302 and first["Location"] == f"/projects/lab/asks/{ask.pk}/"
    assert Advice.objects.filter(ask=ask).count() == 1
    after = html(client.get(f"/asks/{ask.pk}/"))
    assert "You answered in" in after and "Into 4127." in after and "Not delivered yet." in after


def test_send_and_next_claims_the_next_one(edo, ada, episode, ask):
    other, _ = opening.open_ask(ada, AskOpen(key="r", episode=episode.pk, seq=2, question="And then?"))
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    assert send(client, ask)["Location"] == f"/projects/lab/asks/{other.pk}/"
    other.refresh_from_db()
    assert other.assignment.holder == edo.key


@pytest.mark.parametrize("name", ["drafted_by", "with"])
def test_unstorable_id_beside_an_answer_is_refused(edo, ask, name):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    assert send(client, ask, **{name: "model:\x00 earlier:\x00"}).status_code == 404
    assert not Advice.objects.exists()


def test_the_script_gets_json_with_the_contracts_code(edo, ask):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    body = {"lease_token": "not mine", "nonce": "n", "text": "x"}
    refused = client.post(f"/asks/{ask.pk}/answer", body, headers={"accept": "application/json"})
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "lease_lost"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": "", "tool_calls": "[]"}, "Write an answer"),
        ({"tool_calls": '[{"name": "nope", "arguments": {}}]'}, "has no tool nope"),
        ({"tool_calls": '[{"name": "merge", "arguments": {"into": "x"}}]'}, "into is not of type integer"),
        ({"tool_calls": '[{"name": "merge"}]'}, "into is missing"),
        ({"tool_calls": '{"name"'}, "not valid JSON (line 1, column 8)"),
        ({"text": "x" * 20_001}, "20000"),
        ({"text": "a\x00b"}, "U+0000"),
        ({"nonce": ""}, "nonce"),
    ],
)
def test_a_refused_answer_keeps_the_words_and_the_ask_open(edo, ask, fields, words):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    page = send(client, ask, **fields)
    assert page.status_code == 422 and words in html(page)
    ask.refresh_from_db()
    assert ask.is_open and not Advice.objects.exists()


def test_typed_text_has_one_line_feed_per_line(edo, ask):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    typed = {"text": "Run:\r\n\r\n  x = 1\rdone", "version": "0"}
    kept = "Run:\n\n  x = 1\ndone"
    assert client.post(f"/asks/{ask.pk}/draft", typed).status_code == 200
    assert ask.drafts.get().text == kept
    again = client.post(f"/asks/{ask.pk}/draft", {**typed, "text": kept})  # the same text, so no conflict
    assert again.status_code == 200
    send(client, ask, text=typed["text"], tool_calls='[{"name": "merge", "arguments": {"into": 9007199254740993}}]')
    said = Advice.objects.get()
    assert said.text == kept and said.tool_calls[0]["arguments"] == {"into": 9007199254740993}


def test_invalid_agent_schema_does_not_block_an_answer(edo, ask):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    assert send(client, ask, tool_calls='[{"name": "odd", "arguments": {}}]').status_code == 302


def test_a_late_answer_is_kept_beside_the_ask_and_shown_as_late(edo, ask):
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    page = client.get(f"/asks/{ask.pk}/")
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    body = {"lease_token": hidden(page, "lease_token"), "nonce": "n", "text": "Too slow, into 4127."}
    late = client.post(f"/asks/{ask.pk}/answer", body)
    text = html(late)
    assert late.status_code == 409 and "No answer before the deadline." in text
    assert "too late; saved as an annotation" in text and "Too slow, into 4127." in text


@pytest.mark.parametrize(
    ("reason", "words"),
    [("asker", "The agent withdrew its question."), ("desk", "Someone cancelled this ask on the queue page.")],
)
def test_a_cancelled_ask_of_an_agent_at_work_waits_nowhere(edo, ada, episode, ask, reason, words):
    closing.cancel(ada, ask.pk, reason)
    seen = html(as_person(edo).get(f"/asks/{ask.pk}/"))
    assert words in seen and "cancelled ask" in seen and "Waiting for advice" not in seen
    live = html(as_person(edo).get(f"/episodes/{episode.pk}/"))
    assert "cancelled ask" in live and "Open the ask" not in live and "The agent is working" in live


def test_passing_frees_the_ask_for_others_and_next_skips_it(edo, ask):
    client = as_person(edo)
    page = client.post(f"/asks/{ask.pk}/claim", follow=True)
    client.post(f"/asks/{ask.pk}/pass", {"lease_token": hidden(page, "lease_token"), "reason": "not mine"})
    assert board.next_for(edo, timezone.now()) is None
    assert "No ask to claim right now: you declined 1." in html(client.post("/queue/next", follow=True))


def test_next_for_me_goes_on_with_what_i_hold(edo, ada, episode, ask):
    opening.open_ask(ada, AskOpen(key="r", episode=episode.pk, seq=2, question="Sooner?", deadline_s=10))
    queue.claim(edo, ask.pk)
    assert as_person(edo).post("/queue/next")["Location"] == f"/projects/lab/asks/{ask.pk}/"


def test_renewing_pushes_the_lease_and_a_stranger_token_does_not(edo, ask):
    client = as_person(edo)
    page = client.post(f"/asks/{ask.pk}/claim", follow=True)
    assert "lease_until" in client.post(f"/asks/{ask.pk}/renew", {"lease_token": hidden(page, "lease_token")}).json()
    assert client.post(f"/asks/{ask.pk}/renew", {"lease_token": "x"}).json()["error"]["code"] == "lease_lost"


def test_refusal_of_a_lost_lease_names_the_holder(edo, ada, ask):
    client = as_person(edo)
    token = hidden(client.post(f"/asks/{ask.pk}/claim", follow=True), "lease_token")
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now())
    other = queue.claim(ada, ask.pk)
    sent = {"lease_token": token, "text": "Into 7.", "nonce": "n"}
    scripted = {"HTTP_ACCEPT": "application/json"}
    for path in ("renew", "answer"):
        refused = client.post(f"/asks/{ask.pk}/{path}", sent, **scripted).json()["error"]
        assert (refused["code"], refused["held_by"]) == ("lease_lost", "ada")
        assert refused["message"] == "ada claimed this ask. Your text is saved with it."
    queue.release(ada, other.assignment_id, other.lease_token)
    assert client.post(f"/asks/{ask.pk}/renew", sent).json()["error"]["held_by"] == ""


def test_releasing_says_what_is_kept(edo, ask):
    client = as_person(edo)
    for text, kept in (("", False), ("Half a thought", True)):
        token = hidden(client.post(f"/asks/{ask.pk}/claim", follow=True), "lease_token")
        if text:
            client.post(f"/asks/{ask.pk}/draft", {"text": text, "version": 0})
        released = html(client.post(f"/asks/{ask.pk}/release", {"lease_token": token}, follow=True))
        assert "Released. Others can claim it." in released and ("Your text is saved." in released) is kept


def test_open_ask_fragments_omit_the_question(edo, ada, episode):
    step = {"seq": 1, "kind": "message", "role": "assistant", "content": "hm"}
    from awmclient.schema import STEP

    recording.append_steps(ada, episode.pk, [STEP.validate_python(step)])
    ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=2, question="Into which one?"))
    client = as_person(edo)
    open_page = html(client.get(f"/asks/{ask.pk}/steps.html?since=0"))
    assert 'data-seq="1"' in open_page and 'data-seq="2"' not in open_page
    assert 'data-top="2"' in html(client.get(f"/asks/{ask.pk}/"))
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "This one.", "n")
    assert 'data-last="1"' in open_page
    closed = html(client.get(f"/asks/{ask.pk}/steps.html?since=1"))
    assert 'data-seq="1"' not in closed and 'data-seq="2"' in closed and "This one." in closed


def test_the_first_page_names_the_open_ask_and_the_agent_at_work(ada, ask):
    page = html(as_person(ada).get("/"))
    assert "1 ask is open, due in" in page and "1 live, 1 needs a person" in page


def test_next_ask_is_fetched_unclaimed_and_claimed_by_the_answer(edo, ada, ask):
    other = recording.start_episode(ada, EpisodeStart(key="two", task="close the ticket", expert="plain"))[0]
    after = opening.open_ask(ada, AskOpen(key="q", episode=other.pk, seq=1, question="Which way round?"))[0]
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    ahead = client.get(f"/asks/{ask.pk}/next").json()
    assert ahead["ask"] == after.pk and "Which way round?" in ahead["page"] and 'name="lease_token"' in ahead["page"]
    after.assignment.refresh_from_db()
    assert after.assignment.state == "queued"
    body = {"lease_token": hidden(client.get(f"/asks/{ask.pk}/"), "lease_token"), "nonce": "n", "text": "That one."}
    headers = {"Accept": "application/json", "X-Swap": after.pk}
    told = client.post(f"/asks/{ask.pk}/answer", {**body, "tool_calls": "[]"}, headers=headers).json()
    after.assignment.refresh_from_db()
    assert told["next"] == f"/projects/lab/asks/{after.pk}/" and "page" not in told
    assert told["lease"]["token"] == after.assignment.lease_token
    assert client.get(f"/asks/{after.pk}/next").status_code == 204


def test_answer_loads_the_page_if_next_ask_changed(edo, ada, ask):
    other = recording.start_episode(ada, EpisodeStart(key="two", task="close the ticket", expert="plain"))[0]
    after = opening.open_ask(ada, AskOpen(key="q", episode=other.pk, seq=1, question="Which way round?"))[0]
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    body = {"lease_token": hidden(client.get(f"/asks/{ask.pk}/"), "lease_token"), "nonce": "n", "text": "That one."}
    headers = {"Accept": "application/json", "X-Swap": "page"}
    told = client.post(f"/asks/{ask.pk}/answer", {**body, "tool_calls": "[]"}, headers=headers).json()
    after.assignment.refresh_from_db()
    assert f'value="{after.assignment.lease_token}"' in told["page"] and "lease" not in told


def test_fetched_ask_that_someone_else_claimed_is_not_opened(edo, ada, ask):
    other = recording.start_episode(ada, EpisodeStart(key="two", task="close the ticket", expert="plain"))[0]
    after = opening.open_ask(ada, AskOpen(key="q", episode=other.pk, seq=1, question="Which way round?"))[0]
    client = as_person(edo)
    client.post(f"/asks/{ask.pk}/claim")
    queue.claim(ada, after.pk)
    body = {"lease_token": hidden(client.get(f"/asks/{ask.pk}/"), "lease_token"), "nonce": "n", "text": "That one."}
    headers = {"Accept": "application/json", "X-Swap": after.pk}
    told = client.post(f"/asks/{ask.pk}/answer", {**body, "tool_calls": "[]"}, headers=headers).json()
    after.assignment.refresh_from_db()
    assert told["next"] == "/projects/lab/queue/" and "lease" not in told and after.assignment.holder == ada.key
