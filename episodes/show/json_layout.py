"""JSON text of strangers: laid out in lines, its values as they were written, and read for its shape. Pure.

A text is never parsed as a whole and written again: that would change `10.10`, `1e400` and names that come twice.
Called by `step_cards.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from people.text.json_text import is_deep

# possessive quantifiers: a text without an end is not tried again from each of its characters
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_PAIRS = {"{": "}", "[": "]"}


class _Twice(ValueError):
    """A name that comes twice in one object."""


def laid_out(text: str, most: int) -> str:
    """Return the text of valid JSON, indented by two spaces a level and ended soon after `most` characters.

    Letters that are written as escapes become letters; nothing else is changed.
    """
    parts, size = [], 0
    for part in _lines(text):
        parts.append(part)
        size += len(part)
        if size > most:
            break
    return "".join(parts)


def _lines(text: str) -> Iterator[str]:
    depth, opened = 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if opened and token != _PAIRS[opened]:
            depth += 1
            yield "\n" + "  " * depth
        if token in ("}", "]") and not opened:
            depth = max(0, depth - 1)
            yield "\n" + "  " * depth
        opened = token if token in _PAIRS else ""
        yield json.dumps(json.loads(token), ensure_ascii=False) if "\\" in token else token
        if token == ",":
            yield "\n" + "  " * depth
        elif token == ":":
            yield " "


def shape_of(text: str) -> Any:
    """Return the value of a JSON text, its numbers as the text has them; the text itself if it is not JSON, nests too
    deeply, or has a name twice in one object."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_once)
    # nesting of thousands of brackets is valid JSON, and too deep for the parser
    except (ValueError, RecursionError):
        return text
    return text if is_deep(value) else value


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or list that nests no deeper than pages draw."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return not is_deep(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Twice
    return fields
