"""Words for a chat model: the system prompt, and the recorded steps told as a conversation.

Pure. A conversation is built from steps alone, so that another process can carry an episode on. Called by
`rollout.py` and `chat.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.schema import ASK_TOOL

ACT = (
    "You carry out a task by calling tools. Look at the data before you change it, make only the changes that the task "
    "asks for, and read what each tool returns. If a call fails, read the error, correct the call and try again. "
    "When the task is done, or cannot be done, say so in a short final answer without any tool call."
)
ASK = (
    f"An expert can be asked with the tool {ASK_TOOL}. Try by yourself first. Ask when you are stuck: when a rule or a "
    "preference that you need is nowhere to be found, or when the same error comes back. Ask one clear question and "
    'say what you have tried. If the result says "no_advice", nobody answered: go on as well as you can by yourself, '
    "and do not ask the same again."
)
ACTIONS = (
    "You act in an environment. In each turn write exactly one JSON object, your next action, and nothing else. "
    "When the task is done, say so in a short final answer that is not JSON."
)
NUDGE = f"The last calls failed. If you are stuck, ask the expert with {ASK_TOOL}."


def system_prompt(*, expert: bool, tools: bool = True) -> str:
    """What the agent is told before the task. The expert is named only where one can be asked."""
    return "\n\n".join([ACT if tools else ACTIONS, *([ASK] if expert else [])])


def conversation(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Steps as OpenAI chat messages: the calls of one turn in one assistant message, each followed by its result."""
    messages: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        kind = step.get("kind")
        if kind == "message":
            messages.append({"role": step["role"], "content": step["content"], "_turn": step.get("turn")})
        elif kind in ("tool_call", "ask"):
            _add_call(messages, step, str(step.get("call_id") or f"call_{number}"))
        elif kind == "action":
            messages.append({"role": "assistant", "content": _dump(step["action"])})
            messages.append({"role": "user", "content": _seen(step.get("observation"), step.get("error"))})
        elif kind == "nudge":
            messages.append({"role": "user", "content": step["content"]})
    return [{key: value for key, value in message.items() if key != "_turn"} for message in messages]


def _add_call(messages: list[dict[str, Any]], step: Mapping[str, Any], call_id: str) -> None:
    if step.get("kind") == "ask":
        name, arguments, seen = ASK_TOOL, _question(step), _dump(step.get("advice"))
    else:
        name, arguments = str(step["name"]), step.get("arguments") or {}
        seen = _seen(step.get("result"), step.get("error"))
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": _dump(arguments)}}
    _speaker(messages, step.get("turn")).setdefault("tool_calls", []).append(call)
    messages.append({"role": "tool", "tool_call_id": call_id, "content": seen})


def _speaker(messages: list[dict[str, Any]], turn: object) -> dict[str, Any]:
    """The assistant message of this turn; a new one if the turn has said nothing yet."""
    said: dict[str, Any]
    for said in reversed(messages):
        if said["role"] == "assistant" and turn is not None and said.get("_turn") == turn:
            return said
        if said["role"] != "tool":
            break
    fresh: dict[str, Any] = {"role": "assistant", "content": "", "_turn": turn}
    messages.append(fresh)
    return fresh


def _question(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: step[key] for key in ("question", "context") if step.get(key) is not None}


def _seen(result: Any, error: Any) -> str:
    if error is not None:
        return f"Error: {error}"
    return result if isinstance(result, str) else _dump(result)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
