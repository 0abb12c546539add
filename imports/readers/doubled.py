"""JSON of a file, and how often an object repeats a name. The last value of a name is kept. Pure."""

from __future__ import annotations

import json
from typing import Any

import orjson

from people.text.json_text import VALUES_MAX, parse_json

LOST = "values of a name that an object has again (the last is kept)"


class _Repeating(dict[str, Any]):
    """An object that repeats names, and how many values that dropped."""

    dropped = 0


def parse(raw: bytes, most: int = VALUES_MAX) -> tuple[Any, bool]:
    """Return the value, and whether one of its objects repeats a name. Raises `BadJson`."""
    value = parse_json(raw, most)
    if _has_all_of(raw, value):
        return value, False
    # Only pairs show what a dict has dropped. This parser is slower, and few rows need it.
    return json.loads(raw.decode("utf-8", "surrogatepass"), object_pairs_hook=_object), True


def _has_all_of(raw: bytes, value: Any) -> bool:
    """Return whether a value surely has every name of its text.

    Both have the same number of quotation marks then. Counting them costs much less than a look at every object.
    """
    # Written out again, this escape has a quotation mark, which could make up for those of a dropped name.
    if b"\\u0022" in raw:
        return False
    try:
        return raw.count(b'"') == orjson.dumps(value).count(b'"')
    except TypeError:  # a long number, or half a pair of surrogates
        return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeating = _Repeating(value)
    repeating.dropped = len(pairs) - len(value)
    return repeating


def dropped_in(value: Any) -> int:
    """Return the number of values that objects inside a parsed value dropped."""
    count, waiting = 0, [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            count += node.dropped if isinstance(node, _Repeating) else 0
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return count
