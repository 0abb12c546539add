"""Captured token ids come back as they were recorded, and what cannot be trained on is left out with its reason."""

from __future__ import annotations

import pytest

from exports.assembly.building import Walk
from exports.errors import BadRecipe
from exports.formats import FORMATS
from exports.recipe import Recipe
from exports.rules.leakage import Ground
from tests.exports.records import record

PROMPT, SAMPLED, CHANCES = [5, 0, 151643], [7, 8], [-0.1234567890123456, 0.0]
IDS = {"prompt_ids": PROMPT, "completion_ids": SAMPLED, "logprobs": CHANCES}
SYSTEM = {"seq": 1, "kind": "message", "role": "system", "content": "You act."}
TASK = {"seq": 2, "kind": "message", "role": "user", "content": "Merge the duplicates."}


def said(seq, node, content="I look.", **meta):
    """A turn of the agent; without a node its loop had no capture."""
    mark = {"capture": {"node": node, "trainable": True}} if node else {}
    whole = {**IDS, **mark, **meta}
    return {"seq": seq, "kind": "message", "role": "assistant", "content": content, "turn": seq, "meta": whole}


def refused(seq, node, reason):
    return said(seq, node, capture={"node": node, "trainable": False, "reason": reason})


def tokens(*steps, recipe=None, **more):
    recipe = Recipe.read({"format": "tokens", **(recipe or {})})
    walking = Walk(FORMATS["tokens"], Ground(recipe))
    found = [row.value for row in walking.rows([record(steps=[SYSTEM, TASK, *steps], **more)])]
    return found, walking.counts


def test_captured_ids_come_back_as_recorded():
    (first, second), counts = tokens(said(3, "n1"), said(4, "n2", "Done.", completion_mask=[0, 1]))
    assert {name: first[name] for name in IDS} == IDS and first["input_ids"] == PROMPT + SAMPLED
    assert first["labels"] == [-100, -100, -100, 7, 8] and second["labels"][-2:] == [-100, 8]
    assert (first["seq"], second["seq"], counts.used) == (3, 4, 1)
    assert set(first) == set(FORMATS["tokens"].features)


def test_ids_of_a_loop_without_a_capture_are_rows_too():
    bare = {**said(3, ""), "meta": {"prompt_ids": PROMPT, "completion_ids": SAMPLED}}
    (row,), _ = tokens(bare)
    assert row["completion_ids"] == SAMPLED and row["logprobs"] == []


def test_refused_turn_is_counted_with_its_reason():
    rows, counts = tokens(said(3, "n1"), refused(4, "n2", "no_logprobs: turn 1: 7 sampled tokens with no logprobs"))
    assert [row["seq"] for row in rows] == [3]
    assert counts.rows_left_out == {"not_trainable: no_logprobs": 1}


def test_later_mark_of_the_capture_wins():
    changed = {"n1": {"node": "n1", "trainable": False, "reason": "the capture has left the turn out"}}
    note = {"seq": 5, "kind": "note", "content": "", "meta": {"capture": {"changed": changed}}}
    rows, counts = tokens(said(3, "n1"), said(4, "n2"), note)
    assert [row["seq"] for row in rows] == [4]
    assert counts.rows_left_out == {"not_trainable: the capture has left the turn out": 1}
    back = {"n1": {"node": "n1", "trainable": True}}
    again = {"seq": 6, "kind": "note", "content": "", "meta": {"capture": {"changed": back}}}
    rows, _ = tokens(said(3, "n1"), said(4, "n2"), note, again, recipe={"include": ["duplicates"]})
    assert [row["seq"] for row in rows] == [3, 4]


def test_capture_that_refuses_the_whole_episode_gives_no_row():
    note = {"seq": 4, "kind": "note", "content": "", "meta": {"capture": {"trainable": False, "reason": "no trace"}}}
    rows, counts = tokens(said(3, "n1"), note)
    assert rows == [] and dict(counts.left_out) == {"no_row: no trace": 1}


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ({"completion_ids": [7, True]}, "its token IDs are no list of whole numbers"),
        ({"completion_ids": "[redacted:phone]"}, "its token IDs are no list of whole numbers"),
        ({"logprobs": [-0.5]}, "its log-probabilities are no list of one number for each token"),
        ({"logprobs": [-0.5, "[redacted:credit_card]"]}, "its log-probabilities are no list of one number"),
        ({"completion_mask": [1, 2]}, "its mask is no list of 0 and 1 for each token"),
    ],
)
def test_ids_that_are_no_ids_are_refused(meta, reason):
    rows, counts = tokens(said(3, "n1", **meta))
    assert rows == [] and [why.startswith(f"no_row: {reason}") for why in counts.left_out] == [True]


def test_ids_behind_a_redaction_are_refused():
    """Ids hold what a redaction removed: this turn and all later ones."""
    secret = said(4, "n2", "The key is [redacted:openai].")
    rows, counts = tokens(said(3, "n1"), secret, said(5, "n3"))
    assert [row["seq"] for row in rows] == [3]
    assert counts.rows_left_out == {"not_trainable: a part of it is redacted": 2}
    rows, _ = tokens(said(3, "n1"), secret, recipe={"redact": "off", "include": ["duplicates"]})
    assert [row["seq"] for row in rows] == [3, 4]


def test_turn_without_loss_gives_no_row():
    ask = {"seq": 4, "kind": "ask", "question": "Into which?", "advice": {"status": "no_advice"}, "turn": 3}
    rows, _ = tokens(said(3, "n1"), ask, said(5, "n2"), recipe={"advice": "keep_masked", "include": ["duplicates"]})
    assert [row["seq"] for row in rows] == [5]


def test_episode_without_captured_ids_says_so():
    bare = {"seq": 3, "kind": "message", "role": "assistant", "content": "Done.", "turn": 1}
    rows, counts = tokens(bare)
    assert rows == [] and dict(counts.left_out) == {"no_row: no token IDs were captured": 1}


@pytest.mark.parametrize("more", [{"advice": "distil"}, {"advice": "drop"}, {"reasoning": "keep_masked"}])
def test_recipe_that_would_cut_captured_ids_is_refused(more):
    with pytest.raises(BadRecipe, match="from which nothing can be cut"):
        Recipe.read({"format": "tokens", **more})
    assert Recipe.read({"format": "tokens", "tokenizer": "plain", **more}).tokenizer == "plain"
