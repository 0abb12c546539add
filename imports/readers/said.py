"""Messages of a model's span, whichever convention wrote them: attributes -> `SpanMessage`. Pure.

Knows OpenTelemetry's GenAI conventions (attributes, also on events), OpenInference, and OpenLLMetry's numbered prompts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from awmclient.nouns.pictures import STEP_PICTURES
from awmclient.words.conversation import as_text
from awmclient.words.pictures import picture_at
from imports.readers.found import EMPTY, TrajectoryDraft
from imports.readers.messages import ROLES, Content, arguments_of
from people.errors import BadJson
from people.text.json_text import parse_json

DOTS_MAX = 24
"""Dots in a name that is read as a path: no convention has more than twelve, and each makes an object."""
DIGITS = frozenset("0123456789")
THOUGHT_TYPES = ("reasoning", "thinking", "redacted_thinking")
ROLE_WORDS = frozenset({"system", "user", "assistant", "tool"})
GEN_AI = {
    "input": ("gen_ai.input.messages", "gen_ai.prompt"),
    "output": ("gen_ai.output.messages", "gen_ai.completion"),
}
SYSTEM = "gen_ai.system_instructions"
OPEN_INFERENCE = {"input": "llm.input_messages", "output": "llm.output_messages"}
EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE = "gen_ai.choice"
DETAILS = ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")
"""Events whose attributes could be those of their span."""
TOOLS = ("gen_ai.tool.definitions", "llm.tools", "llm.request.functions")


@dataclass
class SpanCall:
    """A call that a model decided on. Without `has_arguments` its message does not say with which arguments."""

    id: str
    name: str
    arguments: dict[str, Any]
    has_arguments: bool = True


@dataclass
class SpanMessage:
    """One message. `results` are pairs of a call's ID and what the model read of it: a text, or parts with pictures.
    `others` are parts without text, as they came."""

    role: str
    text: str = ""
    thought: dict[str, Any] | None = None
    calls: list[SpanCall] = field(default_factory=list)
    results: list[tuple[str, Any]] = field(default_factory=list)
    pictures: list[dict[str, Any]] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)

    @cached_property
    def key(self) -> str:
        """What is the same in a repeated message, so that a history adds nothing."""
        calls = [(one.name, one.arguments) for one in self.calls]
        return json.dumps(
            [self.role, self.text.strip(), calls, self.results, self.pictures, self.others], sort_keys=True
        )

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.thought or self.calls or self.results or self.pictures or self.others)


class MessageReader:
    """Reads the messages of one span, and remembers which of its attributes they were in."""

    def __init__(
        self, attributes: Mapping[str, Any], events: Sequence[Mapping[str, Any]], draft: TrajectoryDraft
    ) -> None:
        self._draft = draft
        self._events = events
        self.attributes = {**attributes}
        """Those of the span, and of its events that could be."""
        self.known: set[str] = set()
        """The attributes that were read."""
        for event in events:
            if event["name"] in DETAILS:
                self.attributes.update(event["attributes"])

    def input(self) -> list[SpanMessage]:
        """Return what the model was given, its instructions first."""
        messages = []
        if instructions := self._list(SYSTEM):
            messages.append(self._of_parts("system", instructions))
        messages += self._messages("input")
        for event in self._events:
            if role := EVENTS.get(event["name"]):
                messages.append(self._of_flat({"role": role, **event["attributes"]}))
        return [one for one in messages if not one.is_empty]

    def output(self) -> list[SpanMessage]:
        messages = self._messages("output")
        for event in self._events:
            if event["name"] == CHOICE:
                message = parsed(event["attributes"].get("message"))
                flat = message if isinstance(message, Mapping) else event["attributes"]
                messages.append(self._of_flat({"role": "assistant", **flat}))
        return [one for one in messages if not one.is_empty]

    def tools(self) -> list[Any]:
        """Return the definitions of the tools that the model was offered."""
        tools = list(self._list(TOOLS[0]))
        for definition in self._numbered(TOOLS[1]):
            inner = definition.get("tool")
            tools.append(parsed(inner.get("json_schema")) if isinstance(inner, Mapping) else None)
        for definition in self._numbered(TOOLS[2]):
            tools.append({**definition, "parameters": parsed(definition.get("parameters"))})
        return [one for one in tools if isinstance(one, Mapping)]

    def _messages(self, side: str) -> list[SpanMessage]:
        structured, numbered = GEN_AI[side]
        messages = []
        for message in self._list(structured):
            if not isinstance(message, Mapping):
                self._draft.lose("messages that are not objects")
            elif isinstance(message.get("parts"), list):
                messages.append(self._of_parts(message.get("role"), message["parts"]))
            else:
                messages.append(self._of_flat(message))
        for message in self._numbered(OPEN_INFERENCE[side]):
            inner = message.get("message")
            messages.append(self._of_open_inference(inner if isinstance(inner, Mapping) else message))
        if not messages:
            messages += [self._of_flat(one) for one in self._numbered(numbered)]
        return messages

    def _list(self, name: str) -> list[Any]:
        """Return an attribute that is a list, also one written as JSON text."""
        value = parsed(self.attributes.get(name))
        if value in EMPTY:
            return []
        self.known.add(name)
        if isinstance(value, list):
            return value
        return [{"type": "text", "content": value}] if name == SYSTEM and isinstance(value, str) else []

    def _numbered(self, prefix: str) -> list[Mapping[str, Any]]:
        """Return the objects that attributes spell out as `prefix.0.name`, in the order of their numbers."""
        start = f"{prefix}."
        names = [
            name
            for name in self.attributes
            if name.startswith(start) and name[len(start) : len(start) + 1] in DIGITS and name.count(".") <= DOTS_MAX
        ]
        if not names:
            return []
        self.known.update(names)
        tree: dict[str, Any] = {}
        for name in names:
            here = tree
            *path, last = name[len(start) :].split(".")
            for part in path:
                inner = here.get(part)
                if not isinstance(inner, dict):
                    inner = here[part] = {}
                here = inner
            here[last] = self.attributes[name]
        return [one for one in _ordered(tree) if isinstance(one, Mapping)]

    def _of_parts(self, role: Any, parts: Sequence[Any]) -> SpanMessage:
        """Read a message of the GenAI conventions."""
        span_message, thoughts = SpanMessage(self._role(role)), []
        texts = []
        for part in parts:
            kind = part.get("type") if isinstance(part, Mapping) else "text"
            if isinstance(part, str):
                texts.append(part)
            elif not isinstance(part, Mapping):
                span_message.others.append(part)
            elif kind == "text":
                texts.append(_first_text(part, "content", "text"))
            elif kind in THOUGHT_TYPES:
                thoughts.append(part)
            elif kind == "tool_call":
                span_message.calls.append(self._call(part.get("id"), part.get("name"), part.get("arguments")))
            elif kind == "tool_call_response":
                # null is a result; without either field the part says nothing of one
                name = next((one for one in ("response", "result") if one in part), None)
                came = _as_read(self._draft, part[name]) if name else ""
                span_message.results += [(_id(part.get("id")), came)] if name else []
            else:
                self._see(span_message, part)
        span_message.text = "".join(texts)
        if thoughts:
            text = "".join(_first_text(one, "content", "text", "thinking", "reasoning") for one in thoughts)
            span_message.thought = {"text": text, "form": "parts", "parts": [dict(one) for one in thoughts]}
        return self._counted(span_message)

    def _of_open_inference(self, message: Mapping[str, Any]) -> SpanMessage:
        span_message = SpanMessage(self._role(message.get("role")))
        texts, thoughts = [_first_text(message, "content")], []
        for wrapper in _ordered(message.get("contents")):
            part = wrapper.get("message_content") if isinstance(wrapper, Mapping) else None
            if not isinstance(part, Mapping):
                span_message.others.append(wrapper)
            elif part.get("type") in THOUGHT_TYPES:
                thoughts.append(_first_text(part, "text", "reasoning", "thinking"))
            elif isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                self._see(span_message, dict(part))
        span_message.text = "".join(texts)
        for wrapper in _ordered(message.get("tool_calls")):
            call = wrapper.get("tool_call") if isinstance(wrapper, Mapping) else None
            if isinstance(call, Mapping):
                inner = call.get("function")
                function = inner if isinstance(inner, Mapping) else {}
                span_message.calls.append(self._call(call.get("id"), function.get("name"), function.get("arguments")))
        if message.get("function_call_name"):
            span_message.calls.append(
                self._call("", message["function_call_name"], message.get("function_call_arguments_json"))
            )
        if thoughts:
            span_message.thought = {"text": "".join(thoughts), "form": "field"}
        return self._counted(self._as_result(span_message, message.get("tool_call_id")))

    def _of_flat(self, message: Mapping[str, Any]) -> SpanMessage:
        """Read a message as OpenAI's chat has it, with names spelled out or not."""
        content = parsed(message.get("content")) if isinstance(message.get("content"), list) else message.get("content")
        if isinstance(content, list):
            span_message = self._of_parts(message.get("role"), content)
        else:
            span_message = SpanMessage(
                self._role(message.get("role")), text="" if content is None else as_text(content)
            )
        thought = _first_text(message, "reasoning_content", "reasoning")
        if thought:
            span_message.thought = {"text": thought, "form": "field"}
        calls = parsed(message.get("tool_calls"))
        for call in calls if isinstance(calls, list) else _ordered(calls):
            if isinstance(call, Mapping):
                inner = call.get("function")
                function = inner if isinstance(inner, Mapping) else call
                span_message.calls.append(self._call(call.get("id"), function.get("name"), function.get("arguments")))
        return self._as_result(span_message, message.get("tool_call_id") or message.get("id"))

    def _as_result(self, span_message: SpanMessage, call_id: Any) -> SpanMessage:
        if span_message.role == "tool" and not span_message.results:
            came = Content(span_message.text, span_message.pictures).result
            span_message.results, span_message.text, span_message.pictures = [(_id(call_id), came)], "", []
        return span_message

    def _see(self, span_message: SpanMessage, part: Mapping[str, Any]) -> None:
        """Add a part that is no text: a picture as one, anything else as it came."""
        data = self._draft.picture(part) or _picture_of(part)
        picture = self._draft.pictures.part_of(data) if data is not None else None
        if picture is None:
            span_message.others.append(part)
        else:
            span_message.pictures.append(picture)

    def _counted(self, span_message: SpanMessage) -> SpanMessage:
        self._draft.lose("parts of messages that are not text (kept in meta)", len(span_message.others))
        self._draft.lose("pictures of a message after the first 20", max(0, len(span_message.pictures) - STEP_PICTURES))
        del span_message.pictures[STEP_PICTURES:]
        return span_message

    def _role(self, raw: Any) -> str:
        role = ROLES.get(raw, raw) if isinstance(raw, str) else "user"
        if role not in ROLE_WORDS:
            self._draft.lose(f"role {str(role)[:40]} (kept as user)")
            return "user"
        return str(role)

    def _call(self, call_id: Any, name: Any, arguments: Any) -> SpanCall:
        tool_name = name if isinstance(name, str) and name else "unnamed"
        self._draft.lose("calls without a name", int(tool_name != name))
        return SpanCall(_id(call_id), tool_name, arguments_of(arguments, self._draft), arguments not in (None, ""))


def _id(raw: Any) -> str:
    return str(raw) if isinstance(raw, str | int) and not isinstance(raw, bool) else ""


def _as_read(draft: TrajectoryDraft, came: Any) -> Any:
    """Return a result as a model reads it: a text, or what came with a part in the place of each picture."""
    pictured = with_pictures(draft, came)
    return as_text(came) if pictured is came else pictured


def with_pictures(draft: TrajectoryDraft, came: Any) -> Any:
    """Return what a call returned, also as JSON text, with a part in the place of each picture in it. Without one it
    stays as it came."""
    value = parsed(came)
    pictured = draft.with_parts(value)
    return came if pictured == value else pictured


def _picture_of(part: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of a picture in the form of the GenAI conventions, or of OpenInference."""
    media_type, content = part.get("mime_type"), part.get("content")
    address, inner = part.get("uri"), part.get("image")
    if part.get("type") == "blob" and isinstance(content, str):
        address = f"data:{media_type};base64,{content}"
    elif isinstance(inner, Mapping) and isinstance(inner.get("image"), Mapping):
        address = inner["image"].get("url")
    return picture_at(address) if isinstance(address, str) else None


def _first_text(fields: Mapping[str, Any], *names: str) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def _ordered(raw: Any) -> list[Any]:
    """Return the values of an object whose names are numbers, in their order."""
    if isinstance(raw, list):
        return raw
    if not isinstance(raw, Mapping):
        return []
    # nine digits are more than any list has; converting thousands would take quadratic time
    numbers = [one for one in raw if one and set(one) <= DIGITS]
    return [raw[name] for name in sorted(numbers, key=lambda number: int(number[:9]))]


def parsed(value: Any) -> Any:
    """Return a value that can be written as JSON text; other texts stay as they are."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return parse_json(value.encode("utf-8", "surrogatepass"))
        except BadJson:
            return value
    return value
