"""Annotations: append-only words about a step or an episode, and what becomes of texts that came too late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from awmclient.schema import AskOpen, EpisodeStart, ToolCall
from episodes.record import ending, recording
from experts.errors import StillOpen, TooLate
from experts.find import panels
from experts.models import Draft
from experts.record import advising, desk, opening, queue, tagging
from people.access import system
from people.errors import Forbidden, Invalid, NotFound, WrongScope
from reviews.models import Annotation
from reviews.record import annotating
from reviews.visible.places import Place
from tests.people_by_name import person, token


@pytest.fixture
def ask(ada):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="e", task="merge", expert="informed"))
    return opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Into which one?"))[0]


def test_what_is_said_stands_with_author_privilege_and_place(ask, edo):
    said = tagging.annotate_ask(edo, ask, "note", "He means the oldest.")
    assert (said.author_key, said.author_kind, said.privilege, said.seq) == (edo.key, "human", "sees_verifier", 1)
    said.text = "other words"
    with pytest.raises(TypeError):
        said.save()


def test_repeated_label_is_idempotent_and_change_is_a_new_row(ask, edo):
    for value in ("yes", "yes", "no", "yes"):
        tagging.tag(edo, ask, "question_needed", value)
    rows = Annotation.objects.order_by("created_at", "pk")
    assert list(rows.values_list("text", flat=True)) == ["yes", "no", "yes"]


def test_strangers_viewers_and_agents_say_nothing(ask, max_, project):
    agent, _ = token(project, "agent")
    for stranger, refusal in ((max_, NotFound), (person(project, "vera", "viewer"), Forbidden)):
        with pytest.raises(refusal):
            annotating.annotate(stranger, ask.episode, Place(1), "note", "mine")
    with pytest.raises(WrongScope):
        annotating.annotate(agent, ask.episode, Place(1), "note", "mine")
    assert not Annotation.objects.exists()


@pytest.mark.parametrize(("seq", "label"), [(1, "Not A Label"), (1, ""), (99, "note")])
def test_a_bad_label_and_a_step_that_is_not_there_are_refused(ask, edo, seq, label):
    with pytest.raises(Invalid):
        annotating.annotate(edo, ask.episode, Place(seq), label, "x")


def test_a_late_answer_is_an_annotation_of_its_step_once(ask, edo):
    lease = queue.claim(edo, ask.pk)
    ending.fail(system(ask.project), ask.episode_id, "worker", "gone")
    call = ToolCall(name="merge", arguments={"into": 7})
    for _ in range(2):
        with pytest.raises(TooLate):
            advising.answer(edo, lease.assignment_id, lease.lease_token, "The oldest.", "n", [call])
    [kept] = Annotation.objects.all()
    assert (kept.label, kept.seq, kept.text) == ("late_advice", 1, 'The oldest.\nmerge("into": 7)')


def test_an_unsent_draft_can_be_kept_once_the_ask_is_closed(ask, edo, rita):
    desk.save_draft(edo, ask.pk, "Half a thought")
    with pytest.raises(StillOpen):
        tagging.keep_unsent(edo, ask)
    ending.fail(system(ask.project), ask.episode_id, "worker", "gone")
    tagging.keep_unsent(rita, ask)  # nothing of hers
    tagging.keep_unsent(edo, ask)
    tagging.keep_unsent(edo, ask)
    assert list(Annotation.objects.values_list("author", "text")) == [("edo", "Half a thought")]
    assert not Draft.objects.exists()


FORM = {
    "type": "object",
    "properties": {"who": {"type": "object", "properties": {"name": {"type": "string"}}}, "day": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("typed", "decision", "words"),
    [
        (
            {"kind": "approval", "calls": [{"id": "1", "name": "refund", "arguments": {"order": 7, "amount": 249.0}}]},
            {"calls": [{"id": "1", "verdict": "edit", "texts": {"order": "7", "amount": "12.5"}}]},
            "Edited refund(order: 7, amount: 12.5)",
        ),
        (
            {
                "kind": "choice",
                "options": [{"id": "n", "label": "North"}, {"id": "s", "label": "South"}],
                "other": True,
            },
            {"chosen": ["s"], "other": "the yard"},
            "Chosen: South\nOther: the yard",
        ),
        (
            {"kind": "form", "response_schema": FORM},
            {"texts": {'["who","name"]': "Ada", "day": "2026-12-03", '["who",null]': ""}},
            "who › name: Ada\nday: 2026-12-03",
        ),
    ],
)
def test_an_unsent_decision_is_shown_and_kept_in_words(ada, edo, typed, decision, words):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="typed", task="t", expert="plain"))
    asked, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Well?", **typed))
    desk.save_draft(edo, asked.pk, "", decision=decision)
    ending.fail(system(asked.project), episode.pk, "worker", "gone")
    asked.refresh_from_db()
    assert panels.unsent(edo, asked).text == words
    tagging.keep_unsent(edo, asked)
    assert list(Annotation.objects.values_list("author", "text")) == [("edo", words)]


@pytest.mark.django_db(transaction=True)
def test_the_same_tag_from_many_tabs_at_once_is_one_row(ask, edo):
    def press(_):
        try:
            tagging.tag(edo, ask, "answerable", "no")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as tabs:
        list(tabs.map(press, range(12)))
    assert Annotation.objects.count() == 1
