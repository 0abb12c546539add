"""What is said about the end of an ask: each sentence follows from what happened."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish
from episodes.record import ending, recording
from episodes.show import legend
from episodes.show.step_cards import card_of
from episodes.visible import trajectory
from experts import endings, notifications
from experts.find import board
from experts.models import Ask, AskStatus
from experts.record import advising, closing, desk, opening, queue
from experts.who import online
from people.access import bearer, expert_model, system
from people.record.members import issue_token
from tests.asking import MODEL
from tests.browsing import as_person, html
from tests.episodes.find.paging import read_through

REASONS = {
    "deadline": "No answer before the deadline.",
    "declined": "Every expert declined.",
    "budget": "The run's budget for human answers is used up.",
    "backpressure": "The expected wait was over the limit.",
    "no_model": "This arm asks models only, and none is configured.",
    "pictures": "This arm asks models only, and models do not see pictures.",
    "expert_fault": "The expert model gave no usable answer.",
    "a_later_one": "No expert answered (a later one).",
}


def fresh(ask):
    return Ask.objects.select_related("accepted", "assignment", "episode").get(pk=ask.pk)


def fell_back(ask, reason):
    closing.close(fresh(ask), AskStatus.FELL_BACK, reason, None)
    return fresh(ask)


def prepared(ask, project):
    desk.keep_model_draft(expert_model(project, MODEL), ask, "Take the oldest.")


def card(ask):
    return card_of(next(s for s in trajectory.steps_of(ask.episode) if s["seq"] == ask.seq)).ask


def told(ask):
    return endings.headline(ask), endings.line(ask)


@pytest.mark.parametrize(("reason", "words"), REASONS.items())
def test_a_fallback_says_its_own_reason(asked, reason, words):
    ask = fell_back(asked(), reason)
    assert told(ask) == (words, "The agent continues without advice. Not delivered yet.")
    assert card(ask).no_advice == f"{words} No advice was sent."


@pytest.mark.parametrize("reason", REASONS)
def test_a_prepared_draft_is_named_and_never_called_no_advice(asked, project, ada, reason):
    ask = asked()
    prepared(ask, project)
    ask = fell_back(ask, reason)
    assert (ask.accepted.source, ask.accepted.reason) == ("llm", "prepared")
    headline, line = told(ask)
    assert headline == REASONS[reason] and line.startswith(f"The agent gets the draft by {MODEL}.")
    assert "no advice" not in line and "without" not in line
    shown = card(ask)
    assert shown.no_advice == "" and shown.text == "Take the oldest."
    assert shown.said == "draft, sent because no expert answered, blind"
    closing.look(system(project), ask.pk)
    assert "Delivered in" in endings.line(fresh(ask))


def test_a_fallback_that_the_agent_heard_or_could_not_hear(asked, project, ada):
    heard, unheard = fell_back(asked(), "declined"), fell_back(asked(), "declined")
    closing.look(system(project), heard.pk)
    ending.finish(ada, unheard.episode_id, Finish(stop_reason="done"))
    assert endings.line(fresh(heard)) == "The agent continued without advice."
    assert endings.line(fresh(unheard)) == "The episode ended before the agent was told."


def test_a_fallback_with_a_default_names_it(asked, project):
    call = {"id": "1", "name": "refund", "arguments": {"order": 7}}
    options = [{"id": "n", "label": "North"}, {"id": "s", "label": "South"}]
    for typed, default in (
        ({"kind": "approval", "calls": [call], "on_timeout": "reject"}, "reject"),
        ({"kind": "choice", "options": options, "on_timeout": {"value": "s"}}, "s"),
    ):
        ask = fell_back(asked(**typed), "deadline")
        assert endings.line(ask) == f"The agent gets its default: {default}. Not delivered yet."
        assert card(ask).no_advice == "No answer before the deadline. The agent gets its default."
        closing.look(system(project), ask.pk)
        assert endings.line(fresh(ask)) == f"The agent got its default: {default}."


def test_withdrawn_ask_records_what_its_agent_got(asked, ada):
    ask = asked()
    closing.cancel(ada, ask.pk, heard="deadline")
    closing.cancel(ada, ask.pk, heard="unreachable")
    step = json.loads(ask.episode.steps.get(seq=ask.seq).body)
    assert step["advice"] == {"text": "", "source": "fallback", "privilege": "blind", "reason": "deadline"}
    assert step["meta"]["closed"] == "cancelled" and fresh(ask).accepted is None


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda ask, ada: closing.cancel(ada, ask.pk), "The agent withdrew its question."),
        (lambda ask, ada: closing.cancel(ada, ask.pk, "desk"), "Someone cancelled this ask on the queue page."),
        (
            lambda ask, ada: ending.finish(ada, ask.episode_id, Finish(stop_reason="done")),
            "The episode ended before an answer.",
        ),
        (
            lambda ask, ada: ending.fail(ada, ask.episode_id, "environment", "gone"),
            "The episode failed before an answer.",
        ),
        (lambda ask, ada: ending.cancel(ada, ask.episode_id, "enough"), "The episode was stopped before an answer."),
    ],
)
def test_a_cancelled_ask_says_by_what(asked, ada, end, words):
    ask = asked()
    end(ask, ada)
    assert told(fresh(ask)) == (words, "Nothing was sent to the agent.")


def answered_by(actor, ask):
    lease = queue.claim_locked(actor, fresh(ask), timezone.now()) if actor.model else queue.claim(actor, ask.pk)
    advising.answer(actor, lease.assignment_id, lease.lease_token, "The oldest.", "n")
    return fresh(ask)


def test_an_answer_that_is_a_question_says_so(asked, ada, edo):
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Which one?", "n", asks_back=True)
    assert endings.headline(fresh(ask), edo) == "You asked back in under 1 s."
    page = as_person(edo).get(f"/episodes/{ask.episode_id}/").content.decode()
    assert "asked back, blind" in page and "answered, blind" not in page
    later = AskOpen(key="q2", episode=ask.episode_id, seq=2, question="The older one?", thread=ask.pk)
    thread = as_person(edo).get(f"/asks/{opening.open_ask(ada, later)[0].pk}/").content.decode()
    assert "</b> asked back" in thread


def test_an_answer_says_who_gave_it(asked, ada, edo, project, models):
    script = bearer(issue_token(ada, "clerk", "expert")[0])
    mine = answered_by(edo, asked())
    assert endings.headline(mine) == endings.headline(mine, ada) == "edo answered in under 1 s."
    assert endings.headline(mine, edo) == "You answered in under 1 s."
    assert endings.headline(answered_by(script, asked())) == "The script clerk answered in under 1 s."
    own = bearer(issue_token(edo, "cli", "expert", personal=True)[0])
    assert endings.headline(answered_by(own, asked())) == "A script of edo answered in under 1 s."
    desk.set_policy(ada, model_first=True, audit_share=0.0, cache="all")
    by_model = answered_by(expert_model(project, MODEL), asked(question="By a model?"))
    assert endings.headline(by_model) == f"The model {MODEL} answered in under 1 s."
    again = fresh(asked(question="By a model?"))
    assert again.accepted.source == "cache"
    assert endings.headline(again) == f"An earlier answer by {MODEL} was reused."


def test_the_frame_of_an_end_carries_its_sentence(asked, monkeypatch):
    frames = []
    monkeypatch.setattr("episodes.events.publish", lambda topic, frame, *kind: frames.append(frame))
    fell_back(asked(), "declined")
    told = [one["ending"] for one in frames if "ending" in one]
    assert told[0] is None and told[-1] == "Every expert declined."


def test_a_notice_that_is_not_sent_names_the_state(asked):
    standing = notifications.AskSubject(fell_back(asked(), "declined")).standing("people", timezone.now())
    assert standing.why == "Not sent: the ask was already closed (fell back)."


def test_home_counts_fallbacks_of_ended_asks_as_metrics_does(ada, asked):
    fell_back(asked(), "declined")
    closing.cancel(ada, asked("And this?").pk)
    asked("And that?")
    seen = " ".join(re.sub("<[^>]+>", " ", html(as_person(ada).get("/"))).split())
    assert "Fell back 1 of 1 " in seen


def test_home_does_not_call_the_desk_empty_while_models_answer(ada, project, models):
    desk.set_policy(ada, model_first=True)
    seen = html(as_person(ada).get("/"))
    assert "Expert models answer first." in seen and "Nobody is at the desk" not in seen
    desk.set_policy(ada, model_first=False)
    assert not online.outlook(project, timezone.now()).present
    waits = board.underline(online.outlook(project, timezone.now()))
    assert waits == "No one is online. Asks wait for someone; a model prepares a draft for the deadline."


def test_list_is_sorted_by_time_waited_for_people(asked, ada):
    for wait in (0, 40, 10, 90):  # without an ask of people, then in seconds
        ask = asked()
        Ask.objects.filter(pk=ask.pk).update(
            closed_at=ask.created_at + timedelta(seconds=wait), tier="people" if wait else "llm"
        )
    recording.start_episode(ada, EpisodeStart(key="without", task="t"))
    assert read_through(ada, "-waited") == ["e3", "e1", "e2", "without", "e0"]
    assert read_through(ada, "waited") == ["e2", "e1", "e3", "e0", "without"]


def test_new_reason_without_advice_is_one_entry_of_the_table(monkeypatch):
    monkeypatch.setitem(legend.NO_ANSWER, "holiday", legend.NoAnswer("The desk was closed.", "desk closed"))
    assert legend.why_no_answer("holiday") == "The desk was closed."
    assert legend.label_of_no_answer("holiday") == "desk closed"
    assert legend.why_no_answer("a_new_word") == "No expert answered (a new word)."
    assert legend.label_of_no_answer("") == "no reason recorded"
