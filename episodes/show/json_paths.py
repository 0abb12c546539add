"""JSON paths within a step, such as `$.arguments.items[0].name`: how one is written, and the value that it names.

Pure, without Django. Called by `step_cards.py`, which writes the paths of its values, and by `reviews`, whose labels
refer to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

ROOT = "$"
LONGEST = 500
# no path has characters that pages show as codes (`people.text.plain_text`): they reverse a line, or no text column can
# hold them
_PART = re.compile(
    r"\.([A-Za-z_][\w-]*)|\[(\d{1,9})\]|"
    r"\[\"([^\"\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]{1,200})\"\]",
    re.ASCII,
)
_NOTHING = object()
_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class BadPath(ValueError):
    """A text that is not a path, or a path without a value. The message fits a refusal."""


def under(path: str, name: str | int) -> str:
    """Return the path of an object's field or a list's entry; "" for a name that no path can hold."""
    if isinstance(name, int):
        full_path = f"{path}[{name}]"
    else:
        full_path = f"{path}.{name}" if _NAME.fullmatch(name) else f'{path}["{name}"]'
    # matched from the new part on: what is before it was written by this function
    return full_path if path and len(full_path) <= LONGEST and _PART.fullmatch(full_path, len(path)) else ""


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path. Raises `BadPath` if there is none."""
    for part in parts_of(path):
        value = _inside(value, part)
        if value is _NOTHING:
            raise BadPath(f"This step has nothing at {path[:200]}.")
    return value


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(part, str):
        return value.get(part, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value[part] if isinstance(value, list) and part < len(value) else _NOTHING


def parts_of(path: str) -> Iterator[str | int]:
    at = len(ROOT)
    if not path.startswith(ROOT) or len(path) > LONGEST:
        raise BadPath("A path starts with $, such as $.arguments.status, and has at most 500 characters.")
    while at < len(path):
        match = _PART.match(path, at)
        if match is None:
            raise BadPath(f"Unreadable path at character {at + 1}.")
        name, index, quoted = match.groups()
        yield int(index) if index else name or quoted
        at = match.end()
