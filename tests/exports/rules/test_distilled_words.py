"""Advice is cut out of distilled rows, and nothing that the agent learned repeats a word of it."""

from __future__ import annotations

import json

import pytest

from exports.recipe import KINDS
from tests.exports.records import ADVICE, FAILED, STEPS, record, walk

RULE = "Orders of Aurelia follow the blue lantern protocol, level K-77."


def told(*after, advice=RULE, **more):
    """An episode whose advice holds words that stand nowhere else, and what its agent did afterward."""
    before = [{**step, "advice": {**ADVICE, "text": advice}} if step["kind"] == "ask" else step for step in STEPS[:7]]
    said = [{"seq": seq, "turn": seq, **step} for seq, step in enumerate(after, 8)]
    return record(steps=[*before, *said], task="Merge 7 and 8 for Aurelia.", **more)


def message(text):
    return {"kind": "message", "role": "assistant", "content": text}


def call(**arguments):
    return {"kind": "tool_call", "name": "merge", "arguments": arguments, "result": {"ok": True}}


REPEATS = {
    "text": [message("This follows the lantern rule, so I merge."), call(into=7), message("Merged into 7.")],
    "final answer": [call(into=7), message("Merged into 7 under the blue protocol.")],
    "ending": [call(into=7), message("Merged into 7; lanterns are in order.")],
    "code of several parts": [call(into=7), message("Merged, with K-77.")],
    "prose of an argument": [call(into=7, note="Merged because the lantern order wants it so"), message("Done.")],
    "name of a tool": [{**call(into=7), "name": "lantern"}, message("Done.")],
    "after a failed repetition": [{**call(into="lantern"), "error": "no"}, message("Done, by the lantern.")],
}


@pytest.mark.parametrize("place", REPEATS)
@pytest.mark.parametrize("shape", ["sft", "steps", "kto"])
def test_distil_leaves_out_words_that_only_advice_told(shape, place):
    rows, counts = walk(shape, told(*REPEATS[place]), advice="distil")
    assert rows == [] and counts.left_out == {"ungrounded": 1}


@pytest.mark.parametrize(
    "after",
    [
        [call(into=7), message("I merged ticket 7 for Aurelia, and closed the older one.")],
        [{**call(into=7), "result": {"rule": "blue lantern"}}, message("Merged under the blue lantern rule.")],
    ],
)
def test_distil_keeps_own_words_and_those_of_results(after):
    rows, counts = walk("sft", told(*after), advice="distil")
    assert len(rows) == 1 and not counts.left_out and "K-77" not in json.dumps(rows)


def test_distil_keeps_what_the_agent_asked_about():
    steps = told(call(into=7), message("Merged under the blue lantern protocol.")).steps
    asked = [
        {**step, "question": "Does the blue lantern protocol hold?"} if step["seq"] == 7 else step for step in steps
    ]
    assert len(walk("sft", record(steps=asked, task="Merge 7 and 8."), advice="distil")[0]) == 1


def test_distil_finds_words_of_scripts_without_spaces():
    after = [call(into=7), message("\u5df2\u6309\u7167\u84dd\u706f\u89c4\u5219\u5408\u5e76\u3002")]
    rows, counts = walk("sft", told(*after, advice="\u8bf7\u7528\u84dd\u706f\u89c4\u5219\u3002"), advice="distil")
    assert rows == [] and counts.left_out == {"ungrounded": 1}


@pytest.mark.parametrize("shape", ["dpo", "ask_decision"])
@pytest.mark.parametrize("mode", ["drop", "distil"])
def test_no_row_holds_advice_that_is_cut(shape, mode):
    wanted = {"text": RULE, "tool_calls": [{"name": "merge", "arguments": {"into": 7, "why": "lantern"}}]}
    steps = [
        *STEPS[:4],
        {**STEPS[6], "seq": 5, "turn": 3, "advice": {**ADVICE, **wanted}},
        {"seq": 6, "turn": 3, **call(into=7)},
        {"seq": 7, "turn": 4, **message("Merged into 7.")},
    ]
    plain = {"task": "Merge 7 and 8."}
    other = record(id="e2", steps=[*steps[:5], {**steps[5], "arguments": {"into": 8}}], results=FAILED, **plain)
    kept, _ = walk(shape, record(steps=steps, **plain), other)
    cut, _ = walk(shape, record(steps=steps, **plain), other, advice=mode)
    assert "lantern" in json.dumps(kept) and "lantern" not in json.dumps(cut)


@pytest.mark.parametrize("shape", [name for name, kind in KINDS.items() if kind.reasoning])
def test_distil_holds_no_reasoning(shape):
    if KINDS[shape].takes_tokenizer:
        pytest.skip("test_token_ids.py reads tokens")
    thought = {**message("Merged into 7."), "reasoning": {"text": "The lantern protocol says so."}}
    rows, _ = walk(shape, told(call(into=7), thought), advice="distil")
    assert rows and "lantern" not in json.dumps(rows)
