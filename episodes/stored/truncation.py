"""The cut form of a large step: the same fields and types, long values shortened, and a mark that it is cut.

A step of many megabytes is stored once and complete; sockets send this form. Pure, without Django. Called by
`entries.py` when a step is written and by `trajectory.py` for rows that were written without one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from awmclient.schema import CUT_ABOVE_BYTES

# (longest text, most entries of a list or object) in the order in which they are tried
LIMITS = ((2000, 100), (500, 30), (100, 8))
DEEPEST = 12
# fields that identify a step and link it to others; short by its schema, and never cut
KEPT = frozenset({"seq", "kind", "at", "turn", "call_id", "reward", "done", "role", "ask", "reward_type"})


def cut_of(body: Mapping[str, Any], size: int) -> str | None:
    """Return the cut form of a step as JSON text, or None if it is small enough to be sent complete."""
    if size <= CUT_ABOVE_BYTES:
        return None
    for longest, most in LIMITS:
        fields: list[str] = []
        short = {name: _field(name, value, longest, most, fields) for name, value in body.items()}
        text = _text({**short, "cut": {"size": size, "fields": sorted(fields)}})
        if len(text) <= CUT_ABOVE_BYTES:
            return text
    bare = {name: value for name, value in body.items() if name in KEPT}
    return _text({**bare, "cut": {"size": size, "fields": sorted(set(body) - KEPT)}})


def cut_text(text: str) -> str:
    """Return the same for stored text; small text is returned unchanged."""
    return cut_of(json.loads(text), len(text)) or text if len(text) > CUT_ABOVE_BYTES else text


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _field(name: str, value: Any, longest: int, most: int, fields: list[str]) -> Any:
    if name in KEPT:
        return value
    short = _short(value, longest, most)
    if short != value:
        fields.append(name)
    return short


def _short(value: Any, longest: int, most: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value[:longest]
    if depth > DEEPEST:
        return None
    if isinstance(value, list):
        return [_short(one, longest, most, depth + 1) for one in value[:most]]
    if isinstance(value, dict):
        return {key[:longest]: _short(one, longest, most, depth + 1) for key, one in list(value.items())[:most]}
    return value
