"""Decisions with the HTML of the page alone, as a browser without scripts sends it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from django.test import Client

from experts.find.answer_links import answer_path
from experts.models import Ask
from experts.record import closing, queue
from tests.browsing import as_person
from tests.experts.test_standing_answers import approval

ARGUMENTS = {"ticket": 9007199254740993, "template": "refund", "lines": ["a", "b"]}
FORM = {
    "type": "object",
    "required": ["contact", "pallets"],
    "properties": {
        "contact": {"type": "string"},
        "pallets": {"type": "integer", "minimum": 1},
        "lift": {"enum": ["yes", "no"]},
    },
}


class Form(HTMLParser):
    """The successful controls of the form with this attribute, and their names by label or text."""

    def __init__(self, page, marked):
        super().__init__(convert_charrefs=True)
        self.marked, self.fields, self.action, self.names = marked, {}, None, []
        self.inside, self.area, self.select = False, None, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        if tag == "form":
            self.inside = self.marked in has
            self.action = has.get("action") if self.inside else self.action
        if not self.inside or (name := has.get("name")) is None and tag != "option":
            return
        if tag != "option":
            self.names.append(name)
        if tag == "textarea":
            self.area, self.fields[name] = name, ""
        elif tag == "select":
            self.select, self.fields[name] = name, ""
        elif tag == "option" and "selected" in has:
            self.fields[self.select] = has["value"]
        elif tag == "input" and (has.get("type") not in ("radio", "checkbox") or "checked" in has):
            self.fields[name] = has.get("value", "")

    def handle_data(self, data):
        if self.area:
            self.fields[self.area] += data

    def handle_endtag(self, tag):
        self.area = None if tag == "textarea" else self.area
        self.inside = self.inside and tag != "form"


def form_of(page, marked="data-answer"):
    return Form(page.content.decode(), marked)


def claimed(actor, ask):
    queue.claim(actor, ask.pk)
    client = as_person(actor)
    return client, form_of(client.get(f"/asks/{ask.pk}/"))


def sent(client, form, **more):
    """Press Send and watch, with these values in the fields."""
    return client.post(form.action, {**form.fields, "watch": "watch", **more})


def decision(ask):
    return Ask.objects.get(pk=ask.pk).accepted.decision


def test_calls_are_approved_edited_and_rejected(edo, asked):
    ask = asked(**approval(ARGUMENTS, ARGUMENTS, ARGUMENTS))
    client, form = claimed(edo, ask)
    assert "call:2" in form.names and "needs JavaScript" not in client.get(f"/asks/{ask.pk}/").content.decode()
    verdicts = {"call:0": "approve", "call:1": "edit", "call:2": "reject"}
    values = {"arg:1:1": "other", "why:2": "Not this one.", "text": "Mind the lines."}
    assert sent(client, form, **verdicts, **values).status_code == 302
    calls = decision(ask)["calls"]
    assert [(one["verdict"], one["arguments"]) for one in calls] == [
        ("approve", ARGUMENTS),
        ("edit", {**ARGUMENTS, "template": "other"}),
        ("reject", ARGUMENTS),
    ]
    assert calls[2]["reason"] == "Not this one." and Ask.objects.get(pk=ask.pk).accepted.text == "Mind the lines."


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "Decide call 1: send_reply."),
        ({"call:0": "reject"}, "a rejection needs a reason"),
        ({"call:0": "edit"}, "an edit has arguments that differ"),
        ({"call:0": "edit", "arg:0:0": "many"}, "not valid JSON"),
    ],
)
def test_refused_decision_keeps_all_that_was_typed(edo, asked, values, why):
    ask = asked(**approval(ARGUMENTS))
    client, form = claimed(edo, ask)
    page = sent(client, form, **values, **{"text": "my note", "arg:0:1": "mine" if "arg:0:0" in values else "refund"})
    again = form_of(page)
    assert page.status_code == 422 and why in page.content.decode() and Ask.objects.get(pk=ask.pk).is_open
    assert {**again.fields, **values} == again.fields and again.fields["text"] == "my note"
    assert again.fields["nonce"] == form.fields["nonce"]
    sent(client, again, **{"call:0": "approve"})
    assert decision(ask)["calls"][0]["verdict"] == "approve"


def test_choice_and_form_are_sent(edo, asked):
    options = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
    choice = asked(kind="choice", options=options, other=True)
    client, form = claimed(edo, choice)
    page = sent(client, form)
    assert page.status_code == 422 and "Choose an option" in page.content.decode()
    sent(client, form_of(page), chosen="1")
    assert decision(choice) == {"chosen": ["b"]}
    ask = asked(kind="form", response_schema=FORM)
    client, form = claimed(edo, ask)
    page = sent(client, form, **{"field:0": "Dana", "field:1": "0", "field:2": "1"})
    again = form_of(page)
    assert page.status_code == 422 and again.fields["field:0"] == "Dana" and again.fields["field:2"] == "1"
    sent(client, again, **{"field:1": "2"})
    assert decision(ask) == {"value": {"contact": "Dana", "pallets": 2, "lift": "no"}}


def test_sent_decision_is_edited_and_a_late_edit_kept(edo, ada, asked):
    ask = asked(kind="form", response_schema=FORM)
    client, form = claimed(edo, ask)
    sent(client, form, **{"field:0": "Dana", "field:1": "1"})
    amend = form_of(client.get(f"/asks/{ask.pk}/?amend=1"))
    assert amend.fields["field:0"] == "Dana" and amend.action.endswith("/amend")
    page = sent(client, amend, **{"field:1": "none", "text": "my note"})
    again = form_of(page)
    assert page.status_code == 422 and again.fields["field:1"] == "none" and again.fields["text"] == "my note"
    assert again.action == amend.action
    sent(client, again, **{"field:1": "3"})
    assert decision(ask)["value"]["pallets"] == 3
    question = asked()
    client, form = claimed(edo, question)
    sent(client, form, text="Into 8.")
    amend = form_of(client.get(f"/asks/{question.pk}/?amend=1"))
    closing.consume(ada, question.pk)
    page = sent(client, amend, text="Into 9, I mean.").content.decode()
    assert "Unsent draft." in page and "Into 9, I mean." in page


def test_link_takes_a_decision(edo, asked):
    ask = asked(**approval(ARGUMENTS))
    path, client = answer_path(ask, edo.key), Client()
    form = form_of(client.get(path), "data-link-answer")
    page = client.post(path, {**form.fields, "call:0": "reject", "text": "my note"})
    again = form_of(page, "data-link-answer")
    assert page.status_code == 422 and again.fields["call:0"] == "reject" and again.fields["text"] == "my note"
    client.post(path, {**again.fields, "why:0": "No."})
    assert decision(ask)["calls"][0]["reason"] == "No."


def test_page_says_which_arguments_break_their_schema(asked, edo):
    typed = approval({"ticket": "ten", "day": "soon"})
    typed["calls"][0]["schema"] = {
        "required": ["to"],
        "properties": {"ticket": {"type": "integer"}, "day": {"type": "string", "format": "date"}},
    }
    ask = asked(**typed)
    queue.claim(edo, ask.pk)
    browser = as_person(edo)
    page = browser.get(f"/asks/{ask.pk}/").content.decode()
    words = "ticket is not of type integer; day must be a date such as 2026-11-27; to is missing."
    assert f"{words} Approve sends them as they are." in " ".join(page.split())
    assert '"breaks": [{"name": "ticket", "words": "ticket is not of type integer"}' in page
    body = {
        "decision": '{"calls": [{"id": "1", "verdict": "edit", "arguments": {"ticket": 7, "to": "x", "day": "no"}}]}'
    }
    body |= {"lease_token": Ask.objects.get(pk=ask.pk).assignment.lease_token, "nonce": "n", "text": ""}
    refused = browser.post(f"/asks/{ask.pk}/answer", body, headers={"Accept": "application/json"})
    error = refused.json()["error"]
    assert [(place["call"], place["path"]) for place in error["fields"]] == [("1", ["day"])]
    assert error["message"] == "Call 1: day must be a date such as 2026-11-27."
