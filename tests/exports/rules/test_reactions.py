"""What an agent says about advice goes with the advice; its calls stay, and are learned."""

from __future__ import annotations

import json

import pytest

from tests.exports.records import STEPS, record, walk

TASK = "Merge 7 and 8."


def reacting(*after, before=STEPS[:6], ask=None, **more):
    """An episode that asks, and what its agent did after the answer."""
    asked = {**STEPS[6], **(ask or {})}
    said = [{"turn": 3 + at, **step} for at, step in enumerate(after)]
    steps = [{**step, "seq": seq} for seq, step in enumerate([*before, asked, *said], 1)]
    return record(steps=steps, task=TASK, **more)


def message(text, **more):
    return {"kind": "message", "role": "assistant", "content": text, **more}


def call(**more):
    return {"kind": "tool_call", "name": "merge", "arguments": {"into": 7}, "result": {"ok": True}, **more}


def says(text):
    """A turn that says something and merges."""
    return [message(text, turn=3), call(turn=3)]


def learned(one, shape="sft", **options):
    """Texts and calls that carry loss."""
    ((row,), counts) = walk(shape, one, advice="distil", **options)
    assert not counts.left_out
    lines = [line for line, loss in zip(row["messages"], row["loss"], strict=True) if loss]
    return [line["content"] for line in lines if line["content"]], [line.get("tool_calls", []) for line in lines]


@pytest.mark.parametrize("text", ["That is what I needed. I put it there.", "1014 is urgent.", "Das hilft mir sehr."])
def test_distil_cuts_the_text_of_the_turn_after_an_answer(text):
    texts, calls = learned(reacting(*says(text), message("Merged into 7.", turn=4)))
    assert texts == ["Merged into 7."]
    assert [one["function"]["name"] for made in calls for one in made] == ["merge"], "the corrected action is learned"


@pytest.mark.parametrize("shape", ["steps", "kto", "openai", "atif", "ask_decision"])
def test_no_format_has_the_reaction_to_cut_advice(shape):
    one = reacting(*says("That is what I needed."), message("Merged into 7.", turn=4))
    rows, _ = walk(shape, one, advice="distil")
    assert "Merged into 7." in json.dumps(rows) and "what I needed" not in json.dumps(rows)
    assert "what I needed" in json.dumps(walk(shape, one)[0])


def test_distil_cuts_the_reaction_to_no_advice_too():
    none = {"advice": {"text": "", "source": "fallback", "reason": "deadline"}}
    texts, _ = learned(reacting(*says("No name for me to go by."), message("Merged into 7.", turn=4), ask=none))
    assert texts == ["I look first.", "Merged into 7."]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Ticket 8 was handled as advised.", []),
        ("Merged into 7. Thank you for the help.", ["Merged into 7."]),
        ("Merged into the ticket you named.\nBoth are closed.", ["Both are closed."]),
        ("I did what the advice said! It costs 87.50 euro.", ["It costs 87.50 euro."]),
        ("That one is merged. So it ends.", ["That one is merged. So it ends."]),
    ],
)
def test_distil_cuts_later_sentences_that_name_advice(said, kept):
    assert learned(reacting(call(), message(said, turn=4)))[0] == kept


@pytest.mark.parametrize(
    ("said", "kept"), [("That settles it. Ticket 7 stays.", ["Ticket 7 stays."]), ("Ticket 7 stays.", None)]
)
def test_distil_keeps_an_answer_that_follows_advice_at_once(said, kept):
    assert learned(reacting(message(said), call(turn=4)))[0] == (kept or [said])


def test_distil_cuts_the_text_of_a_turn_that_asks_and_acts():
    looks = {"kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "result": {"id": 7}, "turn": 2}
    before = [*STEPS[:2], message("I look, and someone has to tell me.", turn=2), looks]
    texts, calls = learned(reacting(call(), message("Merged into 7.", turn=4), before=before))
    assert texts == ["Merged into 7."] and [made[0]["function"]["name"] for made in calls if made] == [
        "get_ticket",
        "merge",
    ]


def test_distil_keeps_calls_that_are_written_into_the_text():
    written = '<tool_call>{"name": "merge", "arguments": {"into": 7}}</tool_call>'
    texts, _ = learned(reacting(*says(f"That is what I needed.\n{written}"), message("Merged into 7.", turn=4)))
    assert texts == [written, "Merged into 7."]


def test_distil_keeps_thanks_to_a_user_who_talks():
    user = {"kind": "message", "role": "user", "content": "It is 7.", "turn": 3}
    said = message("Thank you, as you said I merged it.", turn=5)
    assert learned(reacting(call(), user, said))[0] == [said["content"]]


def test_only_distil_cuts_reactions():
    one = reacting(*says("That is what I needed."), message("Merged as advised.", turn=4))
    for mode in ("keep", "keep_masked"):
        text = json.dumps(walk("sft", one, advice=mode)[0])
        assert "what I needed" in text and "as advised" in text
    alone = record(steps=[*STEPS[:2], *says("That is what I needed."), message("Thank you.", turn=4)], task=TASK)
    assert "what I needed" in json.dumps(walk("sft", alone, advice="distil")[0]), "no one was asked"
