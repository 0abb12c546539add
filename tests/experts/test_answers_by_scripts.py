"""What a program answers with an expert token is said to be a program's, beside the source that the wire has for it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from awmclient.schema import ToolCall
from awmclient.words.conversation import messages
from episodes.models import Episode
from episodes.record import ending
from experts.errors import AlreadyClaimed, TooLate
from experts.find import board
from experts.metrics import records
from experts.metrics.statistics import Asked, desk_line
from experts.models import Advice, Ask, Assignment
from experts.record import advising, queue
from experts.who import arriving
from exports.formats.columns import kind_of
from people.access import bearer, system
from people.errors import Invalid
from people.models import ApiToken
from people.record.members import issue_token
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
    assert set(step["advice"]) == {"text", "source", "author", "behind", "privilege"}
    assert (step["advice"]["source"], step["advice"]["behind"]) == ("human", "script")
    assert step["meta"] == {"answered_by": "script"}
    page = html(as_person(ada).get(f"/episodes/{ask.episode_id}/"))
    assert "answered (script), blind" in page and 'class="avatar sm bot"' in page


@pytest.mark.parametrize(
    ("behind", "kind", "is_by_script"), [("person", "human", False), ("model", "llm", True), ("script", "script", True)]
)
def test_advice_says_who_is_behind_its_token(ada, project, asked, behind, kind, is_by_script):
    actor = bearer(issue_token(ada, "clerk", "expert", behind=behind)[0])
    ask = asked()
    said, step = answer(actor, ask), step_of(ada, ask)
    assert (said.behind, step["advice"]["behind"], said.is_by_script) == (behind, behind, is_by_script)
    assert kind_of(step["advice"]) == kind
    assert "behind" not in json.dumps(messages([step]))


def test_token_is_asked_who_uses_it(ada, project, capsys):
    page = html(as_person(ada).get("/api-tokens/"))
    assert "Used by" in page and '<option value="script" selected' in " ".join(page.split())
    as_person(ada).post("/api-tokens/", {"do": "issue", "name": "mine", "scope": "expert", "behind": "person"})
    as_person(ada).post("/api-tokens/", {"do": "issue", "name": "old form", "scope": "expert"})
    odd = {"do": "issue", "name": "x", "scope": "expert", "behind": "cat"}
    assert as_person(ada).post("/api-tokens/", odd).status_code == 422
    call_command("createtoken", "bot", "--project=lab", "--scope=expert", "--behind=model")
    call_command("createtoken", "plain", "--project=lab", "--scope=expert")
    assert dict(ApiToken.objects.values_list("name", "behind")) == {
        "mine": "person", "old form": "script", "bot": "model", "plain": "script",
    }  # fmt: skip


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
    ending.fail(system(ask.project), ask.episode_id, "worker", "gone")
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
    assert 40 <= arriving.usual_time(ada.project) < 60
    assert 40 <= board.closed_today(ada, timezone.now() - timedelta(hours=1))["wait"].median < 60
    counted = records.metrics_of(ada, records.Look(), timezone.now())
    assert (counted.desk.answered, counted.desk.took.n) == (4, 1) and 40 <= counted.desk.took.median < 60


def test_human_metrics_count_people_only():
    edo, bot = (
        {"author_key": "user:1", "author": "edo"},
        {"author_key": "token:1", "author": "token bot", "behind": "script"},
    )
    asks = [Asked("a", source="human", drafted_by="small", **edo), Asked("b", source="human", **bot)]
    drafted = desk_line(asks, "desk", "desk", "All").drafted
    assert (drafted.part, drafted.of) == (1, 1)


def test_script_suggests_only_calls_that_the_agent_has(script, asked):
    ask, schema = asked(), {"type": "object", "required": ["into"]}
    Episode.objects.filter(pk=ask.episode_id).update(tools=[{"name": "merge", "input_schema": schema}])
    lease = queue.claim(script, ask.pk)
    for name, why in (("drop", "no tool drop"), ("merge", "into")):
        with pytest.raises(Invalid, match=why):
            call = ToolCall(name=name, arguments={})
            advising.answer(script, lease.assignment_id, lease.lease_token, "Do this.", "n", [call])
    good = [ToolCall(name="merge", arguments={"into": 7})]
    advising.answer(script, lease.assignment_id, lease.lease_token, "Do this.", "n", good)
    with pytest.raises(Invalid, match="no tool drop"):
        advising.edit(script, ask.pk, "Or this.", [ToolCall(name="drop", arguments={})])


def test_second_claim_by_one_token_leaves_the_first_lease(script, edo, asked):
    ask = asked()
    first = queue.claim(script, ask.pk)
    with pytest.raises(AlreadyClaimed, match="has claimed this ask for up to"):
        queue.claim(script, ask.pk)
    advising.answer(script, first.assignment_id, first.lease_token, "The oldest.", "n")
    mine = asked()
    assert queue.claim(edo, mine.pk).lease_token != queue.claim(edo, mine.pk).lease_token
