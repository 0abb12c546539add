"""Chat messages as steps: the inverse of `awmclient.conversation`. Pure.

The calls of an assistant message become steps of its turn, each with its result from a later message. Texts of results
are unchanged, so that the conversation that is made of the steps equals the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.words.thinking import PART_TYPES, read_reasoning
from imports.readers import doubled
from imports.readers.found import TrajectoryDraft, UnreadableRow
from imports.readers.open_calls import OpenCalls
from people.errors import BadJson

# `developer` and `function` are OpenAI's newer and older names; `human` and `gpt` are ShareGPT's.
ROLES = {"developer": "system", "function": "tool", "human": "user", "gpt": "assistant"}
ERROR = "Error: "
SAID = frozenset({"role", "content"})
TURN = SAID | {"tool_calls"}
RESULT = SAID | {"tool_call_id"}
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
PART = frozenset({"type", "text"})
OUTER_CALL = frozenset({"id", "tool_call_id", "type", "function"})
INNER_CALL = frozenset({"name", "arguments"})
FLAT_CALL = OUTER_CALL | {"function_name", "arguments"}


def add_messages(draft: TrajectoryDraft, messages: Sequence[Any], *, own_errors: bool = False) -> None:
    """Add every message. With `own_errors`, `Error: …` in a result is an error, as awmweb writes it."""
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise UnreadableRow(f"Message {number} is not an object with a role.")
        role = str(ROLES.get(message["role"], message["role"]))
        text = text_of(message.get("content"), draft, thoughts=role == "assistant")
        if role == "assistant":
            _add_turn(draft, message, text, number)
        elif role == "tool":
            add_result(draft, message, text, own_errors=own_errors)
        elif role in ("system", "user"):
            draft.add("message", role=role, content=text)
            draft.lose_fields(message, SAID, "messages")
        else:
            raise UnreadableRow(f"Message {number} has the unknown role {role[:40]!r}.")
    settle(draft)


def text_of(content: Any, draft: TrajectoryDraft, *, thoughts: bool = False) -> str:
    """Return the text of a content, which can have parts; parts without text count as lost, but for `thoughts`, which
    the caller reads.

    Texts of parts are joined without a character that their maker did not write.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnreadableRow("The content of a message is neither text nor a list of parts.")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif thoughts and isinstance(part, Mapping) and part.get("type") in PART_TYPES:
            continue
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
            draft.lose_fields(part, PART, "parts of messages")
        else:
            draft.lose("parts of messages that are not text")
    draft.lose("borders of text parts (their texts are joined)", max(0, len(texts) - 1))
    return "".join(texts)


def _add_turn(draft: TrajectoryDraft, message: Mapping[str, Any], text: str, number: int) -> None:
    draft.turn += 1
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise UnreadableRow(f"Message {number} has tool calls that are not a list.")
    fields = set(TURN)
    if isinstance(message.get("function_call"), Mapping):
        # OpenAI's form before `tool_calls`: one call, without an ID.
        calls = [*calls, {"function": message["function_call"]}]
        fields.add("function_call")
    _, thought = read_reasoning(message)
    if thought is not None:
        # Several fields can have the same thought; one that says something else counts as lost.
        fields.update(one for one in THOUGHTS if message.get(one) in (thought["text"], thought.get("parts")))
    draft.lose_fields(message, fields, "messages")
    if text or thought or not calls:
        draft.add("message", role="assistant", content=text, reasoning=thought, turn=draft.turn)
    for call in calls:
        add_call(draft, call)


def add_call(draft: TrajectoryDraft, call: Any) -> None:
    """Add a call in OpenAI's form, or in the flat form of Inspect and ATIF."""
    if not isinstance(call, Mapping):
        raise UnreadableRow("A tool call is not an object.")
    inner = call.get("function")
    function = inner if isinstance(inner, Mapping) else {**call, "name": inner or call.get("function_name")}
    if function is inner:
        draft.lose_fields(call, OUTER_CALL, "calls")
        draft.lose_fields(function, INNER_CALL, "calls")
    else:
        draft.lose_fields(call, FLAT_CALL, "calls")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise UnreadableRow("A tool call has no name.")
    call_id = draft.line(call.get("id") or call.get("tool_call_id"), "ids of calls")
    step = draft.add("tool_call", name=function["name"], turn=draft.turn, call_id=call_id)
    step["arguments"] = arguments_of(function.get("arguments"), draft)
    draft.unanswered.add(_id_of(call.get("id") or call.get("tool_call_id")), step, draft.turn)


def arguments_of(arguments: Any, draft: TrajectoryDraft) -> dict[str, Any]:
    """Return arguments as an object; a text that is not one is stored under a fixed name."""
    # OpenAI's arguments are JSON in a text, which a model wrote: it can be invalid.
    if isinstance(arguments, str):
        try:
            # Models write halves of surrogate pairs, which strict UTF-8 would refuse.
            arguments, is_repeating = (
                doubled.parse(arguments.encode("utf-8", "surrogatepass")) if arguments.strip() else ({}, False)
            )
            draft.lose(doubled.LOST, doubled.dropped_in(arguments) if is_repeating else 0)
        except BadJson:
            draft.lose("arguments that are not a JSON object (kept as text)")
            return {"_text": arguments}
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        draft.lose("arguments that are not a JSON object (kept as text)")
        return {"_text": json.dumps(arguments)}
    return arguments


def add_result(draft: TrajectoryDraft, message: Mapping[str, Any], text: str, *, own_errors: bool = False) -> None:
    """Add a result to its call; a result of no known call becomes a message and is counted."""
    step = draft.unanswered.take(_id_of(message.get("tool_call_id")), _name_of(message), draft.turn)
    if step is None:
        draft.add("message", role="tool", content=text)
        draft.lose("results without a call (kept as messages)")
        draft.lose_fields(message, SAID, "messages")
        return
    error = message.get("error")
    fields = RESULT | {one for one in ("name", "function") if message.get(one) == step["name"]}
    if own_errors and text.startswith(ERROR):
        step["error"] = text.removeprefix(ERROR)
    elif isinstance(error, Mapping) or isinstance(error, str) and error:
        step["error"] = str(error.get("message", "")) if isinstance(error, Mapping) else error
        draft.lose_fields(error if isinstance(error, Mapping) else {}, {"message"}, "errors")
        fields |= {"error"}
        if text and text != step["error"]:
            step["meta"] = {"result_beside_error": text}
    else:
        step["result"] = text
    draft.lose_fields(message, fields, "messages")


def _name_of(result: Mapping[str, Any]) -> str:
    return next((result[one] for one in ("name", "function") if isinstance(result.get(one), str)), "")


def _id_of(raw: Any) -> str:
    """Return the ID of a call as the file writes it, or ""; a recorded one can be shorter."""
    return str(raw) if isinstance(raw, str | int) and not isinstance(raw, bool) else ""


def settle(draft: TrajectoryDraft) -> None:
    """Count the calls without a result; they stay as steps without one."""
    draft.lose("calls without a result (kept)", len(draft.unanswered))
    draft.unanswered = OpenCalls()
