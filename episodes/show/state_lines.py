"""A state change in lines: the added, changed and removed values, each with its place in the step. Pure.

Called by `step_cards.py` for steps, and by pages that show the changes of a whole episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from episodes.show.json_paths import under
from people.text.plain_text import clean

LONG_VALUE = 120
LONG_ROW = 240


@dataclass(frozen=True)
class Told:
    """A value of a changed row as shown, under its column's name; `path` is its place in the step."""

    name: str = ""
    text: str = ""
    path: str = ""


@dataclass(frozen=True)
class DiffLine:
    """One line of a state change: a changed column, or the `fields` of an added or removed row. `word` and `row` are
    set only on the first line of a row, with `path`, the row's place in the step."""

    sign: str = ""
    word: str = ""
    row: str = ""
    old: Told = Told()
    new: Told = Told()
    fields: tuple[Told, ...] = ()
    more: str = ""
    path: str = ""


def diff_lines(diff: object, path: str = "") -> Iterator[DiffLine]:
    """Yield a state diff (`{table: {added, changed, removed}}`) as lines, in the order of tables and of kinds of
    change. `path` is its place in a step, if it has one."""
    if not isinstance(diff, Mapping):
        return
    for table, kinds in diff.items():
        if not isinstance(kinds, Mapping):
            continue
        place, name = under(path, table), clean(table)
        for row, at in _rows(kinds, "changed", place):
            yield from _changed(name, row, at)
        for sign, kind in (("+", "added"), ("−", "removed")):
            for row, at in _rows(kinds, kind, place):
                yield DiffLine(sign, kind, f"{name} {row_key(row)}", fields=tuple(_fields(row, at)), path=at)
        if isinstance(kinds.get("more"), int) and kinds["more"] > 0:
            yield DiffLine("…", "and", name, more=f"{kinds['more']} more rows")


def _rows(kinds: Mapping[str, Any], kind: str, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the rows of a kind of change, each with its path."""
    rows = kinds.get(kind)
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, Mapping):
            yield row, under(under(path, kind), number)


def row_key(row: Mapping[str, Any]) -> str:
    """Return the name of a row: its key or ID, else its first value."""
    key = row.get("key", row.get("id", next(iter(row.values()), "")))
    if isinstance(key, Mapping):
        return clean(" ".join(str(value) for value in key.values()))
    return clean(" ".join(str(part) for part in key) if isinstance(key, list) else key)


def _fields(row: Mapping[str, Any], path: str) -> Iterator[Told]:
    """Yield the values of an added or removed row, until a line is full."""
    inner = next((name for name in ("row", "values") if name in row), "")
    values, place = (row[inner], under(path, inner)) if isinstance(row.get(inner), Mapping) else (row, path)
    room = LONG_ROW
    for name, value in values.items():
        if name == "key" or value in (None, ""):
            continue
        title, text = clean(name), as_text(value)
        room -= len(title) + len(text) + 1
        if room < 0:
            yield Told(title, f"{text[: max(0, len(text) + room)]}…", under(place, name))
            return
        yield Told(title, text, under(place, name))
        room -= 2


def _changed(table: str, row: Mapping[str, Any], path: str) -> Iterator[DiffLine]:
    """Yield one line per changed column; the row is named on the first."""
    line = DiffLine("~", "changed", f"{table} {row_key(row)}", path=path)
    for old, new in _columns(row, path):
        yield replace(line, old=old, new=new)
        line = DiffLine()


def _columns(row: Mapping[str, Any], path: str) -> Iterator[tuple[Told, Told]]:
    """Yield changed columns from `{before, after}` or from `{columns: {name: [old, new]}}`."""
    was, now = ("before" if "before" in row else "old"), ("after" if "after" in row else "new")
    before, after = row.get(was), row.get(now)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            if before.get(name) != after.get(name):
                yield _side(name, before, under(path, was)), _side(name, after, under(path, now))
        return
    kind = "columns" if "columns" in row else "changes"
    for name, pair in (row[kind] if isinstance(row.get(kind), Mapping) else {}).items():
        at, title = under(under(path, kind), name), clean(name)
        if isinstance(pair, list) and len(pair) == 2:
            yield Told(title, _plain(pair[0]), under(at, 0)), Told(title, _plain(pair[1]), under(at, 1))
        else:
            yield Told(title, _plain(None)), Told(title, _plain(pair), at)


def _side(name: str, values: Mapping[str, Any], path: str) -> Told:
    return Told(clean(name), _plain(values.get(name)), under(path, name) if name in values else "")


def as_text(value: object) -> str:
    """Return text unchanged, any other value as the agent received it: true, not True."""
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _plain(value: object) -> str:
    text = as_text(value)
    return text[:LONG_VALUE] + "…" if len(text) > LONG_VALUE else text
