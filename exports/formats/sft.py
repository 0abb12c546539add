"""Conversational rows for supervised fine-tuning: messages with native tool calls, the tools, and provenance.

Pure: trajectory -> rows. Arguments stay JSON objects (several chat templates double-encode strings), an assistant's
content is "" and never null (one template fails on null), and the `datasets` features are explicit, because inferred
ones merge the arguments of different tools and fill the gaps with nulls that a model would then be trained on.

An episode in which the agent acted without tools (kind `action`) is no conversation and yields no row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from awmclient.schema import (
    ASK_SPEC,
    ASK_TOOL,
    Action,
    AskStep,
    Message,
    Nudge,
    Step,
    ToolCallStep,
    ToolSpec,
    Trajectory,
)

SCHEMA_VERSION = "awmweb.sft/1"
_TEXT = {"dtype": "string", "_type": "Value"}
_JSON_LIST = {"feature": {"_type": "Json"}, "_type": "List"}
_TEXT_COLUMNS = (
    *("schema_version", "episode_id", "scenario", "split", "condition", "phase", "reward_type", "advice_mode"),
    *("tool_protocol", "model", "prompt_sha256", "dataset_revision", "content_sha256"),
)
FEATURES: dict[str, Any] = {
    "messages": {
        "feature": {
            "role": _TEXT,
            "content": _TEXT,
            "name": _TEXT,
            "tool_call_id": _TEXT,
            "tool_calls": _JSON_LIST,
        },
        "_type": "List",
    },
    "tools": _JSON_LIST,
    **dict.fromkeys(_TEXT_COLUMNS, _TEXT),
    "task_idx": {"dtype": "int64", "_type": "Value"},
    "reward": {"dtype": "float64", "_type": "Value"},
    "expert_calls": {"dtype": "int64", "_type": "Value"},
    "expert_kinds": {"feature": _TEXT, "_type": "List"},
    "verifier_informed": {"dtype": "bool", "_type": "Value"},
}
"""For `datasets.Features.from_dict`; needs datasets 4.7 or newer for `Json`."""


def rows(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """One row for the episode, or none where nothing can be trained on. Same trajectory, same row, byte for byte."""
    if any(isinstance(step, Action) for step in trajectory.steps):
        return
    messages = list(conversation(trajectory))
    if not any(message["role"] == "assistant" for message in messages):
        return
    row = {"schema_version": SCHEMA_VERSION, "messages": messages, "tools": tools_of(trajectory)}
    yield {**row, **provenance(trajectory, messages), "content_sha256": sha256(row)}


def conversation(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """Messages in order. Steps that share a turn are one assistant message with its calls, then their results."""
    if not any(isinstance(step, Message) and step.role == "user" for step in trajectory.steps):
        yield _message("user", trajectory.task)
    for _, group in groupby(trajectory.steps, key=_turn_key):
        yield from _turn(list(group))


def _turn_key(step: Step) -> tuple[str, int]:
    return ("seq", step.seq) if step.turn is None else ("turn", step.turn)


def _turn(steps: list[Step]) -> Iterator[dict[str, Any]]:
    calls = [step for step in steps if isinstance(step, ToolCallStep | AskStep)]
    said = [step for step in steps if isinstance(step, Message) and step.role == "assistant"]
    yield from (_message(step.role, step.content) for step in steps if isinstance(step, Message) and step not in said)
    if said or calls:
        message = _message("assistant", "\n\n".join(step.content for step in said))
        if calls:
            message["tool_calls"] = [_call(step) for step in calls]
        yield message
    yield from (_result(step) for step in calls)
    yield from (_message("user", step.content) for step in steps if isinstance(step, Nudge))


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": clean(content)}


def clean(text: str) -> str:
    """Lone surrogates are no UTF-8, and trainers read UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _call_id(step: ToolCallStep | AskStep) -> str:
    return step.call_id or f"call_{step.seq}"


def _call(step: ToolCallStep | AskStep) -> dict[str, Any]:
    if isinstance(step, AskStep):
        arguments = {"question": step.question} | ({"context": step.context} if step.context is not None else {})
        function = {"name": ASK_TOOL, "arguments": arguments}
    else:
        function = {"name": clean(step.name), "arguments": step.arguments}
    return {"id": _call_id(step), "type": "function", "function": function}


def _result(step: ToolCallStep | AskStep) -> dict[str, Any]:
    name = ASK_TOOL if isinstance(step, AskStep) else step.name
    return {"role": "tool", "tool_call_id": _call_id(step), "name": clean(name), "content": clean(_seen(step))}


def _seen(step: ToolCallStep | AskStep) -> str:
    """What the agent saw come back."""
    if isinstance(step, AskStep):
        return as_text(step.advice.observation() if step.advice else {"status": "no_advice", "reason": "cancelled"})
    return as_text(step.error if step.error is not None else step.result)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tools_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    offered = trajectory.tools + ([ASK_SPEC] if trajectory.expert != "off" else [])
    return [{"type": "function", "function": _function(tool)} for tool in offered]


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.input_schema or {"type": "object"}}


def sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def provenance(trajectory: Trajectory, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Where the row comes from; every column is always there."""
    asks = [step for step in trajectory.steps if isinstance(step, AskStep)]
    advice = [step.advice for step in asks if step.advice is not None]
    prompt = [message for message in messages if message["role"] in ("system", "user")][:2]
    return {
        "episode_id": trajectory.episode,
        "scenario": trajectory.scenario or "",
        "task_idx": trajectory.task_idx if trajectory.task_idx is not None else -1,
        "split": trajectory.split or "",
        "condition": "baseline" if trajectory.expert == "off" else "expert",
        "phase": "",
        "reward": trajectory.outcome.reward if trajectory.outcome else None,
        "reward_type": trajectory.outcome.reward_type if trajectory.outcome else "",
        "expert_calls": len(asks),
        "expert_kinds": sorted({one.source for one in advice}),
        "verifier_informed": any(one.privilege == "sees_verifier" for one in advice),
        "advice_mode": "keep",
        "tool_protocol": "native",
        "model": str(trajectory.policy.get("model", "")),
        "prompt_sha256": sha256(prompt),
        "dataset_revision": str(trajectory.policy.get("dataset_revision", "")),
    }
