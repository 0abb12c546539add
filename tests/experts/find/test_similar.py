"""Earlier answers to asks like the one at hand: found by task, words and scenario, blind apart, taken up and marked."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish, ToolCall
from episodes.models import VerifierOutcome
from episodes.record import ending, recording
from experts.find.similar import began_with, earlier, marks_of, origins
from experts.metrics import records
from experts.models import EARLIER, Advice, Ask
from experts.record import advising, closing, opening, queue
from people.errors import Invalid
from tests.browsing import as_person, html

MERGE = [{"name": "merge", "input_schema": {"type": "object", "properties": {"into": {"type": "integer"}}}}]
QUESTION = "Ticket 4127 is the oldest but solved: merge into it, or into the open one?"


@pytest.fixture
def asked(ada):
    """Open an ask of an episode of its own."""
    count = iter(range(100))

    def ask(question=QUESTION, **more):
        plan = {"task": "merge the tickets", "expert": "plain", "scenario": "helpdesk_1", "task_idx": 4, "tools": MERGE}
        episode, _ = recording.start_episode(ada, EpisodeStart(key=f"e{next(count)}", **{**plan, **more}))
        return opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question=question))[0]

    return ask


@pytest.fixture
def answered(asked, edo):
    """An ask of before, and what Edo said to it."""

    def answer(question=QUESTION, text="Into 4127, and reopen it.", calls=None, **more):
        ask = asked(question, **more)
        lease = queue.claim(edo, ask.pk)
        advising.answer(edo, lease.assignment_id, lease.lease_token, text, "n", calls)
        return Ask.objects.get(pk=ask.pk)

    return answer


def found(actor, ask):
    return [(one.said.text, one.near) for one in earlier(actor, Ask.objects.select_related("episode").get(pk=ask.pk))]


def send(client, ask, text, began):
    page = html(client.get(f"/asks/{ask.pk}/"))
    fields = dict(re.findall(r'name="(lease_token|nonce)" value="([^"]*)"', page))
    body = {**fields, "text": text, "tool_calls": "[]", "then": "watch", "drafted_by": began}
    return client.post(f"/asks/{ask.pk}/answer", body, follow=True)


def test_related_answers_rank_task_scenario_then_similarity(asked, answered, edo):
    answered("Is the printer on the second floor yours?", "No.", scenario="printers_1", task_idx=1)
    answered(QUESTION, "elsewhere", scenario="helpdesk_9", task_idx=0)
    answered(QUESTION.replace("open", "newest"), "scenario", task_idx=7)
    answered("Whom do I tell?", "task")
    assert found(edo, asked()) == [
        ("scenario", "same scenario"),
        ("elsewhere", "different task"),
        ("task", "same task"),
    ]


def test_the_nearest_question_of_the_same_task_leads(asked, answered, edo):
    answered(QUESTION, "near")
    answered("Whom do I tell?", "far")
    answered(QUESTION, "scenario", task_idx=7)
    assert [text for text, _ in found(edo, asked())] == ["near", "scenario", "far"]


def test_only_answers_count_and_never_another_projects(asked, answered, ada, edo, max_):
    fell = asked()
    closing.cancel(ada, fell.pk)
    start = EpisodeStart(key="x", task="merge the tickets", scenario="helpdesk_1", task_idx=4, expert="plain")
    theirs, _ = recording.start_episode(max_, start)
    ask = opening.open_ask(max_, AskOpen(key="q", episode=theirs.pk, seq=1, question=QUESTION))[0]
    lease = queue.claim(max_, ask.pk)
    advising.answer(max_, lease.assignment_id, lease.lease_token, "theirs", "n")
    assert found(edo, asked()) == []
    assert as_person(max_).get(f"/asks/{fell.pk}/similar").status_code == 404


def test_a_reviewer_who_may_not_answer_gets_none(answered, asked, rita):
    answered()
    assert as_person(rita).get(f"/asks/{asked().pk}/similar").status_code == 403


def test_informed_answers_are_not_reused_for_blind_asks(answered, asked, edo):
    answered(text="The verifier wants 4127.", expert="informed")
    blind, informed = asked(), asked(expert="informed")
    assert found(edo, blind) == []
    page = html(as_person(edo).get(f"/asks/{blind.pk}/similar"))
    assert "verifier wants" not in page and "are hidden" in page
    shown = html(as_person(edo).get(f"/asks/{informed.pk}/similar"))
    assert "The verifier wants 4127." in shown and "SEES VERIFIER" in shown


def test_blind_answer_cannot_start_from_privileged_text(answered, asked, edo):
    before = answered(text="The verifier wants 4127.", expert="informed")
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    with pytest.raises(Invalid, match="This ask is blind"):
        began = f"{EARLIER}{before.accepted_id}"
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Take 4127.", "n", drafted_by=began)
    assert Ask.objects.get(pk=ask.pk).is_open


def test_equal_answers_are_one_row_with_their_outcomes(answered, asked, ada, edo):
    for verdict in ("complete", "others", ""):
        one = answered()
        ending.finish(ada, one.episode_id, Finish(stop_reason="done"))
        if verdict:
            VerifierOutcome.objects.create(episode=one.episode, source="verifier", reward_type=verdict)
    page = html(as_person(edo).get(f"/asks/{asked().pk}/similar"))
    assert page.count("data-pick=") == 1
    assert "used 3 times" in page and "1 of 2 episodes completed" in page


def test_reused_answer_stores_its_source_and_similarity(answered, asked, ada, edo):
    before = answered(text="Into 4127, and reopen it.")
    ask = asked()
    client = as_person(ada)
    client.post(f"/asks/{ask.pk}/claim")
    began = f"{EARLIER}{before.accepted_id}"
    client.post(f"/asks/{ask.pk}/draft", {"text": "Into 4127", "version": 0, "drafted_by": began})
    shown = html(client.get(f"/asks/{ask.pk}/"))
    assert began in shown and re.search(r'data-began="advice:" title', shown)
    sent = html(send(client, ask, "Into 4127, and reopen it first.", began))
    said = Advice.objects.get(ask=ask)
    assert said.taken_from_id == before.accepted_id and 0.8 < said.taken_kept < 1 and said.drafted_by == ""
    assert "Reused edo&#x27;s answer, given " in sent and "% kept)" in sent
    told = records.metrics_of(ada, records.Look(time="all"), timezone.now()).desk.taken
    assert (told.part, told.of) == (1, 2)
    assert "Reused an answer" in html(as_person(ada).get("/metrics/?time=all"))


def test_the_mark_outlives_amending_and_taking_back(answered, asked, edo):
    before, ask = answered(), asked()
    lease = queue.claim(edo, ask.pk)
    began = f"{EARLIER}{before.accepted_id}"
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Into 4127.", "n", drafted_by=began)
    better = advising.edit(edo, ask.pk, "Into 4127, now.", None, "m")
    assert better.taken_from_id == before.accepted_id
    advising.withdraw(edo, ask.pk)
    assert began in html(as_person(edo).get(f"/asks/{ask.pk}/"))


def test_agents_words_and_calls_are_text(answered, asked, edo):
    calls = [ToolCall(name="merge", arguments={"into": 1})]
    answered("<script>alert(1)</script> merge into it?", "Say </script><b>no</b>.", calls)
    page = html(as_person(edo).get(f"/asks/{asked().pk}/similar"))
    assert "<b>no" not in page and "<script>alert" not in page and "merge" in page


def test_similar_questions_share_a_mark_and_show_origin():
    one, other = (set(marks_of(text, "", None, text)) for text in (QUESTION, QUESTION + " Please say."))
    assert one & other and all(-(2**31) <= mark < 2**31 for mark in one)
    assert len(marks_of("\udc80", "a", 1, "b")) == 2  # no words at all: found by its place alone
    assert origins("model:small advice:7") == ("model:small", "7") and origins("") == ("", "")
    assert began_with(Advice(drafted_by="small", taken_from_id="7")) == "model:small advice:7"


def test_finding_takes_a_few_queries_however_many_there_are(answered, asked, edo, django_assert_max_num_queries):
    for n in range(8):
        answered(text=f"answer {n}")
    ask = Ask.objects.select_related("episode").get(pk=asked().pk)
    with django_assert_max_num_queries(5):
        assert len(earlier(edo, ask)) == 8
