"""Episodes with a briefing: what a row holds of it, what is trained on, and which rules and modes leave it out."""

from __future__ import annotations

import json

import pytest

from awmclient.words.conversation import BRIEFED
from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.rules.quotations import VerifierWords
from tests.exports.records import COMPLETE, FAILED, STEPS, ground, record, walk

BRIEFING = {"kind": "briefing", "text": "Ticket 7 is the oldest.", "author": "Mina Park", "sources": ["e0"]}
ALONE = [step for step in STEPS if step["kind"] != "ask"]


def steps(base=STEPS, **more):
    told = [*base[:2], {**BRIEFING, **more}, *base[2:]]
    return [{**step, "seq": seq} for seq, step in enumerate(told, 1)]


def briefed(base=STEPS, briefing=None, **more):
    return record(steps=steps(base, **(briefing or {})), **more)


def test_briefing_is_read_after_the_task_and_carries_no_loss():
    ((row,), _) = walk("sft", briefed())
    assert row["messages"][2] == {"role": "user", "content": f"{BRIEFED}\n\nTicket 7 is the oldest."}
    assert row["loss"][:4] == [0, 0, 0, 1] and sum(row["loss"]) == sum(walk("sft")[0][0]["loss"])
    assert "Mina" not in json.dumps(row) and "e0" not in json.dumps(row)


@pytest.mark.parametrize(
    ("base", "expert", "condition"), [(ALONE, "off", "briefed"), (STEPS, "plain", "briefed_expert")]
)
def test_row_says_that_its_episode_was_briefed(base, expert, condition):
    ((row,), _) = walk("sft", briefed(base, expert=expert))
    assert row["condition"] == condition and row["prompt_sha256"] == walk("sft")[0][0]["prompt_sha256"]


def test_briefing_that_sees_the_verifier_taints_the_episode():
    one = briefed(ALONE, {"privilege": "sees_verifier"}, expert="off")
    rows, counts = walk("sft", one)
    assert rows == [] and counts.left_out == {"informed": 1}
    ((row,), _) = walk("sft", one, include=["informed"])
    assert row["verifier_informed"] is True


def test_drop_leaves_out_what_was_briefed():
    rows, counts = walk("sft", briefed(ALONE, expert="off"), advice="drop")
    assert rows == [] and counts.left_out == {"briefed": 1}


def test_distil_cuts_the_briefing_and_trains_on_known_values():
    ((row,), _) = walk("sft", briefed(task="Merge 7 and 8."), advice="distil")
    assert BRIEFED not in json.dumps(row)
    known = [{**step, "arguments": {"into": 99}} if step.get("name") == "merge" else step for step in ALONE]
    rows, counts = walk("sft", briefed(known, {"text": "Into 99."}, task="Merge 7 and 8."), advice="distil")
    assert rows == [] and counts.left_out == {"ungrounded": 1}


def test_verifier_text_in_a_briefing_excludes_the_episode():
    eight = "one two three four five six seven eight"
    known = ground("sft")
    known.verifier_of = lambda _record: VerifierWords([f"check {eight} nine"])
    walking = Walk(FORMATS["sft"], known)
    assert list(walking.rows([briefed(briefing={"text": eight})])) == []
    assert walking.counts.left_out == {"verifier_text": 1}


def test_prompts_to_run_hold_no_briefing():
    ((row,), _) = walk("prompts", briefed())
    assert [message["role"] for message in row["prompt"]] == ["system", "user"] and BRIEFED not in json.dumps(row)


def test_briefed_and_other_siblings_pair_only_where_it_is_cut():
    wrong = [{**step, "arguments": {"into": 8}} if step.get("name") == "merge" else step for step in ALONE]
    told = {"task": "Merge 7 and 8.", "expert": "off"}
    both = briefed(ALONE, **told), record(id="e2", steps=wrong, results=FAILED, **told)
    assert walk("dpo", *both)[0] == []
    (pair,) = walk("dpo", *both, advice="distil")[0]
    assert pair["episode_id"] == "e1" and BRIEFED not in json.dumps(pair)
    same = both[0], briefed(wrong, id="e2", results=FAILED, **told)
    (pair,) = walk("dpo", *same)[0]
    assert BRIEFED in json.dumps(pair["prompt"]) and BRIEFED not in json.dumps([pair["chosen"], pair["rejected"]])


@pytest.mark.parametrize("shape", ["atif", "openenv", "inspect", "openai", "steps", "kto", "ask_decision"])
def test_briefing_is_a_message_of_its_own_in_every_format(shape):
    rows, _ = walk(shape, briefed(results=COMPLETE))
    assert BRIEFED in json.dumps(rows[-1])
