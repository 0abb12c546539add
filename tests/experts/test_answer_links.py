"""Answer links: whom they stand for, that they answer once, and what they show when they are over."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from experts.find import answer_links
from experts.find.answer_links import answer_path
from experts.models import Advice, Ask
from experts.notifications import AskSubject
from experts.record import advising, batch, desk, queue
from people.models import Membership
from people.record import members
from tests.experts.test_standing_answers import REPLY, approval

GONE = "This link has expired or was already used."
APPROVE = json.dumps({"calls": [{"id": "1", "verdict": "approve"}]})


def opened(path, **form):
    """Open a link as a browser without a session, or send its form."""
    page = Client().post(path, form, follow=True) if form else Client().get(path)
    return page.status_code, " ".join(page.content.decode().split())


def test_link_answers_once_in_the_name_of_its_person(edo, asked):
    ask = asked(**approval(REPLY))
    path = answer_path(ask, edo.key)
    status, text = opened(path)
    assert status == 200 and "Sent to edo" in text and "send_reply" in text and "Sign out" not in text
    assert Ask.objects.get(pk=ask.pk).is_open and not ask.assignment.holder, "opening it claims nothing"
    status, text = opened(path, decision=APPROVE, text="Fine.")
    said = Ask.objects.select_related("accepted").get(pk=ask.pk).accepted
    assert status == 200 and "You answered this ask" in text
    assert (said.author, said.by, said.text) == ("edo", "person", "Fine.")
    assert said.decision["calls"][0]["verdict"] == "approve"
    opened(path, decision=APPROVE, text="Again.")
    assert Advice.objects.filter(ask=ask).count() == 1


def test_question_gets_a_text_and_an_empty_one_is_refused(edo, asked):
    ask = asked()
    path = answer_path(ask, edo.key)
    status, text = opened(path, text="  ")
    assert status == 422 and "Write an answer" in text and Ask.objects.get(pk=ask.pk).is_open
    assert opened(path, text="Into 4127.\r\nThen close.")[0] == 200
    assert Ask.objects.get(pk=ask.pk).accepted.text == "Into 4127.\nThen close."


def test_decision_that_does_not_fit_is_kept_and_claims_nothing(edo, asked):
    ask = asked(**approval(REPLY))
    wrong = json.dumps({"calls": [{"id": "1", "verdict": "reject"}]})
    status, text = opened(answer_path(ask, edo.key), decision=wrong, text="my note")
    assert status == 422 and "needs a reason" in text and "my note" in text
    assert not Ask.objects.get(pk=ask.pk).assignment.holder


def test_withdrawn_answer_reopens_the_ask_and_ends_the_link(edo, ada, asked):
    ask = asked(**approval(REPLY))
    path = answer_path(ask, edo.key)
    opened(path, decision=APPROVE)
    status, text = opened(path, withdraw="1")
    assert status == 410 and GONE in text
    ask = Ask.objects.select_related("assignment").get(pk=ask.pk)
    assert ask.is_open and not ask.assignment.holder
    assert opened(path, decision=APPROVE)[0] == 409 or Ask.objects.get(pk=ask.pk).is_open
    batch.decide(ada, [ask.pk], "reject", "Not now.", "n")
    assert "ada answered this ask" in opened(path)[1]


def test_someone_else_was_first_and_the_link_says_who(edo, ada, asked):
    ask = asked(**approval(REPLY))
    path = answer_path(ask, edo.key)
    lease = queue.claim(ada, ask.pk)
    status, text = opened(path, decision=APPROVE, text="mine")
    assert status == 409 and "ada" in text and "mine" in text
    advising.answer(ada, lease.assignment_id, lease.lease_token, "", "n", decision=json.loads(APPROVE))
    status, text = opened(path, decision=APPROVE)
    assert "ada answered this ask" in text and "Your link sent nothing" in text
    assert Advice.objects.filter(ask=ask, late=False).count() == 1


@pytest.mark.parametrize("end", ["deadline", "member", "role", "entry", "setting", "account", "archived"])
def test_link_ends_and_then_shows_no_names_and_no_calls(edo, ada, asked, end):
    ask = asked(**approval(REPLY))
    path = answer_path(ask, edo.key)
    row = Membership.objects.get(user=edo.person, project=edo.project)
    if end == "deadline":
        Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    elif end == "member":
        members.remove_member(ada, row.pk)
    elif end == "role":
        Membership.objects.filter(pk=row.pk).update(role="reviewer")
    elif end == "entry":
        Membership.objects.filter(pk=row.pk).update(entry="another")
    elif end == "setting":
        desk.set_policy(ada, answer_links=False)
    elif end == "account":
        type(edo.person).objects.filter(pk=edo.person.pk).update(is_active=False)
    else:
        type(edo.project).objects.filter(pk=edo.project.pk).update(archived_at=timezone.now())
    for form in ({}, {"decision": APPROVE}):
        status, text = opened(path, **form)
        assert status == 410 and GONE in text
        assert not re.search(r"\b(send_reply|edo)\b", text), "as words: a token can hold any letters"
    assert not Advice.objects.filter(ask=ask).exists()


def test_forged_and_foreign_tokens_are_gone(edo, asked):
    ask, other = asked(), asked()
    path = answer_path(ask, edo.key)
    token = path.rpartition("/")[2]
    assert answer_path(ask, "user:999999") == "" and answer_path(ask, "token:x") == ""
    forged = (token[:-1] + ("A" if token[-1] != "A" else "B"), token.replace(ask.pk, other.pk), "x", "a.1", "a.b.c",
              f"{ask.pk}.{'9' * 30}.x", ".", "\x00.1.x")  # fmt: skip
    for one in forged:
        assert opened(f"/answer/{one}")[0] in (404, 410), one


def test_links_are_in_no_index_and_tell_no_other_site(edo, asked):
    page = Client().get(answer_path(asked(), edo.key))
    assert (page["Referrer-Policy"], page["X-Robots-Tag"]) == ("same-origin", "noindex")
    assert "no-store" in page["Cache-Control"]


def test_notice_has_the_link_only_where_the_project_wants_it(edo, ada, asked):
    subject = AskSubject(asked())
    assert subject.answer_path(edo.key).startswith("/answer/")
    desk.set_policy(ada, answer_links=False)
    assert subject.answer_path(edo.key) == ""


def test_answer_sent_while_its_page_is_read_is_no_withdrawn_one(edo, asked, monkeypatch):
    ask = asked(**approval(REPLY))
    path = answer_path(ask, edo.key)
    reads = []

    def link_of(token, now):
        reads.append(found := answer_links.link_of(token, now))
        if len(reads) == 2:
            opened(path, decision=APPROVE)
        return found

    monkeypatch.setattr("experts.pages.link.link_of", link_of)
    assert opened(path)[0] == 200 and Advice.objects.filter(ask=ask).count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_links_pressed_at_the_same_moment_one_answers(edo, ada, asked):
    ask = asked(**approval(REPLY))
    paths = [answer_path(ask, one.key) for one in (edo, ada)] * 2

    def press(path):
        try:
            return opened(path, decision=APPROVE)[0]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(press, paths)) <= {200, 409}
    assert Advice.objects.filter(ask=ask, late=False).count() == 1
