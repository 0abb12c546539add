"""Parses tool calls: native ones, and calls inside the text of an advice.

Pure; leaves executing to the loop, and calls in an agent's words to `textcalls.py`. Unreadable calls raise
`MalformedCall`, whose message is for the agent. The text is untrusted: nothing is evaluated, every scan is bounded.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awmclient.errors import MalformedCall
from awmclient.nouns.fields import LEVELS, too_large
from awmclient.nouns.values import ASK_TOOL, CONTROL_TOOLS

WRAPPER = "call_tool"
"""Some prompts wrap every call: `{"name": "call_tool", "arguments": {"tool_name": ..., "arguments": "{...}"}}`."""
MAX_CALLS = 64
_LONGEST_CALL = 4000
_AROUND = 8
"""Levels of a step around the arguments of a call."""

_FENCE = re.compile(r"```(?:json|tool_call)?[ \t]*\r?\n(.*?)```", re.DOTALL)
# Not inside a longer name, and no method: `order.close(` is no tool.
_WRITTEN = re.compile(r"(?<![\w.])([A-Za-z_]\w{0,199})\(")
_JSON_NAMES: dict[str, Any] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Call:
    """One call that the agent wants to make. `call_id` is the policy's own ID of it, if it has one."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str | None = None


def id_of(call: Call) -> dict[str, str]:
    """Return the policy's own ID of a call, if it can be recorded."""
    # An ID that no column can hold is left out; the conversation then makes up one.
    fits = call.call_id and len(call.call_id) <= 200 and call.call_id.isascii() and call.call_id.isprintable()
    return {"call_id": call.call_id} if call.call_id and fits else {}


def unknown_tool(name: str) -> str:
    """Return the error of an unknown tool; the environment server returns the same text."""
    return f"Unknown tool: {name}"


def is_reserved(name: str) -> bool:
    """Return whether a name, in any spelling, is a control tool or the loop's own.

    These never reach an environment.
    """
    # In any spelling, because an environment can be less strict about names.
    plain = name.strip().casefold()
    return plain in CONTROL_TOOLS or plain == ASK_TOOL


def calls_of(message: Mapping[str, Any]) -> Sequence[Any]:
    """Return the `tool_calls` of an assistant message as its server sent them; none if they are no list."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def native_calls(tool_calls: Sequence[Any]) -> list[Call]:
    """Return the `tool_calls` of an OpenAI assistant message.

    >>> native_calls([{"id": "c1", "type": "function", "function": {"name": "get_item", "arguments": "{\\"item\\":
    \\"mug\\"}"}}]) [Call(name='get_item', arguments={'item': 'mug'}, call_id='c1')]
    """
    if len(tool_calls) > MAX_CALLS:
        raise MalformedCall(f"Too many tool calls in one turn: at most {MAX_CALLS}.")
    return [_native(call) for call in tool_calls]


def _native(call: Any) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise MalformedCall("The tool call names no function.")
    name, call_id = function["name"], call.get("id")
    plain = Call(name, _arguments(name, function.get("arguments")), call_id if isinstance(call_id, str) else None)
    return _unwrapped(plain)


def as_written(tool_calls: Sequence[Any]) -> str:
    """Return calls that are not made as text, with their arguments as the model wrote them, valid or not.

    >>> as_written([{"function": {"name": "get_item", "arguments": '{"item": "mu'}}])
    '{"name": "get_item", "arguments": {"item": "mu}'
    """
    functions = [call.get("function") for call in tool_calls[:MAX_CALLS] if isinstance(call, Mapping)]
    return "\n".join(_as_text(function) for function in functions if isinstance(function, Mapping))


def _as_text(function: Mapping[str, Any]) -> str:
    name, arguments = function.get("name"), function.get("arguments")
    wrote = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {wrote}}}'


def call_from(value: Any) -> Call:
    """Return the call of a JSON object with `name`, and `arguments` or `parameters`. Raises `MalformedCall`."""
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise MalformedCall('A tool call is a JSON object with "name" and "arguments".')
    name = value["name"]
    # `parameters` is the name in OpenAI's tool schemas, which some models repeat.
    return _unwrapped(Call(name, _arguments(name, value.get("arguments", value.get("parameters")))))


def _unwrapped(call: Call) -> Call:
    inner = call.arguments.get("tool_name")
    if call.name != WRAPPER or not isinstance(inner, str):
        return call
    return Call(inner, _arguments(inner, call.arguments.get("arguments")), call.call_id)


def _arguments(name: str, value: Any) -> dict[str, Any]:
    """Parse an object, or its JSON text; no value means no arguments."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        value = _loads(value, f"The text of the arguments of {name}")
    else:
        _refuse_unrecordable(value, f"The arguments of {name}")
    if not isinstance(value, dict):
        raise MalformedCall(f"The arguments of {name} are not a JSON object.")
    return value


def _refuse_unrecordable(value: Any, what: str) -> None:
    """Raise for a JSON value that no step can record: it is the model's doing, as is what cannot be read."""
    if too_large(value, sys.maxsize, LEVELS - _AROUND, sys.maxsize):
        raise MalformedCall(f"{what} is nested too deeply.")
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise MalformedCall(f"{what} is not valid JSON: {error}") from None


def _loads(text: str, what: str) -> Any:
    value, end = json_at(text, len(text) - len(text.lstrip()), what)
    if text[end:].strip():
        raise MalformedCall(f"{what} is not valid JSON: more text follows at character {end}")
    return value


def json_at(text: str, place: int, what: str) -> tuple[Any, int]:
    """Return the JSON value at a place, and where it ends. Raises `MalformedCall`, which names `what` it is."""
    try:
        value, end = _READER.raw_decode(text, place)
    except RecursionError:
        raise MalformedCall(f"{what} is nested too deeply.") from None
    except ValueError as error:
        raise MalformedCall(f"{what} is not valid JSON: {error}") from None
    # what the record cannot hold is the model's doing, as is what cannot be read
    if too_large(value, sys.maxsize, LEVELS - _AROUND, sys.maxsize):
        raise MalformedCall(f"{what} is nested too deeply.")
    return value, end


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:60]} is out of range")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_READER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)


def advised_calls(text: str, names: Collection[str]) -> list[Call]:
    """Return the calls that an expert wrote into an advice: fenced JSON, or `name(key=value)` with literal values. Only
    tools in `names` count, and what cannot be read is words, not an error.

    >>> advised_calls("Do set_price(item='mug', price=9) now.", ["set_price"])
    [Call(name='set_price', arguments={'item': 'mug', 'price': 9}, call_id=None)]
    """
    fenced = [call for block in _FENCE.findall(text) for call in _calls_of_block(block)]
    # Fenced JSON decides alone: the words around it often name the same calls.
    calls = fenced or [call for match in _WRITTEN.finditer(text) if (call := _written(text, match, names)) is not None]
    return [call for call in calls if call.name in names][:MAX_CALLS]


def _calls_of_block(block: str) -> list[Call]:
    try:
        value = _loads(block, "")
        return [call_from(item) for item in (value if isinstance(value, list) else [value])]
    except MalformedCall:
        return []


def _written(text: str, match: re.Match[str], names: Collection[str]) -> Call | None:
    name = match[1]
    if name not in names:
        return None
    # At most this much is parsed, however long the text is.
    source = _balanced(text[match.start() : match.start() + _LONGEST_CALL])
    try:
        tree = ast.parse(source, mode="eval").body
        return _literal_call(tree) if isinstance(tree, ast.Call) else None
    # For deep nesting `ast.parse` raises the last two.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _balanced(text: str) -> str:
    """Return the text from the name to the bracket that closes its call; brackets inside quotes do not count."""
    depth, quote, escaped = 0, "", False
    for place, char in enumerate(text):
        if quote:
            if not escaped and char == quote:
                quote = ""
            escaped = char == "\\" and not escaped
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return text[: place + 1]
    return ""


def _literal_call(tree: ast.Call) -> Call | None:
    # Without its name a positional argument cannot be sent.
    if tree.args or not isinstance(tree.func, ast.Name) or any(keyword.arg is None for keyword in tree.keywords):
        return None
    return Call(tree.func.id, {str(keyword.arg): _literal(keyword.value) for keyword in tree.keywords})


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True)}
    value = ast.literal_eval(node)
    if not isinstance(value, str | int | float | None):
        raise ValueError("no JSON value")
    return value


def _key(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ValueError("keys are strings")
    return node.value
