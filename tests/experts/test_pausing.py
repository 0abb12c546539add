"""Pauses of agents that others run: what an interrupt becomes, and what a repeated, late or racing call finds."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.nouns.interrupts import RunInterrupts
from awmclient.schema import Finish, RunStart
from episodes.models import Episode, EpisodeState
from episodes.record import ending, recording
from experts.errors import AskConflict, Used
from experts.models import Ask
from experts.record import advising, closing, pausing, queue
from people.errors import Invalid
from tests.browsing import as_person, html
from tests.people_by_name import token

MESSAGES = [
    {
        "role": "assistant",
        "toolCalls": [
            {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order": 7}'}},
            {"id": "c2", "type": "function", "function": {"name": "refund", "arguments": '{"order": 8}'}},
        ],
    }
]
TOOLS = [{"name": "refund", "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}}}]
EDITABLE = {"type": "object", "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}}}
PLAIN = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
APPROVAL = {"id": "i1", "reason": "tool_call", "toolCallId": "c1", "responseSchema": EDITABLE, "message": "Refund 7?"}


@pytest.fixture
def agent(project):
    return token(project, "agent")[0]


@pytest.fixture
def run(agent):
    return recording.start_run(agent, RunStart(name="shop", key="shop"))[0].pk


@pytest.fixture
def paused(agent, run):
    def pause(*interrupts, run_id="r1", thread="t1", **more):
        outcome = {"outcome": {"type": "interrupt", "interrupts": list(interrupts)}} if interrupts else {}
        body = {"type": "RUN_FINISHED", "threadId": thread, "runId": run_id, **outcome, **more}
        said = {"messages": MESSAGES, "tools": TOOLS, **body}
        return pausing.pause(agent, run, RunInterrupts.model_validate(said))

    return pause


def decide(expert, ask, decision=None, text=""):
    lease = queue.claim(expert, ask)
    advising.answer(expert, lease.assignment_id, lease.lease_token, text, nonce=f"n{ask}", decision=decision)


def test_interrupt_of_a_known_call_is_an_approval(paused, edo):
    view, made = paused(APPROVAL)
    ask = Ask.objects.get(pk=view.interrupts[0].ask)
    assert made and view.resume is None and ask.kind == "approval"
    assert ask.typed["calls"] == [
        {"id": "c1", "name": "refund", "arguments": {"order": 7}, "schema": TOOLS[0]["parameters"]}
    ]
    assert ask.episode.state == EpisodeState.PARKED  # silence fails no thread that waits
    decide(edo, ask.pk, {"calls": [{"id": "c1", "verdict": "edit", "arguments": {"order": 9}}]})
    [entry] = paused(APPROVAL)[0].resume
    assert (entry.status, entry.payload) == ("resolved", {"approved": True, "editedArgs": {"order": 9}})
    assert entry.metadata["awmweb"]["by"] == "person"


def test_queue_names_the_framework_of_a_pause(paused, edo, ada, asked):
    paused(APPROVAL, client="LangGraph <b>")
    other = paused({"id": "i2", "reason": "input_required", "message": "Which cup?"}, thread="t2")[0].interrupts[0].ask
    mine = asked("Which tea?")
    shown = html(as_person(edo).get("/queue/"))
    assert "<small data-source>LangGraph &lt;b&gt;</small>" in shown
    assert "<small data-source>AG-UI</small>" in shown and "<small data-source>External loop</small>" in shown
    assert all(f"{name} (1)" in shown for name in ("LangGraph &lt;b&gt;", "AG-UI", "External loop"))
    for source, ask in (("AG-UI", other), ("External loop", mine.pk)):
        found = html(as_person(edo).get("/queue/", {"source": source}))
        assert re.findall(r'class="askrow" data-key="([^"]+)"', found) == [ask]


# an agent that names no editedArgs would run its own arguments after an edit
def test_call_that_takes_no_edit_is_asked_as_a_form(paused, edo):
    [one] = paused({**APPROVAL, "responseSchema": PLAIN})[0].interrupts
    ask = Ask.objects.get(pk=one.ask)
    assert (ask.kind, ask.context) == ("form", 'refund {"order": 7}')
    decide(edo, ask.pk, {"value": {"approved": False}})
    assert paused({**APPROVAL, "responseSchema": PLAIN})[0].resume[0].payload == {"approved": False}


SHAPES = {
    "confirmation": ({}, {"chosen": ["true"]}, True),
    "boolean": ({"responseSchema": {"type": "boolean"}}, {"chosen": ["false"]}, False),
    "enum": ({"responseSchema": {"type": "string", "enum": ["red", "green"]}}, {"chosen": ["red"]}, "red"),
    "number": ({"responseSchema": {"type": "number", "minimum": 1}}, {"value": {"value": 3}}, 3),
    "object": (
        {"responseSchema": {"type": "object", "properties": {"day": {"type": "string"}}}},
        {"value": {"day": "Monday"}},
        {"day": "Monday"},
    ),
    "typed": (
        {"metadata": {"awmweb": {"kind": "choice", "options": [{"id": "a", "label": "A"}]}}},
        {"chosen": ["a"]},
        {"chosen": ["a"]},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_payload_has_the_shape_that_the_agent_named(paused, edo, shape):
    more, decision, payload = SHAPES[shape]
    interrupt = {"id": "i", "reason": "confirmation", **more}
    decide(edo, paused(interrupt)[0].interrupts[0].ask, decision)
    assert paused(interrupt)[0].resume[0].payload == payload


def test_question_is_answered_in_words(paused, edo):
    interrupt = {"id": "i", "reason": "mastra:help", "message": "Which shelf?"}
    decide(edo, paused(interrupt)[0].interrupts[0].ask, text="The upper one.")
    assert paused(interrupt)[0].resume[0].payload == "The upper one."


def test_form_that_cannot_be_drawn_refuses_itself_only(paused, edo):
    remote = {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}
    broken = {"id": "i2", "reason": "input_required", "responseSchema": remote}
    whole, refused = paused(APPROVAL, broken)[0].interrupts
    assert (refused.status, refused.ask, refused.resume.status) == ("refused", None, "cancelled")
    assert "names no schema of this document" in refused.resume.metadata["awmweb"]["reason"]
    decide(edo, whole.ask, {"calls": [{"id": "c1", "verdict": "approve"}]})
    assert [entry.status for entry in paused(APPROVAL, broken)[0].resume] == ["resolved", "cancelled"]
    with pytest.raises(Invalid, match="names no schema"):
        paused(broken, run_id="r2")


def test_approve_and_reject_in_one_pause_stay_apart(paused, edo):
    both = (APPROVAL, {**APPROVAL, "id": "i2", "toolCallId": "c2"})
    first, second = paused(*both)[0].interrupts
    decide(edo, second.ask, {"calls": [{"id": "c2", "verdict": "reject", "reason": "Too old."}]})
    half = paused(*both)[0]
    assert half.resume is None and half.interrupts[1].resume is not None  # a resume has to answer every interrupt
    decide(edo, first.ask, {"calls": [{"id": "c1", "verdict": "approve"}]})
    given = {one.interrupt_id: one.payload for one in paused(*both)[0].resume}
    assert given == {"i1": {"approved": True}, "i2": {"approved": False, "reason": "Too old."}}


def test_repeated_pause_finds_its_ask_and_another_is_refused(paused, edo):
    first = paused(APPROVAL)[0].interrupts[0].ask
    again, made = paused(APPROVAL)
    assert not made and again.interrupts[0].ask == first and Episode.objects.count() == 1
    assert paused(APPROVAL, run_id="r2")[0].interrupts[0].ask != first  # an ID is unique in its run only
    with pytest.raises(AskConflict):
        paused({**APPROVAL, "message": "Refund 8?"})
    with pytest.raises(AskConflict):
        paused({**APPROVAL, "toolCallId": "c2"})
    assert paused(APPROVAL, thread="t2")[0].interrupts[0].ask != first and Episode.objects.count() == 2


def test_decision_is_final_once_read_and_consumed_once_taken(paused, edo):
    ask = paused(APPROVAL)[0].interrupts[0].ask
    decide(edo, ask, {"calls": [{"id": "c1", "verdict": "approve"}]})
    view = paused(APPROVAL)[0]
    assert view.resume and view.interrupts[0].consumed_at is None
    with pytest.raises(Used):  # the agent may be making the call at this moment
        advising.withdraw(edo, ask)
    entry = view.resume[0].model_dump(by_alias=True)
    paused(resume=[entry], run_id="r2")
    again = paused(APPROVAL)[0]
    assert again.interrupts[0].consumed_at is not None and again.resume == view.resume


def test_end_of_a_run_confirms_what_its_thread_has_read(paused, edo):
    both = ({**APPROVAL, "metadata": {}}, {**APPROVAL, "id": "i2", "toolCallId": "c2"})
    read, unread = paused(*both)[0].interrupts
    decide(edo, read.ask, {"calls": [{"id": "c1", "verdict": "approve"}]})
    paused(*both)
    paused(outcome={"type": "cancelled"})
    asks = {one.pk: one for one in Ask.objects.all()}
    assert asks[read.ask].consumed_at is not None
    assert (asks[unread.ask].status, asks[unread.ask].consumed_at) == ("cancelled", None)


def test_deadline_cancels_and_approves_nothing(paused, agent):
    ask = paused(APPROVAL)[0].interrupts[0].ask
    Ask.objects.filter(pk=ask).update(deadline_at=timezone.now() - timedelta(seconds=1))
    closing.close_if_due(ask)
    [entry] = paused(APPROVAL)[0].resume
    assert (entry.status, entry.payload) == ("cancelled", None)
    assert entry.metadata["awmweb"] == {"status": "fell_back", "by": "timeout", "reason": "deadline"}


def test_expired_interrupt_opens_no_ask(paused):
    past = (timezone.now() - timedelta(minutes=1)).isoformat()
    with pytest.raises(Invalid, match="expired"):
        paused({**APPROVAL, "expiresAt": past})
    assert not Ask.objects.exists() and not Episode.objects.exists()
    soon = (timezone.now() + timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    left = paused({**APPROVAL, "expiresAt": soon})[0].interrupts[0].deadline_at - timezone.now()
    assert timedelta(minutes=4) < left < timedelta(minutes=5)


def test_thread_goes_on_after_its_episode_ended(paused, agent):
    first = paused(APPROVAL)[0]
    ending.finish(agent, first.episode, Finish(stop_reason="done"))
    assert paused(APPROVAL)[0].resume[0].status == "cancelled"  # the pause of the ended part stays what it was
    later = paused({**APPROVAL, "id": "i9"}, run_id="r2")[0]
    assert later.episode != first.episode and later.interrupts[0].status == "open"


CYCLE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
BY_SILENCE = {"kind": "approval", "on_timeout": {"value": True}, "calls": [{"id": "a", "name": "b"}]}
HOSTILE = {
    "remote schema": {"responseSchema": {"$ref": "https://example.org/s.json"}},
    "cyclic schema": {"responseSchema": CYCLE},
    "typed nonsense": {"metadata": {"awmweb": {"kind": ["approval"], "calls": 7}}},
    "no option": {"metadata": {"awmweb": {"kind": "choice", "options": []}}},
    "approval by silence": {"metadata": {"awmweb": BY_SILENCE}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_interrupt_is_refused_and_leaves_nothing(paused, name):
    with pytest.raises(Invalid):
        paused({"id": "i", "reason": "input_required", **HOSTILE[name]})
    assert not Ask.objects.exists() and not Episode.objects.exists()


def test_odd_messages_and_tools_are_read_past(paused):
    odd = [{"toolCalls": 7}, {"toolCalls": [7, {"id": "c1", "function": None}, {"id": "c1", "function": {"name": 7}}]}]
    [one] = paused({**APPROVAL, "responseSchema": None}, messages=odd, tools=[{"name": 7, "parameters": 7}])[
        0
    ].interrupts
    assert Ask.objects.get(pk=one.ask).kind == "choice"
