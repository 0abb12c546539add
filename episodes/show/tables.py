"""The tables browser: rows that recorded steps touched, folded over many steps into initial and current values.

Pure, without Django: step dicts in, tables out. Only recorded values are known, so a cell of a changed row that no step
reported stays empty, unless the initial rows of the environment are given. Called by the answer page and the replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from episodes.show.state_lines import row_key
from episodes.show.values import null_or_text
from people.text.plain_text import clean

COLUMNS = 24
ROWS = 200
SIGNS = {"unchanged": "", "added": "+", "changed": "~", "removed": "−", "added and removed": "±"}


@dataclass(frozen=True)
class ChangedCell:
    """A value before and after; `reported` if a step contained it. None is null."""

    before: str | None = ""
    after: str | None = ""
    changed: bool = False
    reported: bool = False


@dataclass
class Touched:
    """One row: its known columns; a side is None if the row did not exist."""

    key: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    steps: list[int] = field(default_factory=list)

    @property
    def word(self) -> str:
        if not self.steps:
            return "unchanged"
        if self.before is None:
            return "added" if self.after is not None else "added and removed"
        return "changed" if self.after is not None else "removed"

    @property
    def sign(self) -> str:
        return SIGNS[self.word]

    def cell(self, column: str) -> ChangedCell:
        before, after = ({} if side is None else side for side in (self.before, self.after))
        old, new = null_or_text(before.get(column, "")), null_or_text(after.get(column, ""))
        changed = self.word == "changed" and before.get(column) != after.get(column)
        return ChangedCell(old, new, changed, column in before or column in after)


@dataclass(frozen=True)
class TouchedTable:
    """One table with its touched rows; `hidden` counts rows that a step left out or that are beyond the limit."""

    name: str
    columns: list[str]
    rows: list[tuple[Touched, list[ChangedCell]]]
    hidden: int


def touched(steps: Iterable[Mapping[str, Any]]) -> list[TouchedTable]:
    """Return all tables that these steps changed, in the order in which they were first touched."""
    hidden: dict[str, int] = {}
    rows = touched_rows(steps, hidden)
    return [_table(name, list(found.values()), hidden[name]) for name, found in rows.items() if found]


def touched_rows(
    steps: Iterable[Mapping[str, Any]], hidden: dict[str, int] | None = None
) -> dict[str, dict[str, Touched]]:
    """Return every row that these steps changed, by table and key; `hidden` gets the rows that the steps left out."""
    rows: dict[str, dict[str, Touched]] = {}
    hidden = {} if hidden is None else hidden
    for step in steps:
        for name, kinds in _mapping(step.get("state_diff")).items():
            kinds, table = _mapping(kinds), rows.setdefault(str(name), {})
            more = kinds.get("more")
            hidden[str(name)] = hidden.get(str(name), 0) + (more if isinstance(more, int) and more > 0 else 0)
            for kind, row in _changes(kinds):
                _fold(table, kind, row, int(step["seq"]))
    return rows


def at_step(steps: Iterable[Mapping[str, Any]], seq: int) -> list[TouchedTable]:
    """Return every row that any of these steps changed, as of step `seq`: the earlier value in a later step is the
    value before it."""
    steps, hidden = list(steps), dict[str, int]()
    so_far = touched_rows(step for step in steps if step["seq"] <= seq)
    tables = []
    for name, rows in touched_rows(steps, hidden).items():
        then = [_then(row, so_far.get(name, {}).get(key)) for key, row in rows.items()]
        there = [row for row in then if row is not None]
        if there:
            tables.append(_table(name, there, hidden[name]))
    return tables


def with_start(
    steps: Iterable[Mapping[str, Any]],
    seq: int,
    name: str,
    start: list[dict[str, Any]],
    key: list[str],
    *,
    is_first: bool = True,
) -> TouchedTable:
    """Return one table as of step `seq`: its initial rows, with the changes of steps.

    Changed rows come first. Those that are not among the rows of `start` are shown on its page 1.

    """
    steps, hidden = list(steps), dict[str, int]()
    so_far = touched_rows(step for step in steps if step["seq"] <= seq).get(name, {})
    left = touched_rows(steps, hidden).get(name, {})
    rows: list[Touched | None] = []
    for row in start:
        calls = [called for called in _calls_of(row, key) if called in left and left[called].before is not None]
        if not calls:
            rows.append(Touched(row_key(row), row, row))
            continue
        whole = left.pop(calls[0])
        rows.append(_then(Touched(whole.key, {**row, **(whole.before or {})}, whole.after), so_far.get(whole.key)))
    others = [_then(row, so_far.get(called)) for called, row in left.items()] if is_first else []
    there = [row for row in [*others, *rows] if row is not None]
    # the sort is stable: both parts keep their order
    there.sort(key=lambda row: not row.steps)
    return _table(name, there, hidden.get(name, 0), len(there))


def _calls_of(row: Mapping[str, Any], key: list[str]) -> list[str]:
    """Return the possible names of a row in steps: by its primary key, or as a row."""
    return [row_key({"key": {name: row.get(name) for name in key}}), row_key(row)] if key else [row_key(row)]


def _then(whole: Touched, so_far: Touched | None) -> Touched | None:
    """Return a row as of a step, from all that is known of it and from what was known by then."""
    if so_far is None:
        return Touched(whole.key, whole.before, whole.before) if whole.before is not None else None
    if so_far.before is None:
        return so_far
    before = {**(whole.before or {}), **so_far.before}
    after = None if so_far.after is None else {**before, **so_far.after}
    return Touched(whole.key, before, after, so_far.steps)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _changes(kinds: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # a row that a step replaces is removed before it is added
    for kind in ("removed", "changed", "added"):
        rows = kinds.get(kind)
        yield from ((kind, row) for row in (rows if isinstance(rows, list) else []) if isinstance(row, Mapping))


def _fold(table: dict[str, Touched], kind: str, row: Mapping[str, Any], seq: int) -> None:
    key = row_key(row)
    change = table.get(key)
    before, after = _sides(kind, row)
    if change is None:
        change = table[key] = Touched(key, before, after)
    elif kind == "changed":
        # an earlier step's value is closer to the start, so it stays
        for column, value in (before or {}).items():
            if change.before is not None:
                change.before.setdefault(column, value)
        # in place: one step can change one row a hundred thousand times
        change.after = change.after or {}
        change.after.update(after or {})
    else:
        if kind == "removed" and change.before is not None:
            # what earlier steps reported wins; the removed row fills in the rest
            for column, value in (before or {}).items():
                change.before.setdefault(column, value)
        change.after = after
    if change.steps[-1:] != [seq]:
        change.steps.append(seq)


def _sides(kind: str, row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if kind == "changed":
        named = _mapping(row.get("key"))
        return {**named, **_mapping(row.get("before"))}, {**named, **_mapping(row.get("after"))}
    values = dict(_mapping(row.get("row", row)))
    return (None, values) if kind == "added" else (values, None)


def _table(name: str, rows: list[Touched], hidden: int, most: int = ROWS) -> TouchedTable:
    columns = dict.fromkeys(str(column) for row in rows for column in {**(row.before or {}), **(row.after or {})})
    shown = sorted(columns, key=lambda column: column != "id")[:COLUMNS]
    cells = [(row, [row.cell(column) for column in shown]) for row in rows[:most]]
    return TouchedTable(clean(name), [clean(column) for column in shown], cells, hidden + max(0, len(rows) - most))
