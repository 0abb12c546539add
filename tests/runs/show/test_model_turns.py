"""Turns that were cut off, not read, or had calls in their words are counted on a run's page, in its API and report."""

from __future__ import annotations

import pytest

from awmclient.schema import StepBatch
from episodes.models import Episode
from episodes.record import indexing, recording
from runs.show import model_turns
from runs.show.comparison import compare_run
from runs.show.report import markdown
from tests.browsing import as_person, html
from tests.runs.planned import ARMS, rows_of_run

pytestmark = pytest.mark.django_db(transaction=True)
SAID = {"kind": "message", "role": "assistant"}
STEPS = [
    {**SAID, "content": "Half a sen", "finish_reason": "length"},
    {"kind": "nudge", "content": "Be shorter.", "meta": {"unanswered": "cut_off"}},
    {**SAID, "content": '{"name": "oh', "finish_reason": "stop"},
    {"kind": "nudge", "content": "The tool call is not valid JSON.", "meta": {"unread_call": True}},
    {**SAID, "content": '{"name": "list_items"}', "tool_protocol": "text", "finish_reason": "stop"},
    {"kind": "tool_call", "name": "list_items", "arguments": {}, "result": []},
    {**SAID, "content": "Done.", "finish_reason": "stop"},
    {"kind": "nudge", "content": "Ask."},
]


@pytest.fixture
def spoken(ada):
    """A run of two episodes. One has a turn of each kind, the other two turns that no one could read."""
    plan = rows_of_run(ada, 2, arms=ARMS[:1])
    ids = plan.tries.order_by("position").values_list("episode_id", flat=True)
    for pk, steps in zip(ids, (STEPS, STEPS[2:4] * 2), strict=True):
        Episode.objects.filter(pk=pk).update(state="running", origin="external")
        rows = [{"seq": seq, "turn": seq, **step} for seq, step in enumerate(steps, 1)]
        recording.append_steps(ada, pk, StepBatch.model_validate({"steps": rows}).steps)
    indexing.work()
    return plan


def test_turns_of_models_are_counted_everywhere(ada, rita, spoken):
    (arm,) = model_turns.turns_of(ada, spoken.run)
    assert (arm.episodes, arm.unread, arm.unread_in, arm.in_text, arm.stopped) == (2, 3, 2, 1, 1)
    name = spoken.arms.get().name
    assert arm.lines == [
        f"{name}: 3 turns in 2 of 2 episodes look like calls and called nothing. {model_turns.CHECK}",
        f"{name}: 1 turn in 1 of 2 episodes had calls in the text, and awmweb read them. {model_turns.CHECK}",
        f"{name}: 1 turn in 1 of 2 episodes was cut off at a limit or stopped by a filter.",
    ]
    assert arm.lines[0].replace("'", "&#x27;") in html(as_person(rita).get(f"/runs/{spoken.pk}/"))
    listed = as_person(rita).get(f"/api/v1/runs/{spoken.pk}").json()["turns"]
    assert [(one["arm"], one["unread"], one["in_text_in"], one["stopped_in"]) for one in listed] == [(name, 3, 1, 1)]
    assert "3 turns in 2 of 2 episodes look like calls" in markdown(compare_run(ada, spoken.run_id), [], {})


def test_a_run_without_such_turns_says_nothing_of_them(ada, rita):
    plan = rows_of_run(ada, 1, arms=ARMS[:1])
    indexing.work()
    assert model_turns.turns_of(ada, plan.run) == []
    assert "What the models wrote" not in html(as_person(rita).get(f"/runs/{plan.pk}/"))
