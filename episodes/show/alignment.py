"""Two episodes of a task side by side: their actions aligned, the first divergence, and the final differences. Pure.

Actions are aligned by tool and arguments: first the longest equal runs, then, between those, calls of the same tool, so
that one inserted call shifts the following ones and does not make all of them different. Called by the compare page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from episodes.show.step_cards import cell_of
from episodes.show.tables import Touched, touched_rows
from people.plain_text import clean

Kind = Literal["same", "result", "arguments", "left", "right"]
WORDS: dict[Kind, str] = {
    "same": "same",
    "result": "different result",
    "arguments": "different arguments",
    "left": "only in the first",
    "right": "only in the second",
}
GAP_MAX = 200
"""Unequal stretches up to this length are aligned by tool; longer ones are shown in order, one below the other."""
SHOWN = 300


@dataclass(frozen=True)
class Act:
    """One action of an episode: its step, its name, and its arguments and result as texts."""

    seq: int
    name: str
    given: str
    came: str
    failed: bool = False

    @property
    def shown_given(self) -> str:
        return _short(self.given)

    @property
    def shown_came(self) -> str:
        return _short(self.came)


@dataclass(frozen=True)
class AlignedPair:
    """One line of the comparison; a side is None if only the other one acted."""

    kind: Kind
    left: Act | None
    right: Act | None

    @property
    def word(self) -> str:
        return WORDS[self.kind]


@dataclass(frozen=True)
class Difference:
    """One row of the final databases that differs: its values on either side, column by column. A side is None if that
    episode did not touch the row, or if the row does not exist at the end."""

    table: str
    key: str
    left: str
    right: str
    cells: list[tuple[str, str, str]]


def acts_of(steps: Sequence[Mapping[str, Any]]) -> list[Act]:
    """Return the actions of these steps: calls, actions without a tool, and asks."""
    return [act for step in steps if (act := _act(step)) is not None]


def _act(step: Mapping[str, Any]) -> Act | None:
    kind, seq, error = step.get("kind"), int(step["seq"]), step.get("error")
    if kind == "tool_call":
        came = error if error is not None else step.get("result")
        return Act(seq, str(step.get("name")), _text(step.get("arguments") or {}), _text(came), error is not None)
    if kind == "action":
        came = error if error is not None else step.get("observation")
        return Act(seq, "action", _text(step.get("action")), _text(came), error is not None)
    if kind == "ask":
        advice = step.get("advice")
        return Act(seq, "ask", str(step.get("question")), str((advice or {}).get("text") or "no advice"))
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    return clean(text[:SHOWN] + ("…" if len(text) > SHOWN else ""))


def align(left: Sequence[Act], right: Sequence[Act]) -> list[AlignedPair]:
    """Return the actions of both in order, matching ones on one line."""
    keys = [[(act.name, act.given) for act in acts] for acts in (left, right)]
    pairs: list[AlignedPair] = []
    for op, i, i_end, j, j_end in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if op == "equal":
            pairs += [_pair(one, other) for one, other in zip(left[i:i_end], right[j:j_end], strict=True)]
        else:
            pairs += _by_tool(left[i:i_end], right[j:j_end])
    return pairs


def _pair(one: Act, other: Act) -> AlignedPair:
    if one.given != other.given:
        return AlignedPair("arguments", one, other)
    return AlignedPair("same" if (one.came, one.failed) == (other.came, other.failed) else "result", one, other)


def _by_tool(left: Sequence[Act], right: Sequence[Act]) -> Iterator[AlignedPair]:
    """Align a stretch without equal calls by the names of the tools."""
    if max(len(left), len(right)) > GAP_MAX:
        yield from (AlignedPair("left", one, None) for one in left)
        yield from (AlignedPair("right", None, other) for other in right)
        return
    names = [[act.name for act in acts] for acts in (left, right)]
    for op, i, i_end, j, j_end in SequenceMatcher(a=names[0], b=names[1], autojunk=False).get_opcodes():
        if op == "equal":
            yield from (_pair(one, other) for one, other in zip(left[i:i_end], right[j:j_end], strict=True))
        else:
            yield from (AlignedPair("left", one, None) for one in left[i:i_end])
            yield from (AlignedPair("right", None, other) for other in right[j:j_end])


def divergence(pairs: Sequence[AlignedPair]) -> int | None:
    """Return the position of the first line that differs between the sides, None if none does."""
    return next((place for place, pair in enumerate(pairs) if pair.kind != "same"), None)


def differences(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return rows that differ at the end, from the recorded changes of both; both began with the same rows."""
    sides = touched_rows(left), touched_rows(right)
    found = []
    for table in dict.fromkeys([*sides[0], *sides[1]]):
        rows = [side.get(table, {}) for side in sides]
        for key in dict.fromkeys([*rows[0], *rows[1]]):
            one, other = rows[0].get(key), rows[1].get(key)
            if cells := _cells(one, other):
                found.append(Difference(clean(table), clean(key), _word(one), _word(other), cells))
    return found


def _word(row: Touched | None) -> str:
    return "unchanged" if row is None else row.word


def _cells(one: Touched | None, other: Touched | None) -> list[tuple[str, str, str]]:
    """Return columns with different values at the end; for a row that one side did not touch, its earlier value."""
    before = next((row.before for row in (one, other) if row is not None and row.before is not None), None)
    left, right = (before if row is None else row.after for row in (one, other))
    if left is None and right is None:
        return []
    columns = dict.fromkeys([*(left or {}), *(right or {})])
    return [
        (clean(str(column)), _cell(left, column), _cell(right, column))
        for column in columns
        if left is None or right is None or _final_value(left, column, before) != _final_value(right, column, before)
    ]


def _final_value(row: Mapping[str, Any], column: str, before: Mapping[str, Any] | None) -> Any:
    """Return the final value of a column; if a side did not report it, the earlier value, if known."""
    return row.get(column, (before or {}).get(column))


def _cell(row: Mapping[str, Any] | None, column: str) -> str:
    return "no row" if row is None else cell_of(row.get(column))
