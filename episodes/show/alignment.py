"""Two episodes of a task side by side: their actions aligned, the first divergence, and the final differences. Pure.

Actions are aligned by tool and arguments: first the longest equal runs, then, between those, calls of the same tool, so
that one inserted call shifts the following ones and does not make all of them different. Called by the compare page.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from awmclient.nouns.fields import CAME, has_come
from episodes.show.tables import Touched, touched_rows
from episodes.show.values import cell_of
from episodes.stored.strip import code_of, is_refused_ask
from people.text.plain_text import clean
from people.text.prose import in_line

Kind = Literal["same", "result", "arguments", "left", "right"]
WORDS: dict[Kind, str] = {
    "same": "same",
    "result": "different result",
    "arguments": "different arguments",
    "left": "only in {0}",
    "right": "only in {1}",
}
ASK = "ask"
GAP_MAX = 200
"""Unequal stretches up to this length are aligned by tool; longer ones are shown in order, one below the other."""
SHOWN = 300
SHORT, ANCHORED = 24, 4
"""Items of a stretch that is aligned by its longest runs, and rounds of matching items that are once on either side."""


ENDS = {"o": "is open", "l": "is open", "a": "was answered", "d": "was declined", "c": "was cancelled"}
"""How an ask ended, by its letter in the strip; any other one fell back."""


@dataclass(frozen=True)
class Act:
    """One action of an episode: its step, its name, and its arguments and result as texts."""

    seq: int
    name: str
    given: str
    came: str
    failed: bool = False
    end: str = ""
    """Of an ask: how it ended, after "was" or "is"."""

    @property
    def is_ask(self) -> bool:
        return self.name == ASK

    @property
    def shown_given(self) -> str:
        return _short(in_line(self.given) if self.is_ask else self.given)

    @property
    def shown_came(self) -> str:
        return _short(in_line(self.came) if self.is_ask else self.came)


@dataclass(frozen=True)
class AlignedPair:
    """One line of the comparison; a side is None if only the other one acted."""

    kind: Kind
    left: Act | None
    right: Act | None


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
    if kind == "tool_call" and is_refused_ask(step):
        # the same as an ask of an arm with an expert: both are on one line
        question = (step.get("arguments") or {}).get("question")
        return Act(seq, ASK, _json_text(question or ""), "no expert in this episode", end="was refused")
    if kind == "tool_call":
        return Act(seq, str(step.get("name")), _json_text(step.get("arguments") or {}), _came(step), error is not None)
    if kind == "action":
        return Act(seq, "action", _json_text(step.get("action")), _came(step), error is not None)
    if kind == "ask":
        advice = step.get("advice") or {}
        text = str(advice.get("text") or "no advice")
        return Act(seq, ASK, str(step.get("question")), text, end=ENDS.get(code_of(step), "fell back"))
    return None


def _came(step: Mapping[str, Any]) -> str:
    if not has_come(step):
        return "no result"
    error = step.get("error")
    return _json_text(error if error is not None else step[CAME[step["kind"]]])


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    return clean(text[:SHOWN] + ("…" if len(text) > SHOWN else ""))


def align(left: Sequence[Act], right: Sequence[Act]) -> list[AlignedPair]:
    """Return the actions of both in order, matching ones on one line."""
    keys = [[(act.name, act.given) for act in acts] for acts in (left, right)]
    pairs: list[AlignedPair] = []
    i = j = 0
    # the pair behind both ends yields what follows the last match
    for place, other in [*matches(keys[0], keys[1]), (len(left), len(right))]:
        pairs += _by_tool(left[i:place], right[j:other])
        if place < len(left):
            pairs.append(_pair(left[place], right[other]))
        i, j = place + 1, other + 1
    return pairs


def _pair(left: Act, other: Act) -> AlignedPair:
    if left.given != other.given:
        return AlignedPair("arguments", left, other)
    return AlignedPair("same" if (left.came, left.failed) == (other.came, other.failed) else "result", left, other)


def _by_tool(left: Sequence[Act], right: Sequence[Act]) -> Iterator[AlignedPair]:
    """Align a stretch without equal calls by the names of the tools."""
    if max(len(left), len(right)) > GAP_MAX:
        yield from (AlignedPair("left", one, None) for one in left)
        yield from (AlignedPair("right", None, other) for other in right)
        return
    i = j = 0
    for place, other in [*matches([act.name for act in left], [act.name for act in right]), (len(left), len(right))]:
        yield from (AlignedPair("left", act, None) for act in left[i:place])
        yield from (AlignedPair("right", None, act) for act in right[j:other])
        if place < len(left):
            yield _pair(left[place], right[other])
        i, j = place + 1, other + 1


def matches(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return places with equal items, rising on both sides: nearly the most that there are.

    Time grows as n log n, whatever repeats: equal ends match first, then items that are once on either side. Between
    those, short stretches match by their longest runs, and long ones item by item in their order.
    """
    places: list[tuple[int, int]] = []
    stretches = [(0, len(left), 0, len(right), ANCHORED)]
    while stretches:
        i, i_end, j, j_end, rounds = stretches.pop()
        while i < i_end and j < j_end and left[i] == right[j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        while i < i_end and j < j_end and left[i_end - 1] == right[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
            places.append((i_end, j_end))
        if i == i_end or j == j_end:
            continue
        if max(i_end - i, j_end - j) <= SHORT:
            blocks = SequenceMatcher(None, left[i:i_end], right[j:j_end], autojunk=False).get_matching_blocks()
            places += [(i + block.a + k, j + block.b + k) for block in blocks for k in range(block.size)]
            continue
        anchors = _anchors(left[i:i_end], right[j:j_end], numbered=not rounds)
        if not rounds or not anchors:
            places += [(i + one, j + other) for one, other in anchors]
            if rounds:
                stretches.append((i, i_end, j, j_end, 0))
            continue
        at = (i, j)
        for place, other in anchors:
            places.append((i + place, j + other))
            stretches.append((at[0], i + place, at[1], j + other, rounds - 1))
            at = (i + place + 1, j + other + 1)
        stretches.append((at[0], i_end, at[1], j_end, rounds - 1))
    return sorted(places)


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable], *, numbered: bool) -> list[tuple[int, int]]:
    """Return the longest rising list of pairs of items that are once on either side, or of the nth with the nth."""
    places: list[dict[tuple[Hashable, int], int]] = []
    for side in (left, right):
        count: Counter[Hashable] = Counter()
        at: dict[tuple[Hashable, int], int] = {}
        for place, item in enumerate(side):
            at[item, count[item]] = place
            count[item] += 1
        places.append(at if numbered else {key: place for key, place in at.items() if count[key[0]] == 1})
    pairs = [(place, places[1][key]) for key, place in places[0].items() if key in places[1]]
    return _longest_rising(sorted(pairs))


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest list of these pairs whose second numbers rise, too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    # patience sorting: ends[n] is the lowest end of a rising list of n + 1 pairs
    for number, (_, other) in enumerate(pairs):
        length = bisect_left(ends, other)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [other]
        last[length : length + 1] = [number]
    # each pair knows the one before it in its list
    rising, number = [], last[-1] if last else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def words_of(pair: AlignedPair, names: tuple[str, str]) -> str:
    """Return how the sides of a line differ; `names` are those of the sides inside a sentence."""
    return WORDS[pair.kind].format(*names)


def headline(pair: AlignedPair, names: tuple[str, str]) -> str:
    """Return in one sentence where the sides differ first, and in what: "They differ from step 3 on: only expert called
    merge."."""
    left, right = pair.left, pair.right
    first, other = names
    if left is None or right is None:
        name, act = (first, left) if left is not None else (other, right)
        assert act is not None
        what = f"only {name} asked, and its ask {act.end}" if act.is_ask else f"only {name} called {clean(act.name)}"
        return f"They differ from step {act.seq:,} on: {what}."
    if left.is_ask and left.end != right.end:
        what = f"the ask of {first} {left.end}, that of {other} {right.end}"
    elif left.is_ask:
        what = "different answers to one question" if pair.kind == "result" else "different questions"
    else:
        what = words_of(pair, names)
    steps = f"step {left.seq:,}"
    if left.seq != right.seq:
        steps += f" of {first} and step {right.seq:,} of {other}"
    return f"They differ from {steps} on: {what}."


def divergence(pairs: Sequence[AlignedPair]) -> int | None:
    """Return the position of the first line that differs between the sides, None if none does."""
    return next((place for place, pair in enumerate(pairs) if pair.kind != "same"), None)


def differences(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return rows that differ at the end, from the recorded changes of both; both began with the same rows."""
    sides = touched_rows(left), touched_rows(right)
    changes = []
    for table in dict.fromkeys([*sides[0], *sides[1]]):
        rows = [side.get(table, {}) for side in sides]
        for key in dict.fromkeys([*rows[0], *rows[1]]):
            first, other = rows[0].get(key), rows[1].get(key)
            if cells := _cells(first, other):
                changes.append(Difference(clean(table), clean(key), _word(first), _word(other), cells))
    return changes


def _word(row: Touched | None) -> str:
    return "unchanged" if row is None else row.word


def _cells(first: Touched | None, other: Touched | None) -> list[tuple[str, str, str]]:
    """Return columns with different values at the end; for a row that one side did not touch, its earlier value."""
    before = next((row.before for row in (first, other) if row is not None and row.before is not None), None)
    left, right = (before if row is None else row.after for row in (first, other))
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
