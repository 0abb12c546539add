"""Chat messages as steps: the inverse of `awmclient.conversation`. Pure.

The calls of an assistant message become steps of its turn, each with its result from a later message. Texts of results
are unchanged, so that the conversation that is made of the steps equals the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.nouns.pictures import STEP_PICTURES
from awmclient.words.thinking import PART_TYPES, read_reasoning
from imports.readers import doubled
from imports.readers.found import UNREADABLE_PICTURES, TrajectoryDraft, UnreadableRow
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


@dataclass(frozen=True)
class Content:
    """What a message or a result has: its text, and the parts of its pictures."""

    text: str = ""
    pictures: Sequence[dict[str, Any]] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.pictures)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a message with it."""
        return {"content": self.text, "pictures": list(self.pictures) or None}

    @property
    def result(self) -> Any:
        """The result of a call with it: a text, or a list of parts if it has pictures."""
        words = [{"type": "text", "text": self.text}] if self.text else []
        return [*words, *self.pictures] if self.pictures else self.text


def add_messages(draft: TrajectoryDraft, messages: Sequence[Any], *, own_errors: bool = False) -> None:
    """Add every message. With `own_errors`, `Error: …` in a result is an error, as awmweb writes it."""
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise UnreadableRow(f"Message {number} is not an object with a role.")
        role = str(ROLES.get(message["role"], message["role"]))
        content = content_of(message.get("content"), draft, thoughts=role == "assistant")
        if role == "assistant":
            _add_turn(draft, message, content, number)
        elif role == "tool":
            add_result(draft, message, content, own_errors=own_errors)
        elif role in ("system", "user"):
            draft.add("message", role=role, **content.fields)
            draft.lose_fields(message, SAID, "messages")
        else:
            raise UnreadableRow(f"Message {number} has the unknown role {role[:40]!r}.")
    settle(draft)


def content_of(content: Any, draft: TrajectoryDraft, *, thoughts: bool = False) -> Content:
    """Return the text and the pictures of a content, which can have parts; other parts count as lost, but for
    `thoughts`, which the caller reads.

    Texts of parts are joined without a character that their maker did not write.
    """
    if content is None:
        return Content()
    if isinstance(content, str):
        return Content(content)
    if not isinstance(content, list):
        raise UnreadableRow("The content of a message is neither text nor a list of parts.")
    texts, pictures = list[str](), list[dict[str, Any]]()
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif thoughts and isinstance(part, Mapping) and part.get("type") in PART_TYPES:
            continue
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
            draft.lose_fields(part, PART, "parts of messages")
        elif isinstance(part, Mapping) and (picture := draft.named_picture(part)) is not None:
            pictures.append(picture)
        elif isinstance(part, Mapping) and (data := draft.picture(part)) is not None:
            pictures += _readable(draft, data)
        else:
            draft.lose("parts of messages that are not text")
    draft.lose("borders of text parts (their texts are joined)", max(0, len(texts) - 1))
    draft.lose("pictures of a message after the first 20", max(0, len(pictures) - STEP_PICTURES))
    return Content("".join(texts), pictures[:STEP_PICTURES])


def _readable(draft: TrajectoryDraft, data: bytes) -> list[dict[str, Any]]:
    part = draft.pictures.part_of(data)
    draft.lose(UNREADABLE_PICTURES, int(part is None))
    return [] if part is None else [part]


def _add_turn(draft: TrajectoryDraft, message: Mapping[str, Any], content: Content, number: int) -> None:
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
    if content or thought or not calls:
        draft.add("message", role="assistant", **content.fields, reasoning=thought, turn=draft.turn)
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


def add_result(
    draft: TrajectoryDraft, message: Mapping[str, Any], content: Content, *, own_errors: bool = False
) -> None:
    """Add a result to its call; a result of no known call becomes a message and is counted."""
    text = content.text
    step = draft.unanswered.take(_id_of(message.get("tool_call_id")), _name_of(message), draft.turn)
    if step is None:
        draft.add("message", role="tool", **content.fields)
        draft.lose("results without a call (kept as messages)")
        draft.lose_fields(message, SAID, "messages")
        return
    error = message.get("error")
    fields = RESULT | {one for one in ("name", "function") if message.get(one) == step["name"]}
    if own_errors and text.startswith(ERROR):
        fail(draft, step, Content(text.removeprefix(ERROR), content.pictures))
    elif isinstance(error, Mapping) or isinstance(error, str) and error:
        words = str(error.get("message", "")) if isinstance(error, Mapping) else error
        fail(draft, step, Content(words, content.pictures))
        draft.lose_fields(error if isinstance(error, Mapping) else {}, {"message"}, "errors")
        fields |= {"error"}
        if text and text != step["error"]:
            step["meta"] = {"result_beside_error": text}
    else:
        step["result"] = content.result
    draft.lose_fields(message, fields, "messages")


def fail(draft: TrajectoryDraft, step: dict[str, Any], content: Content) -> None:
    """Add to a call that it failed. An error is a text: its pictures count as lost."""
    draft.lose("pictures of errors", len(content.pictures))
    step["error"] = content.text


def _name_of(result: Mapping[str, Any]) -> str:
    return next((result[one] for one in ("name", "function") if isinstance(result.get(one), str)), "")


def _id_of(raw: Any) -> str:
    """Return the ID of a call as the file writes it, or ""; a recorded one can be shorter."""
    return str(raw) if isinstance(raw, str | int) and not isinstance(raw, bool) else ""


def settle(draft: TrajectoryDraft) -> None:
    """Count the calls without a result; they stay as steps without one."""
    draft.lose("calls without a result (kept)", len(draft.unanswered))
    draft.unanswered = OpenCalls()
