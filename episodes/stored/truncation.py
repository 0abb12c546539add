"""The cut form of a large step: the same fields and types, long values shortened, and a mark that it is cut. The mark
has the pictures that are in what is left out.

A step of many megabytes is stored once and complete; sockets send this form. Pure, without Django. Called by
`entries.py` when a step is written and by `trajectory.py` for rows that were written without one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from awmclient.nouns.pictures import STEP_PICTURES, pictures_of
from awmclient.schema import CUT_ABOVE_BYTES

# (longest text, most entries of a list or object) in the order in which they are tried
LIMITS = ((2000, 100), (500, 30), (100, 8))
DEEPEST = 12
COUNTED = ("result", "observation")
MOST_COUNTS, LONGEST_NAME = 20, 100
# fields that identify a step and link it to others; short by its schema, and never cut
KEPT = frozenset({"seq", "kind", "at", "turn", "call_id", "reward", "done", "role", "ask", "reward_type"})


def cut_of(body: Mapping[str, Any], size: int) -> str | None:
    """Return the cut form of a step as JSON text, or None if it is small enough to be sent complete."""
    if size <= CUT_ABOVE_BYTES:
        return None
    pictures = pictures_of(body)
    for longest, most in LIMITS:
        fields: list[str] = []
        short = {name: _field(name, value, longest, most, fields) for name, value in body.items()}
        mark: dict[str, Any] = {"size": size, "fields": sorted(fields)}
        if counts := _counts(body, most):
            mark["counts"] = counts
        if pictures != pictures_of(short):
            mark["pictures"] = _short(pictures, longest, STEP_PICTURES)
        text = _json_text({**short, "cut": mark})
        if len(text) <= CUT_ABOVE_BYTES:
            return text
    # thousands of fields do not fit even when each is short: only what identifies the step is left
    bare = {name: value for name, value in body.items() if name in KEPT}
    mark = {"size": size, "fields": sorted(set(body) - KEPT)}
    if pictures:
        mark["pictures"] = [{name: value for name, value in part.items() if name != "alt"} for part in pictures]
    return _json_text({**bare, "cut": mark})


def cut_text(text: str) -> str:
    """Return the same for stored text; small text is returned unchanged."""
    return cut_of(json.loads(text), len(text)) or text if len(text) > CUT_ABOVE_BYTES else text


def _json_text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _field(name: str, value: Any, longest: int, most: int, fields: list[str]) -> Any:
    if name in KEPT:
        return value
    short = _short_diff(value, longest, most) if name == "state_diff" else _short(value, longest, most)
    if short != value:
        fields.append(name)
    return short


def _counts(body: Mapping[str, Any], most: int) -> dict[str, int]:
    """Return the entries of the results that have more than `most`, by name: `result`, or `result.orders` of a list in
    it."""
    counts: dict[str, int] = {}
    for name in COUNTED:
        value = body.get(name)
        inside = list(value.items())[:most] if isinstance(value, dict) else []
        lists = [(f"{name}.{key}", one) for key, one in inside if isinstance(one, list) and len(key) <= LONGEST_NAME]
        for place, entries in [(name, value), *lists]:
            if isinstance(entries, list | dict) and len(entries) > most:
                counts[place] = len(entries)
    return dict(list(counts.items())[:MOST_COUNTS])


def _short_diff(value: Any, longest: int, most: int) -> Any:
    """Shorten a state change; each table counts the rows that are left out under `more`, as the format has it."""
    # names are shortened like values
    short = _short(value, longest, most)
    for table, kinds in value.items() if isinstance(value, dict) else ():
        mine = short.get(table[:longest])
        if not isinstance(kinds, dict) or not isinstance(mine, dict):
            continue
        rows = (kinds.get(kind) for kind in ("added", "changed", "removed"))
        if left := sum(max(0, len(one) - most) for one in rows if isinstance(one, list)):
            omitted = kinds.get("more")
            # not isinstance: a bool is an int in Python
            mine["more"] = left + (omitted if type(omitted) is int and omitted > 0 else 0)
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
