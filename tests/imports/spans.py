"""Traces as instrumentations send them: one task, two parallel calls, one answer, by both conventions."""

from __future__ import annotations

import json
import random
from typing import Any

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_764_201_600_000_000_000
"""2025-11-27 00:00:00 UTC, in nanoseconds."""
SECOND = 10**9


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs_of(value)}}
    return {"stringValue": value}


def pairs_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value_of(one)} for name, one in given.items()]


def span(number: int, name: str, at: float, took: float, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a span below span 1, unless it is span 1; times are seconds after the start."""
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if number == 1 else f"{1:016x}",
        "name": name,
        "startTimeUnixNano": str(START + round(at * SECOND)),
        "endTimeUnixNano": str(START + round((at + took) * SECOND)),
        "attributes": pairs_of(attributes),
        **more,
    }


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": pairs_of({"service.name": "desk-agent"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "test"}, "spans": [*spans]}]}]}


def gen_ai(task: str) -> list[dict[str, Any]]:
    """Return the spans of OpenTelemetry's GenAI conventions."""
    asked = {"role": "user", "parts": [{"type": "text", "content": task}]}
    calls = [
        {"type": "tool_call", "id": f"c{number}", "name": "get_ticket", "arguments": {"id": number}}
        for number in (7, 8)
    ]
    thought = {"type": "reasoning", "content": "Both first."}
    turn = {"role": "assistant", "parts": [thought, {"type": "text", "content": "I look."}, *calls]}
    results = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{number}", "response": f"ticket {number}"}]}
        for number in (7, 8)
    ]
    said = {"role": "assistant", "parts": [{"type": "text", "content": "Merged into 7."}], "finish_reason": "stop"}
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.request.temperature": 0.5}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_ticket"}
    offered = {"type": "function", "name": "get_ticket", "description": "One ticket.", "parameters": {"type": "object"}}
    return [
        span(1, "invoke_agent desk", 0, 9, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}),
        span(2, "chat m-1", 0, 2, {
            **model,
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "You act."}]),
            "gen_ai.input.messages": json.dumps([asked]),
            "gen_ai.output.messages": json.dumps([turn]),
            "gen_ai.tool.definitions": json.dumps([offered]),
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 5,
        }),
        span(3, "execute_tool get_ticket", 2.1, 4, {
            **tool, "gen_ai.tool.call.id": "c7", "gen_ai.tool.call.arguments": '{"id": 7}',
            "gen_ai.tool.call.result": "ticket 7",
        }),
        span(4, "execute_tool get_ticket", 2.2, 1, {
            **tool, "gen_ai.tool.call.id": "c8", "gen_ai.tool.call.arguments": '{"id": 8}',
            "gen_ai.tool.call.result": "ticket 8",
        }),
        span(5, "GET", 2.3, 0.5, {"http.request.method": "GET", "url.full": "https://desk.example.org/8"}),
        span(6, "chat m-1", 7, 2, {
            **model,
            "gen_ai.input.messages": [asked, turn, *results],
            "gen_ai.output.messages": json.dumps([said]),
        }),
    ]  # fmt: skip


def open_inference(task: str) -> list[dict[str, Any]]:
    """Return the spans of OpenInference, whose tools have no IDs of calls."""

    def messages(side: str, *given: dict[str, Any]) -> dict[str, Any]:
        return {
            f"llm.{side}_messages.{place}.message.{name}": one
            for place, message in enumerate(given)
            for name, one in message.items()
        }

    asked = [{"role": "system", "content": "You act."}, {"role": "user", "content": task}]
    turn: dict[str, Any] = {
        "role": "assistant",
        "contents.0.message_content.type": "reasoning",
        "contents.0.message_content.text": "Both first.",
        "contents.1.message_content.type": "text",
        "contents.1.message_content.text": "I look.",
    }
    for place, number in enumerate((7, 8)):
        call = f"tool_calls.{place}.tool_call"
        turn |= {
            f"{call}.id": f"c{number}",
            f"{call}.function.name": "get_ticket",
            f"{call}.function.arguments": f'{{"id": {number}}}',
        }
    results = [{"role": "tool", "content": f"ticket {number}", "tool_call_id": f"c{number}"} for number in (7, 8)]
    said = {"role": "assistant", "content": "Merged into 7."}
    schema = {"type": "function", "function": {"name": "get_ticket", "description": "One ticket.", "parameters": {}}}
    model = {"openinference.span.kind": "LLM", "llm.model_name": "m-1", "llm.invocation_parameters": '{"t": 0.5}'}
    tool = {"openinference.span.kind": "TOOL", "tool.name": "get_ticket"}
    return [
        span(1, "desk", 0, 9, {"openinference.span.kind": "AGENT", "agent.name": "desk", "input.value": task}),
        span(2, "ChatCompletion", 0, 2, {
            **model, **messages("input", *asked), **messages("output", turn), "input.value": "{}",
            "llm.tools.0.tool.json_schema": json.dumps(schema),
            "llm.token_count.prompt": 10, "llm.token_count.completion": 5,
        }),
        span(3, "get_ticket", 2.1, 4, {**tool, "input.value": '{"id": 7}', "output.value": "ticket 7"}),
        span(4, "get_ticket", 2.2, 1, {**tool, "input.value": '{"id": 8}', "output.value": "ticket 8"}),
        span(5, "GET", 2.3, 0.5, {"openinference.span.kind": "CHAIN", "url.full": "https://desk.example.org/8"}),
        span(6, "ChatCompletion", 7, 2, {
            **model, **messages("input", *asked, turn, *results), **messages("output", said),
        }),
    ]  # fmt: skip


CONVENTIONS = {"gen_ai": gen_ai, "open_inference": open_inference}


def shuffled(spans: list[dict[str, Any]], seed: int = 7) -> list[dict[str, Any]]:
    mixed = [*spans]
    random.Random(seed).shuffle(mixed)
    return mixed
