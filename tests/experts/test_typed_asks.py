"""Typed asks: an approval, a choice and a form, from the call that opens one to what its agent gets."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from awmclient.nouns.typed import TIMEOUT_REASON, rejected
from awmclient.schema import Advice, AskOpen
from episodes.show.step_cards import card_of
from episodes.tool_schemas import Checker
from experts.models import Advice as Row
from experts.models import Ask, Draft
from experts.record import advising, closing, opening, queue
from experts.rules import decisions
from experts.rules.decisions import Misfit
from people.errors import Invalid
from reviews.models import Annotation
from tests.browsing import as_person
from tests.people_by_name import token
from tests.reading import steps_read_by

REFUND = {
    "id": "c1", "name": "refund", "arguments": {"order": 7, "amount": 249.0}, "reason": "Paid twice.",
    "schema": {
        "type": "object", "required": ["order", "amount"],
        "properties": {
            "order": {"type": "integer"}, "amount": {"type": "number", "minimum": 0.01, "maximum": 249},
            "pay_at": {"type": "string", "format": "date-time"},
        },
    },
}  # fmt: skip
CLOSE = {"id": "c2", "name": "close_ticket", "arguments": {"ticket": 4127}}
OPTIONS = [{"id": "owner_12", "label": "Dana Liu"}, {"id": "owner_31", "label": "Dana Lindqvist"}]
PICKUP = {
    "type": "object", "required": ["contact", "pallets"],
    "properties": {
        "contact": {"type": "string", "minLength": 1}, "pallets": {"$ref": "#/$defs/count"},
        "day": {"type": "string", "format": "date"},
    },
    "$defs": {"count": {"type": "integer", "minimum": 1, "maximum": 33}},
}  # fmt: skip
APPROVAL = {"kind": "approval", "calls": [REFUND, CLOSE], "on_timeout": "reject"}
CHOICE = {"kind": "choice", "options": OPTIONS, "other": True, "on_timeout": {"value": "owner_12"}}
FORM = {"kind": "form", "response_schema": PICKUP, "on_timeout": "no_advice"}
DECIDED = {
    "calls": [
        {"id": "c1", "verdict": "edit", "arguments": {"order": 7, "amount": 124.5}},
        {"id": "c2", "verdict": "reject", "reason": "Keep it open."},
    ]
}


@pytest.fixture
def loop(project):
    return token(project, "agent")[0]


@pytest.fixture
def api(client, project):
    """Call the API as a loop or as an expert; return status and body."""
    heads = {scope: {"Authorization": f"Bearer {token(project, scope)[1]}"} for scope in ("agent", "expert")}

    def call(scope, method, path, body=None):
        more = {"data": json.dumps(body), "content_type": "application/json"} if body is not None else {}
        reply = getattr(client, method)(f"/api/v1{path}", headers=heads[scope], **more)
        return reply.status_code, reply.json()

    return call


def claimed(actor, ask):
    lease = queue.claim(actor, ask.pk)
    return lease.assignment_id, lease.lease_token


def decide(actor, ask, decision, text=""):
    return advising.answer(actor, *claimed(actor, ask), text, "n", decision=decision)


def overdue(ask):
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    return closing.close_if_due(ask.pk)


def test_an_approval_goes_through_the_api_call_by_call(api):
    _, episode = api("agent", "post", "/episodes", {"key": "e", "task": "refund", "expert": "plain"})
    status, ask = api(
        "agent", "post", "/asks", {"key": "a", "episode": episode["id"], "seq": 1, "question": "May I?", **APPROVAL}
    )
    assert status == 201
    _, listed = api("expert", "get", "/asks?status=open")
    (one,) = listed["asks"]
    assert one["kind"] == "approval" and one["typed"]["calls"][0]["schema"] == REFUND["schema"]
    _, lease = api("expert", "post", f"/asks/{ask['id']}/claim", {})
    answer = {"lease_token": lease["lease_token"], "text": "", "nonce": "n", "decision": DECIDED}
    status, advice = api("expert", "post", f"/assignments/{lease['assignment']}/answer", answer)
    assert status == 200, advice
    _, seen = api("agent", "get", f"/asks/{ask['id']}")
    final = seen["advice"]["decision"]["calls"]
    assert [(call["verdict"], call["arguments"]) for call in final] == [
        ("edit", {"order": 7, "amount": 124.5}), ("reject", {"ticket": 4127}),
    ]  # fmt: skip
    assert seen["advice"]["by"] == "person" and final[1]["reason"] == "Keep it open."
    _, steps = api("agent", "get", f"/episodes/{episode['id']}/steps")
    assert steps["steps"][0]["typed"]["calls"][1]["name"] == "close_ticket"
    assert steps["steps"][0]["advice"]["decision"] == seen["advice"]["decision"]


@pytest.mark.parametrize(
    ("typed", "decision", "path"),
    [
        (APPROVAL, None, "decision: this ask wants a decision"),
        (APPROVAL, {"calls": DECIDED["calls"][:1]}, "decision.calls: the call c2 (close_ticket) is not decided"),
        (APPROVAL, {"calls": [*DECIDED["calls"], {"id": "c3", "verdict": "approve"}]}, "decision.calls[2].id: no call"),
        (APPROVAL, {"calls": [DECIDED["calls"][0]] * 2}, "decision.calls[0].id: the call c1 is decided twice"),
        (
            APPROVAL, {"calls": [{"id": "c1", "verdict": "edit", "arguments": {"order": 7, "amount": 250}}]},
            "decision.calls[0].arguments.amount must be at most 249",
        ),
        (
            APPROVAL,
            {"calls": [{"id": "c1", "verdict": "edit", "arguments": {"order": 7, "amount": 1, "pay_at": "tomorrow"}}]},
            "decision.calls[0].arguments.pay_at must be a time",
        ),
        (APPROVAL, {"calls": [{"id": "c1", "verdict": "edit", "arguments": {"order": 7, "amount": 249.0}}]}, "differ"),
        (APPROVAL, {"calls": [{"id": "c1", "verdict": "approve", "arguments": {"order": 8}}]}, "say edit to change"),
        (APPROVAL, {"calls": [{"id": "c1", "verdict": "reject", "reason": " "}]}, "calls[0].reason: a rejection needs"),
        (APPROVAL, {"calls": [{"id": "c1", "verdict": "yes"}]}, "decision.calls[0].verdict:"),
        (APPROVAL, {"chosen": ["owner_12"]}, "decision.chosen: an ask of kind approval takes `calls`"),
        (CHOICE, {"chosen": ["owner_99"]}, "decision.chosen[0]: no option has the id owner_99"),
        (CHOICE, {"chosen": ["owner_12", "owner_31"]}, "choose one option"),
        (CHOICE, {"chosen": []}, "choose an option"),
        ({**CHOICE, "other": False}, {"other": "Eve"}, "decision.other: this choice takes its options only"),
        (FORM, {"value": {"contact": "Bay 4"}}, "decision.value.pallets is missing"),
        (FORM, {"value": {"contact": "Bay 4", "pallets": 34}}, "decision.value.pallets must be at most 33"),
        (FORM, {"value": {"contact": "Bay 4", "pallets": 1, "day": "soon"}}, "decision.value.day must be a date"),
        (FORM, {"value": "Bay 4"}, "decision.value: the value of a form is an object"),
    ],
)  # fmt: skip
def test_a_decision_that_does_not_fit_is_refused_with_its_path(asked, edo, typed, decision, path):
    ask = asked(**typed)
    with pytest.raises(Misfit) as refused:
        decide(edo, ask, decision, "a note")
    assert path in refused.value.message and Ask.objects.get(pk=ask.pk).is_open


@pytest.mark.parametrize(
    ("typed", "decision", "stored"),
    [
        (CHOICE, {"chosen": ["owner_31"]}, {"chosen": ["owner_31"]}),
        (CHOICE, {"other": "Eve"}, {"chosen": [], "other": "Eve"}),
        (
            {**CHOICE, "many": True}, {"chosen": ["owner_31", "owner_12"], "other": "Eve"},
            {"chosen": ["owner_12", "owner_31"], "other": "Eve"},
        ),
        (FORM, {"value": {"contact": "Bay 4", "pallets": 4}}, {"value": {"contact": "Bay 4", "pallets": 4}}),
    ],
)  # fmt: skip
def test_a_choice_and_a_form_reach_the_agent_as_decided(asked, edo, loop, typed, decision, stored):
    ask = asked(**typed)
    decide(edo, ask, decision)
    advice = closing.look(loop, ask.pk).accepted.value()
    assert advice.observation() == {"status": "decided", "by": "person", "decision": stored}


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (
            APPROVAL,
            {"calls": [rejected(call) for call in (REFUND, CLOSE)]},
        ),
        (CHOICE, {"chosen": ["owner_12"]}),
        ({**FORM, "on_timeout": {"value": {"contact": "x", "pallets": 1}}}, {"value": {"contact": "x", "pallets": 1}}),
        (FORM, None),
        ({**APPROVAL, "on_timeout": "no_advice"}, None),
    ],
)  # fmt: skip
def test_silence_means_what_the_asker_said_and_never_approves(asked, loop, typed, decision):
    ask = overdue(asked(**typed))
    advice = ask.accepted.value()
    assert (advice.by, advice.source, ask.status) == ("timeout", "fallback", "fell_back")
    assert (advice.decision.model_dump(exclude_none=True) if advice.decision else None) == decision
    if typed["on_timeout"] == "reject":
        assert {call.reason for call in advice.decision.calls} == {TIMEOUT_REASON}
    seen = advice.observation()
    assert seen["status"] == ("decided" if decision else "no_advice")
    (step,) = [one for one in steps_read_by(loop, ask.episode_id) if one["kind"] == "ask"]
    assert Advice.model_validate(step["advice"]).observation() == seen


def test_an_agent_gives_and_reads_no_standing_answer(api):
    for method, path, body in (
        ("post", "", {"tool": "x", "until": "2099-01-01T00:00:00Z"}), ("get", "", None), ("delete", "/x", None),
    ):  # fmt: skip
        assert api("agent", method, f"/standing-answers{path}", body)[0] == 403


def test_a_refused_decision_keeps_text_and_decision_as_a_draft(api, asked):
    ask = asked(**CHOICE)
    _, lease = api("expert", "post", f"/asks/{ask.pk}/claim", {})
    answer = {"lease_token": lease["lease_token"], "text": "the one of 42", "nonce": "n", "decision": {"chosen": ["x"]}}
    status, body = api("expert", "post", f"/assignments/{lease['assignment']}/answer", answer)
    assert (status, body["error"]["code"]) == (422, "decision") and "decision.chosen[0]" in body["error"]["message"]
    draft = Draft.objects.get(ask=ask)
    assert (draft.text, draft.decision) == ("the one of 42", {"chosen": ["x"]})


def test_value_that_is_too_large_to_check_is_refused(asked, edo):
    lists = {"type": "array", "items": {"type": "integer"}}
    ask = asked(kind="form", response_schema={"type": "object", "properties": {"a": lists}})
    with pytest.raises(Misfit, match="decision.value: this is too large to be checked"):
        decide(edo, ask, {"value": {"a": [1] * 40_000}})


@pytest.mark.parametrize(
    ("typed", "decision", "path"),
    [
        (FORM, {"value": {"contact": "x", "pallets": 1, "more": "x" * 200_000}}, "decision.value: what the agent"),
        (
            {"kind": "approval", "calls": [CLOSE]},
            {"calls": [{"id": "c2", "verdict": "edit", "arguments": {"ticket": "x" * 200_000}}]},
            "decision.calls: what the agent would get holds too much text",
        ),
    ],
)
def test_what_a_decision_writes_has_a_limit_without_a_schema(asked, edo, typed, decision, path):
    with pytest.raises(Misfit, match=path):
        decide(edo, asked(**typed), decision)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_locked_while_decisions_are_checked(asked, edo, monkeypatch):
    locked = []

    class Watched(Checker):
        def misfits(self, value, schema, most=20):
            locked.append(connection.in_atomic_block)
            return super().misfits(value, schema, most)

    monkeypatch.setattr(decisions, "Checker", Watched)
    value = {"contact": "Bay 4", "pallets": 1}
    decide(edo, asked(**{**FORM, "on_timeout": {"value": value}}), {"value": value})
    decide(edo, asked(**APPROVAL), DECIDED)
    assert len(locked) == 3 and not any(locked)


@pytest.mark.parametrize(
    ("typed", "decision", "words"),
    [
        (FORM, {"value": {"contact": "Bay 4", "pallets": 1, "day": "soon"}}, "day must be a date such as 2026-11-27."),
        (
            APPROVAL,
            DECIDED | {"calls": [*DECIDED["calls"][:1], {"id": "c2", "verdict": "reject"}]},
            "Call 2: a rejection",
        ),
        (APPROVAL, {"calls": DECIDED["calls"][:1]}, "The call c2 (close_ticket) is not decided."),
    ],
)
def test_page_names_the_field_and_not_the_path(asked, edo, typed, decision, words):
    ask = asked(**typed)
    slot = queue.claim(edo, ask.pk)
    body = {"lease_token": slot.lease_token, "text": "", "nonce": "n", "decision": json.dumps(decision)}
    reply = as_person(edo).post(f"/asks/{ask.pk}/answer", body, HTTP_ACCEPT="application/json")
    assert reply.status_code == 422 and reply.json()["error"]["message"].startswith(words)


def test_form_that_takes_no_other_field_refuses_one(asked, edo):
    ask = asked(kind="form", response_schema={"type": "object", "properties": {}, "additionalProperties": False})
    with pytest.raises(Misfit, match=r"decision.value.a is not taken\."):
        decide(edo, ask, {"value": {"a": 1}})


def test_page_gets_all_places_of_a_form_that_do_not_fit(asked, edo):
    person = {"type": "object", "required": ["name"], "properties": {"mail": {"type": "string", "format": "email"}}}
    fields = {"day": {"type": "string", "format": "date"}, "people": {"type": "array", "items": {"$ref": "#/$defs/p"}}}
    schema = {"type": "object", "properties": fields, "$defs": {"p": person}, "x-order": ["people"]}
    ask = asked(kind="form", response_schema=schema)
    value = {"day": "soon", "people": [{"name": "Ada", "mail": "ada"}, {}]}
    body = {"lease_token": queue.claim(edo, ask.pk).lease_token, "text": "", "nonce": "n"}
    body["decision"] = json.dumps({"value": value})
    reply = as_person(edo).post(f"/asks/{ask.pk}/answer", body, HTTP_ACCEPT="application/json").json()["error"]
    assert [(one["path"], one["words"]) for one in reply["fields"]] == [
        (["day"], "must be a date such as 2026-11-27"),
        (["people", 0, "mail"], "must be a mail address"),
        (["people", 1, "name"], "is missing"),
    ]
    said = "day must be a date such as 2026-11-27; people[0].mail must be a mail address; people[1].name is missing."
    assert reply["message"] == said


@pytest.mark.parametrize(
    ("proposed", "given", "verdict"),
    [(1, True, "edit"), ([0], [False], "edit"), ({"a": 249.0}, {"a": 249}, "approve")],
)
def test_true_differs_from_one_and_249_from_249_0_not(asked, edo, proposed, given, verdict):
    typed = {"kind": "approval", "calls": [{"id": "1", "name": "set", "arguments": {"value": proposed}}]}
    other = "approve" if verdict == "edit" else "edit"
    with pytest.raises(Misfit, match="arguments"):
        decide(edo, asked(**typed), {"calls": [{"id": "1", "verdict": other, "arguments": {"value": given}}]})
    ask = asked(**typed)
    decide(edo, ask, {"calls": [{"id": "1", "verdict": verdict, "arguments": {"value": given}}]})
    ask.refresh_from_db()
    stored = ask.accepted.decision["calls"][0]["arguments"]["value"]
    assert json.dumps(stored) == json.dumps(given if verdict == "edit" else proposed)


def test_a_question_takes_no_decision_and_a_decision_no_calls(asked, edo):
    with pytest.raises(Invalid, match="this ask is a question"):
        decide(edo, asked(), {"chosen": ["a"]}, "yes")
    ask = asked(**CHOICE)
    with pytest.raises(Invalid, match="without suggested calls"):
        advising.answer(edo, *claimed(edo, ask), "", "n", [{"name": "x"}], decision={"chosen": ["owner_12"]})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "approval"}, "an ask of kind approval needs it"),
        ({"kind": "approval", "calls": [REFUND, REFUND]}, "two have the same id"),
        ({"kind": "approval", "calls": [REFUND], "on_timeout": {"value": 1}}, "nothing is approved by silence"),
        ({"kind": "choice", "options": OPTIONS, "on_timeout": {"value": "x"}}, "give the ID of an option"),
        ({"kind": "choice", "options": OPTIONS, "on_timeout": "reject"}, "no calls to reject"),
        ({"kind": "question", "options": OPTIONS}, "no such field"),
        ({**FORM, "on_timeout": {"value": {"contact": "x" * 200_000, "pallets": 1}}}, "value: this holds too"),
        ({**FORM, "on_timeout": {"value": {"contact": "x", "pallets": [1] * 40_000}}}, "this holds too many values"),
        ({"kind": "form", "response_schema": {"type": "string"}}, "is an object with `properties`"),
        (
            {"kind": "form", "response_schema": PICKUP, "on_timeout": {"value": {"contact": "x"}}},
            "on_timeout.value.pallets is missing",
        ),
    ],
)  # fmt: skip
def test_a_typed_ask_that_is_not_whole_is_refused(api, body, words):
    _, episode = api("agent", "post", "/episodes", {"key": "e", "task": "t", "expert": "plain"})
    status, said = api(
        "agent", "post", "/asks", {"key": "a", "episode": episode["id"], "seq": 1, "question": "q", **body}
    )
    assert status == 422 and words in said["error"]["message"]


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels, keyword="allOf"):
    """A schema whose definitions each name the next one twice, for the same value."""
    names = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**names, f"d{levels}": {}}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (nested(60), "nests deeper than"),
        (doubling(30), "too large once its references are resolved"),
        (doubling(30, "oneOf"), "too large once its references are resolved"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "refers to itself for the same value",
        ),
        ({"type": "object", "properties": {"a": {"allOf": [{"$ref": "#"}]}}, "anyOf": [{"$ref": "#"}]}, "itself"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, "names no schema of this"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "names no schema of this"),
        ({"type": "object", "properties": {"a": {"$ref": "#/default"}}, "default": {"not": {}}}, "names no schema"),
        ({"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}, "a.pattern: RE2 cannot run"),
        ({"type": "object", "properties": {"a": {"$dynamicRef": "#n"}}}, "a.$dynamicRef: this keyword is not support"),
        ({"type": "object", "properties": {"a": 1}}, "response_schema.properties.a: a schema is an object"),
        ({"type": "object", "properties": {"a": {"properties": [1]}}}, "a.properties: this is not what the keyword"),
        ({"type": "object", "properties": {"a": {"allOf": 5}}}, "a.allOf: this is not what the keyword takes"),
        ({"type": "object", "properties": {"a": {"anyOf": [None]}}}, "a.anyOf[0]: a schema is an object"),
        ({"type": "object", "properties": {"a": {"items": [1]}}}, "a.items: a schema is an object"),
        ({"$ref": "#/$defs/a", "$defs": {"a": 5}}, "a schema is an object"),
        ({"$ref": "#/$defs/a", "$defs": [5]}, "$defs: this is not what the keyword takes"),
    ],
)
def test_a_schema_that_cannot_be_checked_whole_is_refused(api, schema, words):
    _, episode = api("agent", "post", "/episodes", {"key": "e", "task": "t", "expert": "plain"})
    body = {"key": "a", "episode": episode["id"], "seq": 1, "question": "q", "kind": "form", "response_schema": schema}
    status, said = api("agent", "post", "/asks", body)
    assert status == 422 and words in said["error"]["message"]


def test_same_typed_ask_is_known_and_another_conflicts(api):
    _, episode = api("agent", "post", "/episodes", {"key": "e", "task": "t", "expert": "plain"})
    body = {"key": "a", "episode": episode["id"], "seq": 1, "question": "q", **CHOICE}
    first = api("agent", "post", "/asks", body)
    assert (first[0], api("agent", "post", "/asks", body)[0]) == (201, 200)
    status, said = api("agent", "post", "/asks", {**body, "options": OPTIONS[:1]})
    assert status == 409 and "options" in said["error"]["message"]


def test_typed_asks_share_no_answer_with_alike_questions(asked, edo):
    first, second = asked(**CHOICE), asked(**CHOICE)
    assert first.group != second.group
    decide(edo, first, {"chosen": ["owner_12"]})
    assert Ask.objects.get(pk=second.pk).is_open


def test_a_thread_continues_an_ask_of_its_own_episode_only(api, asked):
    _, episode = api("agent", "post", "/episodes", {"key": "e", "task": "t", "expert": "plain"})
    _, first = api("agent", "post", "/asks", {"key": "a", "episode": episode["id"], "seq": 1, "question": "q"})
    more = {"key": "b", "episode": episode["id"], "seq": 2, "question": "and now?"}
    assert api("agent", "post", "/asks", {**more, "thread": asked().pk})[0] == 422
    status, _ = api("agent", "post", "/asks", {**more, "thread": first["id"]})
    assert status == 201 and Ask.objects.get(key="b").thread_id == first["id"]


def test_the_page_shows_the_thread_as_one(edo, ada, project, asked):
    first = asked("Which charge is the duplicate?")
    advising.answer(edo, *claimed(edo, first), "What do the two say in kind?", "n")
    later = {"episode": first.episode_id, "thread": first.pk}
    second, _ = opening.open_ask(ada, AskOpen(key="b", seq=2, question="Both say order.", **later))
    third, _ = opening.open_ask(ada, AskOpen(key="c", seq=3, question="So?", **{**later, "thread": second.pk}))
    page = " ".join(as_person(edo).get(f"/asks/{third.pk}/").content.decode().split())
    assert "2 earlier asks of this episode" in page
    places = [
        page.index(words) for words in ("Which charge is the duplicate?", "What do the two say in", "Both say order.")
    ]
    assert places == sorted(places) and "No answer yet." in page


def test_a_late_decision_is_stored_in_words_beside_the_ask(asked, edo):
    ask = asked(**APPROVAL)
    lease = claimed(edo, ask)
    overdue(ask)
    with pytest.raises(Exception, match="deadline|closed"):
        advising.answer(edo, *lease, "a note", "n", decision=DECIDED)
    words = Annotation.objects.get(label="late_advice").text
    assert (
        "Edited refund(order: 7, amount: 124.5)" in words
        and "Rejected close_ticket(ticket: 4127): Keep it open." in words
    )
    assert Row.objects.get(late=True).decision["calls"][0]["verdict"] == "edit"


@pytest.mark.parametrize(
    ("approval", "words", "changed"),
    [
        ({"verdict": "approve", "by": "standing"}, "approved by a standing answer", []),
        (
            {"verdict": "edit", "by": "person", "proposed": {"a": 249.0}},
            "edited by a person",
            [("a", "124.5", "249.0")],
        ),
        ({"verdict": "edit", "by": "person", "proposed": {}}, "edited by a person", [("a", "124.5", "")]),
        ({"verdict": "reject", "by": "model", "reason": "no"}, "rejected by a model, not run", []),
        ({"verdict": "reject", "by": "timeout"}, "not run: no one approved it", []),
    ],
)
def test_card_of_a_call_says_who_decided_on_it(approval, words, changed):
    step = {"seq": 1, "kind": "tool_call", "name": "x", "arguments": {"a": 124.5}, "result": 1, "approval": approval}
    shown = card_of(step).approval
    assert (shown.words, [(one.name, one.value, one.before) for one in shown.changed]) == (words, changed)


def test_decided_calls_are_shown_with_the_proposed_values(asked, edo, client, ada):
    ask = asked(**APPROVAL)
    decide(edo, ask, DECIDED)
    page = as_person(ada).get(f"/episodes/{ask.episode_id}/").content.decode()
    assert "Edited" in page and "<del" in page and "Keep it open." in page


def test_refusal_names_what_each_call_breaks(asked, edo):
    decided = [
        {"id": "c1", "verdict": "edit", "arguments": {"order": "x", "amount": 250}},
        {"id": "c2", "verdict": "reject"},
    ]
    with pytest.raises(Misfit) as refused:
        decide(edo, asked(**APPROVAL), {"calls": decided})
    for path in ("calls[0].arguments.order", "amount must be at most 249", "calls[1].reason: a rejection needs"):
        assert path in refused.value.message
    assert refused.value.words().count("Call ") == 2
    places = [(place["call"], place["path"]) for place in refused.value.fields()]
    assert places == [("c1", ("order",)), ("c1", ("amount",))]
