"""What one span has and another lacks: results, errors, arguments, reasoning, usage and whole answers."""

from __future__ import annotations

import json

import pytest

from imports.readers.found import TrajectoryDraft
from imports.readers.traces import read_trace
from tests.imports.large_traces import ARGUMENTS, CALL, GIVEN, MODEL, RESULT, SAID, TOOL, answer, call, made, read_of

ASKED = {"role": "user", "parts": [{"type": "text", "content": "Go."}]}
LOOKS = {"type": "text", "content": "I look."}
WHY = {"type": "reasoning", "content": "Why not."}
DONE = {"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}


def read(*spans):
    draft = TrajectoryDraft()
    found = read_trace(spans, draft)
    return [step.model_dump(exclude_unset=True) for step in found.steps], dict(draft.lost)


def failed(number, attributes, message=""):
    one = made(number, attributes)
    return type(one)(**{**one.as_json(), "failed": True, "message": message})


def story(tool, said=None, history=None, text="ticket 7"):
    """A model calls, the tool runs, and the model reads what came back."""
    turn = answer(LOOKS, call("c7", {"id": 7})) if said is None else said
    given = [ASKED, turn if history is None else history, read_of("c7", text)]
    first = {**MODEL, GIVEN: [ASKED], **({SAID: [turn]} if turn else {})}
    return [made(1, first), tool, made(3, {**MODEL, GIVEN: given, SAID: [DONE]})]


def the_call(steps):
    (found,) = [step for step in steps if step["kind"] == "tool_call"]
    return found


def outline(steps):
    return [(step["kind"], step.get("content") or step.get("name")) for step in steps]


WHOLE = [("message", "Go."), ("message", "I look."), ("tool_call", "look"), ("message", "Done.")]


@pytest.mark.parametrize("attributes", [{}, {CALL: "c7"}], ids=["by name", "by ID"])
def test_result_that_a_tools_span_lacks_is_what_the_model_read(attributes):
    steps, lost = read(*story(made(2, {**TOOL, **attributes})))
    assert (outline(steps), the_call(steps)["result"], lost) == (WHOLE, "ticket 7", {})
    assert "result_as_read" not in the_call(steps)["meta"]


def test_results_of_two_spans_without_them_go_to_their_calls():
    turn = answer(call("c7", {"id": 7}), call("c8", {"id": 8}))
    first = made(1, {**MODEL, GIVEN: [ASKED], SAID: [turn]})
    tools = [made(2, TOOL), made(3, TOOL)]
    last = made(4, {**MODEL, GIVEN: [ASKED, turn, read_of("c8", "eight"), read_of("c7", "seven")], SAID: [DONE]})
    steps, _ = read(first, *tools, last)
    calls = [step for step in steps if step["kind"] == "tool_call"]
    assert [(step["call_id"], step["result"], step["meta"]["otlp"]["span"][-1]) for step in calls] == [
        ("c7", "seven", "2"),
        ("c8", "eight", "3"),
    ]


def test_result_of_a_tools_span_stays_with_what_was_read():
    steps, _ = read(*story(made(2, {**TOOL, CALL: "c7", RESULT: [7]}), text="[7] "))
    assert the_call(steps)["result"] == [7] and "result_as_read" not in the_call(steps)["meta"]
    steps, _ = read(*story(made(2, {**TOOL, CALL: "c7", RESULT: [7]}), text="seven"))
    assert (the_call(steps)["result"], the_call(steps)["meta"]["result_as_read"]) == ([7], "seven")


def test_call_that_no_span_has_a_result_for_has_none():
    spans = story(made(2, {**TOOL, CALL: "c7"}))
    steps, lost = read(*spans[:2])
    assert "result" not in the_call(steps) and lost == {"calls without a result (kept)": 1}


def test_result_of_a_lone_tool_is_what_a_later_model_read():
    late = made(2, {**MODEL, GIVEN: [ASKED, read_of("c7", "ticket 7")], SAID: [DONE]})
    steps, _ = read(made(1, {**TOOL, CALL: "c7"}), late)
    assert the_call(steps)["result"] == "ticket 7"


def test_error_without_words_is_what_the_model_read():
    steps, lost = read(*story(failed(2, {**TOOL, CALL: "c7"}), text="no such ticket"))
    assert (the_call(steps)["error"], "result" in the_call(steps), lost) == ("no such ticket", False, {})
    steps, lost = read(*story(failed(2, {**TOOL, CALL: "c7"}))[:2])
    assert (the_call(steps)["error"], lost) == ("error", {})


def test_error_with_words_stays():
    steps, _ = read(*story(failed(2, {**TOOL, CALL: "c7"}, "no such ticket"), text="Error!"))
    assert (the_call(steps)["error"], the_call(steps)["meta"]["result_as_read"]) == ("no such ticket", "Error!")


def test_result_that_was_read_first_is_compared():
    spans = story(made(4, {**TOOL, CALL: "c7", RESULT: "ticket seven"}))
    steps, _ = read(*spans)
    assert (the_call(steps)["result"], the_call(steps)["meta"]["result_as_read"]) == ("ticket seven", "ticket 7")
    steps, _ = read(*story(made(4, {**TOOL, CALL: "c7"})))
    assert the_call(steps)["result"] == "ticket 7"


def bare(**more):
    return answer(LOOKS, {"type": "tool_call", "id": "c7", "name": "look", **more})


@pytest.mark.parametrize("attributes", [{}, {CALL: "c7"}], ids=["by name", "by ID"])
def test_arguments_that_the_model_lacks_are_those_of_the_tool(attributes):
    tool = made(2, {**TOOL, **attributes, ARGUMENTS: '{"id": 7}', RESULT: "ticket 7"})
    steps, _ = read(*story(tool, bare()))
    assert the_call(steps)["arguments"] == {"id": 7} and "arguments_of_span" not in the_call(steps)["meta"]
    # said to be none is not the same as unsaid
    steps, _ = read(*story(tool, bare(arguments={})))
    assert (the_call(steps)["arguments"], the_call(steps)["meta"]["arguments_of_span"]) == ({}, {"id": 7})


def test_arguments_that_both_lack_are_those_of_the_history():
    tool = made(2, {**TOOL, CALL: "c7", RESULT: "ticket 7"})
    steps, _ = read(*story(tool, bare(), history=bare(arguments={"id": 7})))
    assert (outline(steps), the_call(steps)["arguments"]) == (WHOLE, {"id": 7})


@pytest.mark.parametrize("words", [[LOOKS], []], ids=["with a text", "calls alone"])
def test_reasoning_that_an_answer_lacks_is_that_of_the_history(words):
    tool = made(2, {**TOOL, CALL: "c7", RESULT: "ticket 7"})
    said = answer(*words, call("c7", {"id": 7}))
    steps, _ = read(*story(tool, said, history=answer(WHY, *words, call("c7", {"id": 7}))))
    message = steps[1]
    assert (message["kind"], message["reasoning"]["text"], steps[2]["kind"]) == ("message", "Why not.", "tool_call")
    assert message["turn"] == steps[2]["turn"] and len(steps) == 4


@pytest.mark.parametrize("attributes", [{}, {CALL: "c7"}], ids=["by name", "by ID"])
def test_answer_that_its_span_lacks_is_that_of_the_history(attributes):
    """As of a stream, whose answer some instrumentations do not record."""
    tool = made(2, {**TOOL, **attributes, ARGUMENTS: '{"id": 7}', RESULT: "ticket 7"})
    steps, lost = read(*story(tool, {}, history=answer(WHY, LOOKS, call("c7", {"id": 7}))))
    assert (outline(steps), lost) == (WHOLE, {})
    assert (steps[1]["reasoning"]["text"], steps[1]["turn"], the_call(steps)["turn"]) == ("Why not.", 1, 1)
    assert (the_call(steps)["call_id"], the_call(steps)["result"]) == ("c7", "ticket 7")


def test_answer_before_the_first_span_stands_before_its_call():
    tool = made(2, {**TOOL, CALL: "c7", RESULT: "ticket 7"})
    steps, _ = read(*story(tool, history=answer(LOOKS, call("c7", {"id": 7})))[1:])
    assert outline(steps)[:2] == WHOLE[1:3] and the_call(steps)["arguments"] == {"id": 7}


def test_usage_is_that_of_the_span_or_of_its_event():
    detail = {"gen_ai.usage.input_tokens": 10, SAID: json.dumps([DONE])}
    one = made(1, MODEL)
    events = [{"name": "gen_ai.client.inference.operation.details", "time": 1, "attributes": detail}]
    steps, _ = read(made(2, {**MODEL, GIVEN: [ASKED], SAID: [DONE]}), type(one)(**{**one.as_json(), "events": events}))
    assert steps[0]["usage"] == {"prompt_tokens": 10}
