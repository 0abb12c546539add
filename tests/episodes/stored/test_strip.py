"""The strip: one letter a step, marks for what was done, dots for what is still allowed, and the words for it."""

from __future__ import annotations

import pytest

from episodes.find import facets
from episodes.models import Episode, VerifierOutcome
from episodes.show.page import headline
from episodes.stored.strip import (
    MARKS,
    OUTCOMES,
    OutcomeKind,
    actions_in,
    asks_in,
    code_of,
    in_words,
    mark_of,
    marks_of,
    shown,
)
from episodes.templatetags.marks import outcome_state, strip

DIFF = {"tickets": {"changed": [{"key": 1}], "added": [], "removed": []}}


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"kind": "message", "role": "assistant"}, "t"),
        ({"kind": "note"}, "t"),
        ({"kind": "tool_call"}, "u"),
        ({"kind": "tool_call", "state_diff": None}, "u"),
        ({"kind": "tool_call", "state_diff": {}}, "r"),
        ({"kind": "tool_call", "state_diff": DIFF}, "w"),
        ({"kind": "tool_call", "state_diff": {"tickets": {"added": [], "changed": [], "removed": []}}}, "r"),
        ({"kind": "tool_call", "error": "", "state_diff": DIFF}, "e"),
        ({"kind": "tool_call", "name": "ask_expert", "error": "Unknown tool: ask_expert"}, "q"),
        ({"kind": "action"}, "u"),
        ({"kind": "ask"}, "o"),
        ({"kind": "ask", "advice": {"source": "human"}}, "a"),
        ({"kind": "ask", "advice": {"source": "fallback", "reason": "deadline"}}, "f"),
        ({"kind": "verification", "reward_type": "complete"}, "C"),
        ({"kind": "verification", "reward_type": "partly"}, "v"),
    ],
)
def test_a_step_has_a_letter(step, code):
    assert code_of(step) == code


def test_only_the_refusal_of_ask_expert_is_no_fault():
    calls = [("ask_expert", "Unknown tool: ask_expert"), ("ask_expert", "409"), ("asks", "Unknown tool: asks")]
    marks = [mark_of({"kind": "tool_call", "name": name, "error": error}) for name, error in calls]
    assert [(mark.code, mark.css) for mark in marks] == [("q", "idle"), ("e", "bad"), ("e", "bad")]


def test_strip_draws_an_ask_without_an_expert_as_no_error():
    drawn = strip("rqr", 0)
    assert drawn.count('class="bad"') == 0 and drawn.count('href="#k-unasked" class="idle"') == 1
    assert "1 ask without an expert" in in_words("rqr") and actions_in("rqr") == 3 and asks_in("rqr") == 0
    assert strip("rer", 0).count('class="bad"') == 1, "strips of before are drawn as they were"


def test_thoughts_are_left_out_unless_there_is_nothing_else():
    assert [mark.code for mark in shown("trtw", 10)[0]] == ["r", "w"]
    assert [mark.code for mark in shown("tt", 10)[0]] == ["t", "t"]


def test_a_long_strip_keeps_the_newest_and_counts_the_rest():
    marks, left_out = shown("r" * 50 + "w", 10)
    assert len(marks) == 10 and marks[-1].code == "w" and left_out == 41
    assert "+41" in strip("r" * 50 + "w", 60, room=10)


def test_unknown_step_letter_is_drawn_as_a_thought():
    assert marks_of("r§")[1].word == "thought"


def test_a_strip_says_its_counts_in_words():
    assert in_words("trrweo") == "6 steps: 1 thought, 2 reads, 1 write, 1 error, 1 open ask"
    assert in_words("") == "no steps yet"


def test_dots_stand_for_the_steps_still_allowed():
    assert strip("rr", 5).count('class="todo"') == 3
    assert strip("rr", 5, running=True).count('class="todo"') == 2
    assert strip("rr", 5, outcome="complete").count('class="todo"') == 0
    assert actions_in("trwo") == 3


def test_new_outcome_is_one_entry_of_the_table(monkeypatch):
    monkeypatch.setitem(OUTCOMES, "partly", OutcomeKind("Half done", "Half of the task is complete", MARKS["J"]))
    assert 'class="st ver"' in outcome_state("partly") and "Half done" in outcome_state("partly")
    assert code_of({"kind": "verification", "reward_type": "partly"}) == "J"
    ended = Episode(state="finished", strip="rw")
    assert headline(ended, VerifierOutcome(reward_type="partly"), 0) == "Half of the task is complete, after 2 actions."
    assert "v-hex" in outcome_state("unheard") and "unheard" in outcome_state("unheard")
    assert list(facets.WORDS["outcome"]) == ["complete", "others", "judge_error", "none"]
