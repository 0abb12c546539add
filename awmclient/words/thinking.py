"""What a model thought before its message: read from an endpoint's message, and put back as the endpoint wants it.

Pure. The record keeps it beside the content of the assistant's message (`schema.Reasoning`), so that every endpoint,
template and format can have it in its own form. Called by `chat.py` and `conversation.py`, by exports and importers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from awmclient.nouns.steps import REASONING_MAX

ReasoningMode = Literal["none", "all", "last_turn"]
"""What is sent back: nothing, all of it, or what was thought since the last message of the user, as most templates
read it."""
ReasoningField = Literal["", "reasoning_content", "reasoning", "reasoning_details", "parts", "tags"]
"""Where it is sent: as it came (``""``), in a field of this name, in parts of the content, or in `<think>` tags."""
MODES, FIELDS = get_args(ReasoningMode), get_args(ReasoningField)
_TEXT_FIELDS = ("reasoning_content", "reasoning")
_DETAILS = "reasoning_details"
_PART_TEXTS = ("thinking", "reasoning", "text", "summary")
PART_TYPES = ("thinking", "redacted_thinking", "reasoning")
"""Types of parts of a content that hold reasoning."""
_OPEN, _CLOSE = "<think>", "</think>"
_BLANKS = re.compile(r"\s*")
_ANSWERS = ("{", "[", "```", "<tool_call>")
"""How an answer begins that is no thought: a tag in it is one of its words."""
# The start can be missing: templates of some models put it into the prompt.
_TAGGED = re.compile(r"\s*(?:<think>)?(.*?)</think>\n*", re.DOTALL)


def read_reasoning(message: Mapping[str, Any], *, tags: bool = False) -> tuple[str, dict[str, Any] | None]:
    """Return the text that an assistant's message says, and the reasoning beside it, or None.

    `tags` says that this endpoint writes `<think>…</think>` in its text, which is never guessed: a model may well write
    about such a tag.
    """
    content, thoughts = _parts_of(message.get("content"))
    if thoughts:
        return content, _reasoning(_joined(thoughts), "parts", parts=thoughts)
    details = message.get(_DETAILS)
    if isinstance(details, list) and details:
        summary = next((message[name] for name in _TEXT_FIELDS if _is_text(message.get(name))), None)
        parts = [dict(one) for one in details if isinstance(one, Mapping)]
        return content, _reasoning(summary or _joined(parts), "field", name=_DETAILS, parts=parts)
    for name in _TEXT_FIELDS:
        if _is_text(message.get(name)):
            return content, _reasoning(message[name], "field", name=name)
    if tags and not _is_answer(content) and _CLOSE in content and (match := _TAGGED.match(content)):
        return content[match.end() :], _reasoning(match[1], "tags") if match[1].strip() else None
    return content, None


def behind_thoughts(text: str) -> str:
    """Return what a text says behind the thoughts that it begins with, also where no setting names its tags.

    A thought without an end goes to the end of the text. Its start can be missing, if no answer begins before its end.

    >>> behind_thoughts('<think>Perhaps {"move": 1}?</think>{"move": 2}'), behind_thoughts("Hm.</think>Yes.")
    ('{"move": 2}', 'Yes.')
    """
    place = _BLANKS.match(text).end()  # type: ignore[union-attr]
    while text.startswith(_OPEN, place):  # by place: a copy of the rest for each thought would take quadratic time
        end = text.find(_CLOSE, place)
        place = len(text) if end < 0 else _BLANKS.match(text, end + len(_CLOSE)).end()  # type: ignore[union-attr]
    words = text[place:]
    thought, closed, rest = words.partition(_CLOSE)
    is_open = closed and _OPEN not in thought and not _is_answer(words)
    return rest.lstrip() if is_open else words


def _is_answer(text: str) -> bool:
    return text.lstrip().startswith(_ANSWERS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _parts_of(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a content and its parts of reasoning."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else "", []
    parts = [part for part in content if isinstance(part, Mapping)]
    thoughts = [dict(part) for part in parts if part.get("type") in PART_TYPES]
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    return "".join(texts), thoughts


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the words of parts. Encrypted ones have none."""
    return "".join(next((part[name] for name in _PART_TEXTS if _is_text(part.get(name))), "") for part in parts)


def _reasoning(text: str, form: str, **more: Any) -> dict[str, Any]:
    """Return the fields of `schema.Reasoning`. A text above the limit is cut, and then its parts are of no more use."""
    if len(text) > REASONING_MAX:
        text = f"{text[:REASONING_MAX]} [cut: {len(text)} characters]"
        more.pop("parts", None)
    return {"text": text, "form": form, **more}


def reasoning_of(step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reasoning of a step, also of one recorded before it had a field of its own."""
    reasoning = step.get("reasoning")
    if isinstance(reasoning, Mapping):
        return reasoning
    meta = step.get("meta")
    text = meta.get("reasoning") if isinstance(meta, Mapping) else None
    return {"text": text, "form": "field"} if _is_text(text) else None


def first_sent(messages: Sequence[Mapping[str, Any]], mode: ReasoningMode) -> int:
    """Return the place from which on messages are sent with their reasoning."""
    if mode == "all":
        return 0
    if mode == "none":
        return len(messages)
    # what was thought before the last message of the user is no more of use, as chat templates see it
    return max((place for place, one in enumerate(messages) if one["role"] == "user"), default=0)


def with_reasoning(message: Mapping[str, Any], reasoning: Mapping[str, Any], field: str = "") -> dict[str, Any]:
    """Return an assistant's message with its reasoning where an endpoint reads it (`ReasoningField`)."""
    text, parts = str(reasoning["text"]), reasoning.get("parts")
    where = field or {"tags": "tags", "parts": "parts"}.get(str(reasoning["form"])) or reasoning.get("name")
    content = message["content"]
    if where == "tags":
        return {**message, "content": f"<think>{text}{_CLOSE}\n\n{content}"}
    if where == "parts":
        thoughts = parts if reasoning["form"] == "parts" and parts else [{"type": "thinking", "thinking": text}]
        return {**message, "content": [*thoughts, *([{"type": "text", "text": content}] if content else [])]}
    if where == _DETAILS:
        # As they came, because some providers check a signature in them.
        details = parts if reasoning.get("name") == _DETAILS and parts else [{"type": "reasoning.text", "text": text}]
        return {**message, _DETAILS: details}
    return {**message, where or _TEXT_FIELDS[0]: text}
