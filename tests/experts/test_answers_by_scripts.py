"""What a program answers with an expert token is said to be a program's, beside the source that the wire has for it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.record import recording
from experts import advising, queue
from experts.errors import TooLate
from experts.find import availability, board
from experts.metrics import records
from experts.metrics.statistics import Asked, desk_line
from experts.models import Advice, Ask, Assignment
from people.access import system
from reviews.models import Annotation
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.reading import steps_read_by


@pytest.fixture
def script(project):
    return token(project, "expert")[0]


def answer(actor, ask, text="The oldest."):
    lease = queue.claim(actor, ask.pk)
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n")


def step_of(ada, ask):
    return steps_read_by(ada, ask.episode_id)[0]


def test_late_advice_is_marked_on_step_and_page(ada, script, asked):
    ask = asked()
    said, step = answer(script, ask), step_of(ada, ask)
    assert said.source == "human" and said.is_by_script
    assert set(step["advice"]) == {"text", "source", "author", "privilege"} and step["advice"]["source"] == "human"
    assert step["meta"] == {"answered_by": "script"}
    page = html(as_person(ada).get(f"/episodes/{ask.episode_id}/"))
    assert "answered (script), blind" in page and 'class="avatar sm bot"' in page


def test_of_a_person_nothing_is_said(ada, edo, asked):
    ask = asked()
    assert not answer(edo, ask).is_by_script and "meta" not in step_of(ada, ask)
    assert "answered (script)" not in html(as_person(ada).get(f"/episodes/{ask.episode_id}/"))


def test_withdrawn_answer_is_gone_and_a_new_one_counts(ada, edo, script, asked):
    ask = asked()
    answer(script, ask)
    lease = advising.withdraw(script, ask.pk)
    assert "meta" not in step_of(ada, ask)
    queue.release(script, lease.assignment_id, lease.lease_token)
    answer(edo, ask)
    assert "meta" not in step_of(ada, ask)


def test_a_bettered_answer_stays_a_scripts(ada, script, asked):
    ask = asked()
    answer(script, ask)
    advising.edit(script, ask.pk, "No, the newest.", None)
    step = step_of(ada, ask)
    assert (step["advice"]["text"], step["meta"]) == ("No, the newest.", {"answered_by": "script"})


def test_its_late_text_is_an_annotation_by_code(script, asked):
    ask = asked()
    lease = queue.claim(script, ask.pk)
    recording.fail(system(ask.project), ask.episode_id, "worker", "gone")
    with pytest.raises(TooLate):
        advising.answer(script, lease.assignment_id, lease.lease_token, "Too slow.", "n")
    assert Annotation.objects.get().author_kind == "code" and Advice.objects.get(late=True).is_by_script


def test_times_of_scripts_are_no_times_of_people(ada, edo, script, asked):
    for who, seconds in ((edo, 40), (script, 1), (script, 1), (script, 1)):
        ask = asked()
        Ask.objects.filter(pk=ask.pk).update(created_at=timezone.now() - timedelta(seconds=seconds))
        lease = queue.claim(who, ask.pk)
        Assignment.objects.filter(ask=ask).update(claimed_at=timezone.now() - timedelta(seconds=seconds))
        advising.answer(who, lease.assignment_id, lease.lease_token, "Into the oldest.", "n")
    assert 40 <= availability.usual_time(ada.project) < 60
    assert 40 <= board.closed_today(ada, timezone.now() - timedelta(hours=1))["median"] < 60
    counted = records.metrics_of(ada, records.Look(), timezone.now())
    assert (counted.desk.answered, counted.desk.took.n) == (4, 1) and 40 <= counted.desk.took.median < 60


def test_human_metrics_count_people_only():
    edo, bot = {"author_key": "user:1", "author": "edo"}, {"author_key": "token:1", "author": "token bot"}
    asks = [Asked("a", source="human", drafted_by="small", **edo), Asked("b", source="human", **bot)]
    drafted = desk_line(asks, "desk", "desk", "All").drafted
    assert (drafted.part, drafted.of) == (1, 1)
