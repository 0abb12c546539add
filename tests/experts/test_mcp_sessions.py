"""Sessions of MCP clients: which cancellations count, and what a repeated question joins."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.models import Episode
from experts.errors import TooLate
from experts.mcp import sessions
from experts.mcp.server import result_of
from experts.models import Ask, Assignment, Draft
from experts.record import advising, closing, queue
from people.errors import Invalid
from tests.people_by_name import token
from tests.reading import steps_read_by

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
REASONS = {
    "McpError: MCP error -32001: Request timed out": "open",
    "request timeout": "open",
    "context deadline exceeded": "open",
    "Timed out while waiting for response to ClientRequest. Waited 60 seconds.": "open",
    "the operation exceeded its time limit": "open",
    "the person pressed Escape": "cancelled",
    "context canceled": "cancelled",
    "no more need of the timetable": "cancelled",
    None: "cancelled",
}


@pytest.fixture
def agent(project):
    return token(project, "agent")[0]


@pytest.fixture
def session(agent):
    return sessions.begin(agent, HELLO, "")


def call(number, question="Into which one?"):
    return {"id": number, "params": {"arguments": {"question": question}}}


@pytest.fixture
def asked(agent, session):
    def ask(number, question="Into which one?"):
        key = sessions.PendingCall.of(call(number, question)).key
        return sessions.open_ask(agent, session, key, {"question": question})

    return ask


def cancel(agent, session, number, reason="Escape"):
    sessions.withdraw(agent, session, {"requestId": number, "reason": reason})


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_cancellation_with_words_of_time_is_impatience(agent, session, asked, reason):
    ask = asked(1)
    cancel(agent, session, 1, reason)
    assert Ask.objects.get(pk=ask.pk).status == REASONS[reason]


def test_cancelled_ask_is_joined_with_claim_and_text(agent, edo, session, asked):
    ask = asked(1)
    lease = queue.claim(edo, ask.pk)
    cancel(agent, session, 1)
    with pytest.raises(TooLate):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Into the oldest.", "n1")
    assert asked(2, "Something else?").pk != ask.pk
    again = asked(3)
    assert (again.pk, again.status, Episode.objects.get(pk=session).state) == (ask.pk, "open", "waiting")
    assert Draft.objects.get(ask=ask, author_key=edo.key).text == "Into the oldest."
    assert steps_read_by(agent, session)[0].get("meta") is None
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Into the oldest.", "n2")
    assert sessions.look(agent, ask.pk).advice.text == "Into the oldest."


def test_cancellation_of_the_joining_call_cancels_the_ask(agent, session, asked):
    ask = asked(1)
    assert asked(2).pk == ask.pk
    cancel(agent, session, 1)
    assert Ask.objects.get(pk=ask.pk).status == "open"
    cancel(agent, session, 2)
    assert Ask.objects.get(pk=ask.pk).status == "cancelled"


@pytest.mark.parametrize("why_not", ["long ago", "deadline", "by the desk"])
def test_ask_cancelled_for_good_is_not_joined(agent, session, asked, why_not):
    ask = asked(1)
    cancel(agent, session, 1)
    past = timezone.now() - timedelta(minutes=11)
    other = {"long ago": {"closed_at": past}, "deadline": {"deadline_at": past}, "by the desk": {"reason": "desk"}}
    Ask.objects.filter(pk=ask.pk).update(**other[why_not])
    assert asked(2).pk != ask.pk


def test_ask_that_nobody_holds_any_more_is_queued_again(agent, edo, session, asked):
    ask = asked(1)
    queue.claim(edo, ask.pk)
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now())
    cancel(agent, session, 1)
    asked(2)
    slot = Assignment.objects.get(ask=ask)
    assert (slot.state, slot.holder) == ("queued", "")


CALLS = [{"name": "refund", "arguments": {"order": 7}}]


def approval(number, **more):
    return {"id": number, "params": {"name": sessions.APPROVAL_TOOL, "arguments": {"calls": CALLS, **more}}}


def opened(agent, session, message):
    key = sessions.PendingCall.of(message).key
    return sessions.open_ask(agent, session, key, message["params"]["arguments"], sessions.APPROVAL_TOOL)


def test_approval_of_a_session_is_a_typed_ask(agent, session, edo):
    ask = opened(agent, session, approval(1))
    assert (ask.kind, ask.typed["calls"][0]["id"], ask.typed["on_timeout"]) == ("approval", "1", "reject")
    assert opened(agent, session, approval(2)) == ask  # its client timed out and asks again
    assert opened(agent, session, approval(3, calls=[{**CALLS[0], "arguments": {"order": 8}}])) != ask
    lease = queue.claim(edo, ask.pk)
    decision = {"calls": [{"id": "1", "verdict": "reject", "reason": "Too old."}]}
    advising.answer(edo, lease.assignment_id, lease.lease_token, "", nonce="n", decision=decision)
    result = result_of(sessions.look(agent, ask.pk))
    assert result.structuredContent["decision"]["calls"][0]["verdict"] == "reject"
    assert json.loads(result.content[0].text) == result.structuredContent


SCHEMA = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email"},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
    },
    "required": ["email"],
}


def elicited(agent, session, number, schema, **more):
    given = {"message": "Where to?", "requested_schema": schema, **more}
    message = {"id": number, "params": {"name": sessions.ELICITATION_TOOL, "arguments": given}}
    key = sessions.PendingCall.of(message).key
    return sessions.open_ask(agent, session, key, given, sessions.ELICITATION_TOOL)


def test_elicitation_of_a_session_is_a_form_and_its_result(agent, session, edo):
    ask = elicited(agent, session, 1, SCHEMA)
    assert (ask.kind, ask.question) == ("form", "Where to?")
    assert elicited(agent, session, 2, SCHEMA) == ask
    assert elicited(agent, session, 3, {**SCHEMA, "required": []}) != ask
    lease = queue.claim(edo, ask.pk)
    value = {"email": "dana@example.org", "size": "s"}
    advising.answer(edo, lease.assignment_id, lease.lease_token, "", nonce="n", decision={"value": value})
    result = result_of(sessions.look(agent, ask.pk), ask.kind)
    assert result.structuredContent == {"action": "accept", "content": value}
    assert json.loads(result.content[0].text) == result.structuredContent


def test_elicitation_without_an_answer_is_cancelled(agent, session):
    ask = elicited(agent, session, 1, SCHEMA)
    closing.cancel(agent, ask.pk)
    result = result_of(sessions.look(agent, ask.pk), ask.kind)
    assert result.structuredContent == {"action": "cancel"} and not result.isError


@pytest.mark.parametrize("schema", [None, 7, {"type": "object", "$ref": "https://example.org/x"}, {"type": "string"}])
def test_elicitation_that_no_form_can_show_is_refused(agent, session, schema):
    with pytest.raises(Invalid):
        elicited(agent, session, 1, schema)
    assert not Ask.objects.exists()


@pytest.mark.parametrize("calls", [None, [], 7, [7], [{"name": "a", "arguments": 7}]])
def test_approval_without_whole_calls_is_refused(agent, session, calls):
    with pytest.raises(Invalid):
        opened(agent, session, approval(1, calls=calls))
    assert not Ask.objects.exists()
