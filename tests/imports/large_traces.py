"""Traces whose size is a number: each by one thing that a stranger can have many of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from imports.readers.found import TrajectoryDraft
from imports.readers.otlp import Span
from imports.readers.settled import WaitingTrace
from imports.readers.traces import read_trace
from tests.imports.spans import START, TRACE

MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
GIVEN, SAID = "gen_ai.input.messages", "gen_ai.output.messages"
CALL, RESULT, ARGUMENTS = "gen_ai.tool.call.id", "gen_ai.tool.call.result", "gen_ai.tool.call.arguments"


def made(number: int, attributes: dict[str, Any], parent: int = 0) -> Span:
    above = f"{parent:016x}" if parent else ""
    return Span(TRACE, f"{number:016x}", above, "s", START + number, START + number, attributes, {}, [])


def call(number: int | str = "", arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_call", "id": number, "name": "look", "arguments": arguments or {}}


def answer(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "parts": [*parts]}


def read_of(number: int | str, text: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": number, "response": text}]}


def one_result_read_often(size: int) -> list[Span]:
    """The product of two sizes: a long result, and many messages that name it."""
    said = [read_of("c", f"{number}") for number in range(size)]
    return [made(1, {**TOOL, CALL: "c", RESULT: [1] * size}), made(2, {**MODEL, GIVEN: said})]


def results_as_long_as_one(size: int) -> list[Span]:
    """Each result has as many characters as the first one, and another last one."""
    few = round(size**0.5)
    said = [read_of("c", "a" * few + chr(48 + number % 10)) for number in range(few)]
    return [made(1, {**TOOL, CALL: "c", RESULT: "a" * few + "b"}), made(2, {**MODEL, GIVEN: said})]


def history_in_each_span(size: int) -> list[Span]:
    few = round(size**0.5)
    said = [{"role": "user", "parts": [{"type": "text", "content": f"{number}"}]} for number in range(few)]
    return [made(number + 1, {**MODEL, GIVEN: said[: number + 1]}) for number in range(few)]


def calls_without_ids(size: int) -> list[Span]:
    first = {**MODEL, SAID: [answer(*[call()] * size)]}
    return [made(1, first), made(2, {**MODEL, GIVEN: [read_of("", f"{number}") for number in range(size)]})]


def calls_of_one_id(size: int) -> list[Span]:
    first = {**MODEL, SAID: [answer(*[call("c")] * size)]}
    tools = [made(number + 2, {**TOOL, CALL: "c"}) for number in range(size)]
    given = [read_of("c", f"{number}") for number in range(2 * size)]
    return [made(1, first), *tools, made(size + 3, {**MODEL, GIVEN: given})]


def tools_before_their_calls(size: int) -> list[Span]:
    """An answer without its words, tools' spans without IDs, and a history that has the calls."""
    tools = [made(number + 2, {**TOOL, ARGUMENTS: {"n": number}}) for number in range(size)]
    calls = [call(f"c{number}", {"n": number}) for number in range(size)]
    return [made(1, MODEL), *tools, made(size + 3, {**MODEL, GIVEN: [answer(*calls)]})]


def thoughts_in_a_history(size: int) -> list[Span]:
    turns = [[call(f"c{number}")] for number in range(size)]
    thought = {"type": "reasoning", "content": "Why not."}
    first = made(1, {**MODEL, SAID: [answer(*calls) for calls in turns]})
    return [first, made(2, {**MODEL, GIVEN: [answer(thought, *calls) for calls in turns]})]


def parts_of_a_message(size: int) -> list[Span]:
    name = "llm.input_messages.0.message.contents.{}.message_content.text"
    parts = {name.format(number): "a" * 200 for number in range(size)}
    return [made(1, {"openinference.span.kind": "LLM", **parts})]


def names_of_many_dots(size: int) -> list[Span]:
    return [made(1, {**MODEL, "llm.input_messages.0" + ".a" * size: "b"})]


def deep_trace(size: int) -> list[Span]:
    return [made(number, {}, number - 1) for number in range(1, size + 1)]


def lists_in_a_result(size: int) -> list[Span]:
    return [made(1, {**TOOL, CALL: "c", ARGUMENTS: '{"a": ' + "[" * 60 + "]" * 60 + "}", RESULT: [[]] * size})]


SIZES: dict[str, tuple[Callable[[int], list[Span]], int]] = {
    "spans: one result, read often": (one_result_read_often, 250),
    "spans: results of one length": (results_as_long_as_one, 4_000),
    "spans: a history in each": (history_in_each_span, 2_500),
    "spans: calls without IDs": (calls_without_ids, 400),
    "spans: calls of one ID": (calls_of_one_id, 120),
    "spans: tools before their calls": (tools_before_their_calls, 150),
    "spans: thoughts in a history": (thoughts_in_a_history, 150),
    "spans: parts of a message": (parts_of_a_message, 600),
    "spans: names of many dots": (names_of_many_dots, 20_000),
    "spans: a deep trace": (deep_trace, 250),
    "spans: lists in a result": (lists_in_a_result, 5_000),
}
"""How each trace is made, and the first size at which it is read."""


def rooted(spans: list[Span]) -> list[Span]:
    return [made(0, {"gen_ai.operation.name": "invoke_agent", "input.value": "Go."}), *spans]


def read(spans: list[Span]) -> object:
    return read_trace(rooted(spans), TrajectoryDraft())


def waiting(spans: list[Span], name: str = TRACE) -> WaitingTrace:
    return WaitingTrace(name, [json.dumps(one.as_json()) for one in rooted(spans)])
