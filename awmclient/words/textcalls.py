"""Tool calls that a model wrote into its words, where its server returned none.

Pure, and linear in the text. Only the words of an assistant's turn come here, never a result or an advice. What looks
like a call and is not taken raises `MalformedCall`, whose message is for the agent. The forms, in the order in which
they are looked for:

- `<tool_call>{json}</tool_call>`, anywhere (Hermes, Qwen)
- `<|python_tag|>{json}; {json}`, to the end of the text (Llama 3)
- `[TOOL_CALLS][{json}]` or `[TOOL_CALLS]name{json}`, to the end of the text (Mistral)
- JSON that is the whole text, alone or in fences, if every object in it calls a tool that is offered

Thinking is skipped. JSON with other words around it is an example, not a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from awmclient.errors import MalformedCall
from awmclient.words.toolcalls import MAX_CALLS, Call, call_from, json_at, unknown_tool

_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
CALL_MARK, _CLOSE = "<tool_call>", "</tool_call>"
_PYTHON, _MISTRAL = "<|python_tag|>", "[TOOL_CALLS]"
CALL_MARKS = (CALL_MARK, _PYTHON, _MISTRAL)
_ENDS = ("<|eom_id|>", "<|eot_id|>", "</s>")
_FENCE = "```"
_OPENINGS = re.compile(
    r"<think>|<tool_call>|<\|python_tag\|>|\[TOOL_CALLS\]\s*[\w.-]*|```(?:json|tool_call|tool_code)?"
)
"""Where a thought begins, or a call, in which such a tag is part of an argument."""
_INFO = re.compile(r"\s*(?:json|tool_call|tool_code)?\s*")
_BEGINS_LIKE_A_CALL = re.compile(r'[\[\s]*\{\s*"name"\s*:')
_LINE_LIKE_A_CALL = re.compile(r'^[ \t]*(\{\s*"name"\s*:)', re.MULTILINE)
_KEYS = frozenset({"name", "arguments", "parameters", "id", "type"})
_ONLY = "To call a tool, write nothing but the call."


@dataclass(frozen=True)
class _Piece:
    """The text of one call or of several, and its place with its marks."""

    text: str
    start: int
    end: int
    read: Callable[[str], list[Call]]


def text_calls(text: str, names: Collection[str] | None = None, results: Iterable[str] = ()) -> list[Call]:
    """Return the calls in a text. JSON without marks is read only if `names`, those of the offered tools, are known.

    `results` are what tools returned before: a call in one of them is a quotation.

    >>> text_calls('Now. <tool_call>{"name": "get_item", "arguments": {"item": "mug"}}</tool_call>')
    [Call(name='get_item', arguments={'item': 'mug'}, call_id=None)]
    >>> text_calls('{"name": "get_item", "parameters": {"item": "mug"}}', ["get_item"])
    [Call(name='get_item', arguments={'item': 'mug'}, call_id=None)]
    """
    visible = _visible(text)
    if pieces := _marked(visible):
        calls = [call for piece in pieces for call in piece.read(piece.text)]
        written = [piece.text.strip() for piece in pieces]
    else:
        calls, written = _bare(visible, frozenset(names)) if names is not None else ([], [])
    if len(calls) > MAX_CALLS:
        raise MalformedCall(f"Too many tool calls in one turn: at most {MAX_CALLS}.")
    if written and any(_is_quoted(result, written) for result in results):
        raise MalformedCall("A call that was copied from a tool's result was not made. Write the call yourself.")
    return calls


def words_beside(text: str) -> str:
    """Return a text without the calls that `text_calls` takes from it; all of it if it takes none.

    >>> words_beside('Now. <tool_call>{"name": "get_item"}</tool_call>')
    'Now.'
    """
    visible, kept, place = _visible(text), [], 0
    try:
        pieces = _marked(visible) or _as_a_whole(visible)
    except MalformedCall:
        return text
    for piece in pieces:
        kept.append(text[place : piece.start])
        place = piece.end
    return "".join([*kept, text[place:]]).strip() if pieces else text


def _visible(text: str) -> str:
    """Return the text with spaces in place of what the model thought, so that places stay the same.

    A tag inside the JSON of a call is part of an argument. A thought without an end goes to the end of the text: the
    model was cut off while it thought.
    """
    pieces, kept, is_first, calls = list[str](), 0, True, 0
    place = _behind_json(text, _next(text, 0))
    while opening := _OPENINGS.search(text, place):
        start, place = opening.start(), opening.end()
        is_first = is_first and not text[kept:start].strip()
        if opening[0] == _THOUGHT:
            end = text.find(_THOUGHT_ENDS, place)
            place = len(text) if end < 0 else end + len(_THOUGHT_ENDS)
            pieces += [text[kept:start], " " * (place - start)]
            kept = place
            place = _behind_json(text, _next(text, place)) if is_first else place
        elif (calls := calls + 1) <= MAX_CALLS:  # bounded: each that cannot be read is read to the end of the text
            place = _behind_json(text, _next(text, place))
    return "".join([*pieces, text[kept:]])


def _behind_json(text: str, place: int) -> int:
    """Return where the JSON values end that begin at a place; the place if there are none."""
    try:
        while text.startswith(("{", "["), place):
            place = _next(text, json_at(text, place, "")[1])
    except MalformedCall:
        return place
    return place


def _as_a_whole(visible: str) -> list[_Piece]:
    """Return the text as one piece if it can be JSON, alone or in fences."""
    start, end = len(visible) - len(visible.lstrip()), len(visible.rstrip())
    return [_Piece(visible[start:end], start, end, _calls)] if visible.startswith(("{", "[", _FENCE), start) else []


def _marked(visible: str) -> list[_Piece]:
    """Return the pieces of the first form with marks that the text has; empty if it has none."""
    if CALL_MARK in visible:
        return list(_blocks(visible))
    for mark, read in zip(CALL_MARKS[1:], (_calls, _of_mistral), strict=True):
        if mark in visible:
            return list(_to_the_end(visible, mark, read))
    return []


def _blocks(visible: str) -> Iterable[_Piece]:
    start = visible.find(CALL_MARK)
    while start >= 0:
        end = visible.find(_CLOSE, start)
        following = visible.find(CALL_MARK, start + len(CALL_MARK))
        if end < 0 or 0 <= following < end:
            raise MalformedCall(f"A {CALL_MARK} block is not closed with {_CLOSE}.")
        yield _Piece(visible[start + len(CALL_MARK) : end], start, end + len(_CLOSE), _calls)
        start = following


def _to_the_end(visible: str, mark: str, read: Callable[[str], list[Call]]) -> Iterable[_Piece]:
    whole = visible[: _end_of_words(visible)]
    start = whole.find(mark)
    while start >= 0:
        following = whole.find(mark, start + len(mark))
        yield _Piece(whole[start + len(mark) : following if following >= 0 else None], start, len(visible), read)
        start = following


def _end_of_words(visible: str) -> int:
    """Return where the signs that end a message begin. In front of its end the same signs can be in an argument."""
    end = len(visible)
    while end:
        sign = next((sign for sign in _ENDS if visible.endswith(sign, 0, end)), visible[end - 1])
        if sign not in _ENDS and not sign.isspace():
            break
        end -= len(sign)
    return end


def _calls(text: str) -> list[Call]:
    """Return the calls of JSON objects that follow each other, or are in a list."""
    objects = _objects(text)
    if not objects:
        raise MalformedCall('A tool call is a JSON object with "name" and "arguments".')
    return [call_from(value) for value in objects]


def _of_mistral(text: str) -> list[Call]:
    if text.lstrip()[:1] in ("[", "{"):
        return _calls(text)
    name, brace, rest = text.partition("{")
    name = name.partition("[")[0].strip()
    if not brace or not name:
        raise MalformedCall(f"No call follows {_MISTRAL}.")
    return [call_from({"name": name, "arguments": value}) for value in _objects(brace + rest)]


def _objects(text: str) -> list[Any]:
    """Return the JSON values of a text, divided by blanks or semicolons; those of a list one by one."""
    values: list[Any] = []
    place = _next(text, 0)
    while place < len(text):
        if len(values) > MAX_CALLS:
            raise MalformedCall(f"Too many tool calls in one turn: at most {MAX_CALLS}.")
        value, end = json_at(text, place, "The tool call")
        values += value if isinstance(value, list) else [value]
        place = _next(text, end)
    return values


def _next(text: str, place: int) -> int:
    while place < len(text) and (text[place].isspace() or text[place] == ";"):
        place += 1
    return place


def _bare(visible: str, names: Collection[str]) -> tuple[list[Call], list[str]]:
    """Return the calls of JSON that is the whole text, and its texts; nothing if it is something else."""
    text = visible.strip()
    parts = text.split(_FENCE)
    blocks = [part[_INFO.match(part).end() :].strip() for part in parts[1::2]]  # type: ignore[union-attr]
    if text[:1] in ("{", "["):
        blocks = [text]
    elif any(part.strip() for part in parts[::2]):
        _refuse_example([*blocks, *_first_object(text)], names)
        return [], []
    read = [(block, _shaped(block, names)) for block in blocks]
    objects = [value for _, values in read for value in values]
    calls = [call_from(value) for value in objects]
    for call in calls:
        if call.name not in names:
            raise MalformedCall(f"{unknown_tool(call.name)}. Nothing was called.")
    # a block without a call, such as an empty one, is in every result
    written = [json.dumps(value, ensure_ascii=False) for value in objects] + [block for block, values in read if values]
    return calls, written if calls else []


def _shaped(block: str, names: Collection[str]) -> list[Any]:
    """Return the objects of a block if all of them look like calls; empty if it is other JSON, or none."""
    if block[:1] not in ("{", "["):
        return []
    try:
        objects = _objects(block)
    except MalformedCall:
        if _BEGINS_LIKE_A_CALL.match(block) and ('"arguments"' in block or '"parameters"' in block):
            raise
        return []
    objects = [_inner(value) for value in objects]
    return objects if all(_looks_like_a_call(value, names) for value in objects) else []


def _inner(value: Any) -> Any:
    """Return the function of an object in the form of OpenAI's `tool_calls`; any other value as it is."""
    inner = value.get("function") if isinstance(value, Mapping) and value.get("type") == "function" else None
    return inner if isinstance(inner, Mapping) else value


def _looks_like_a_call(value: Any, names: Collection[str]) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value.keys() <= _KEYS:
        return False
    return value["name"] in names or "arguments" in value or "parameters" in value


def _refuse_example(blocks: Iterable[str], names: Collection[str]) -> None:
    """Raise for a call of an offered tool in fences between other words: it may be an example, and the agent knows."""
    for block in blocks:
        try:
            objects = _shaped(block, names)
        except MalformedCall:
            continue
        for value in objects:
            if value["name"] in names:
                raise MalformedCall(f"The call of {value['name']} between other words was not made. {_ONLY}")


def _first_object(text: str) -> list[str]:
    """Return the first JSON object that begins a line like a call; none if it has no end."""
    if (line := _LINE_LIKE_A_CALL.search(text)) is None:
        return []
    try:
        return [text[line.start(1) : json_at(text, line.start(1), "")[1]]]
    except MalformedCall:
        return []


def _is_quoted(result: str, written: Iterable[str]) -> bool:
    """Return whether a result holds the text of a call, plain or inside a JSON text."""
    return any(text in result or json.dumps(text, ensure_ascii=False)[1:-1] in result for text in written)
