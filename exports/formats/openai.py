"""Rows for OpenAI's fine-tuning: arguments as JSON text, `weight` on assistant messages, nothing else. Pure.

The vendor ships no validator that runs here and may change its rules: the format is the one documented in November
2026. `problem` checks the known rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awmclient.words.conversation import for_openai
from exports.record import NoRow, Record
from exports.rules.leakage import Ground
from exports.rules.shaping import Shaped

VERSION = "openai-chat-2026-11"
MAX_TOOLS = 128


def rows(_record: Record, shaped: Shaped, _ground: Ground) -> Iterator[dict[str, Any]]:
    messages = []
    for line in shaped.lines:
        message = for_openai(line.message)
        messages.append({**message, "weight": line.loss} if message["role"] == "assistant" else message)
    parallel = any(len(message.get("tool_calls", ())) > 1 for message in messages)
    row = {"messages": messages, "tools": list(shaped.tools), "parallel_tool_calls": parallel}
    if why := problem(row):
        raise NoRow(why)
    yield row


def problem(row: Mapping[str, Any]) -> str | None:
    """Return the reason the vendor would reject this row, or None."""
    messages: Sequence[Mapping[str, Any]] = row["messages"]
    if len(row["tools"]) > MAX_TOOLS:
        return f"more than {MAX_TOOLS} tools"
    if not messages or messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
        return "the last message is no answer of the assistant"
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "a result without its call"
            open_calls.remove(message["tool_call_id"])
            continue
        # every result comes before the next message
        if open_calls:
            return "a call without its result"
        for call in message.get("tool_calls", ()):
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments that are no object"
            open_calls.append(call["id"])
    return "a call without its result" if open_calls else None
