"""Values in words, as tables and as JSON in pieces: what a call was given and what came back. Pure, without Django.

Owns the cutting of long values. Called by `step_cards.py`, by pages and by the template tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from episodes.show.json_layout import laid_out
from episodes.show.state_lines import LONG_VALUE, as_text
from episodes.stored.truncation import LIMITS
from people.text.plain_text import clean

LONG_WORDS = 90
LONG_RESULT = 16_000
TABLE_ROWS = 50
TABLE_COLUMNS = 12
CUT_AT = frozenset(most for _, most in LIMITS)
_TOKEN = re.compile(
    # \Z: a text that was cut in the middle has no closing quote
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*(?:"|\\?\Z))|(?P<atom>-?\d[\d.eE+-]*|true|false|null)'
)


@dataclass(frozen=True)
class ResultTable:
    """Rows of a result; a cell is None for null."""

    columns: list[str]
    rows: list[list[str | None]]
    hidden: int = 0


def number(value: object) -> str:
    """Return a number with a real minus sign and without trailing zeros."""
    if not isinstance(value, int | float):
        return "none"
    text = f"{value:.3f}".rstrip("0")
    return (text + "0" if text.endswith(".") else text).replace("-", "−")


class FullCounts:
    """How many entries the lists of a result have, in a step that is here only in its cut form, too."""

    def __init__(self, step: Mapping[str, Any] | None = None, field_name: str = "") -> None:
        cut = (step or {}).get("cut")
        mark: Mapping[str, Any] = cut if isinstance(cut, Mapping) else {}
        counts = mark.get("counts")
        self._counts: Mapping[str, Any] = counts if isinstance(counts, Mapping) else {}
        self._field, self._is_cut = field_name, field_name in (mark.get("fields") or ())

    def of(self, entries: Sized, name: str = "") -> int:
        """Return the count of the whole result, or of the list that it has under `name`."""
        known = self._counts.get(f"{self._field}.{name}" if name else self._field)
        return known if isinstance(known, int) and known > len(entries) else len(entries)

    def is_open(self, entries: Sized, name: str = "") -> bool:
        """Return whether there can be more entries: steps that were stored before counts were have none."""
        return self._is_cut and len(entries) in CUT_AT and self.of(entries, name) == len(entries)


def words_of(value: object, full: FullCounts | None = None) -> str:
    """Return a result in one short line."""
    full = full or FullCounts()
    if isinstance(value, str):
        first = clean(value).strip().split("\n", 1)[0]
        return first[:LONG_WORDS] + ("…" if len(first) > LONG_WORDS else "") if first else "empty text"
    if isinstance(value, list):
        unit = "row" if value and all(isinstance(row, Mapping) for row in value) else "item"
        count = full.of(value)
        return f"{'first ' if full.is_open(value) else ''}{count:,} {unit}{'' if count == 1 else 's'}"
    if isinstance(value, Mapping):
        return _object_in_words(value, full)
    return clean(json.dumps(value))


_NAMES = ("id", "key", "subject", "title", "name", "status", "state")


def _object_in_words(value: Mapping[str, Any], full: FullCounts) -> str:
    """Return an object by its name field, else by its only list, else by the object inside it."""
    flat = {name: item for name, item in value.items() if not isinstance(item, list | Mapping) and item is not None}
    lists = [(name, rows) for name, rows in value.items() if isinstance(rows, list)]
    inside = [(name, item) for name, item in value.items() if isinstance(item, Mapping) and item]
    if len(lists) == 1 and not any(_is_name(name) for name in flat):
        name, rows = lists[0]
        return f"{'first ' if full.is_open(rows, name) else ''}{count_of(name, full.of(rows, name))}"
    if len(inside) == 1 and not any(_is_name(name) for name in flat):
        return _cut(f"{clean(inside[0][0])}: {_object_in_words(inside[0][1], FullCounts())}")
    if not flat:
        count = full.of(value)
        return f"{count:,} {'field' if count == 1 else 'fields'}" if value else "empty object"
    first = sorted(flat, key=lambda name: _NAMES.index(name) if name in _NAMES else len(_NAMES))
    return _cut(", ".join(f"{clean(name)} {as_text(flat[name])}" for name in first[:3]))


def _is_name(name: object) -> bool:
    return name in _NAMES or str(name).endswith(("_id", "_key"))


def _cut(line: str) -> str:
    return line[:LONG_WORDS] + "…" if len(line) > LONG_WORDS else line


def count_of(name: str, count: int) -> str:
    """Return no tickets, 1 ticket, 3 tickets: by the name of the list."""
    if count != 1:
        return f"{count:,} {clean(name)}" if count else f"no {clean(name)}"
    for many, one in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ss", "ss"), ("s", "")):
        if str(name).endswith(many):
            return f"1 {clean(str(name)[: -len(many)] + one)}"
    return f"1 in {clean(name)}"


def table_of(value: object, full: FullCounts | None = None) -> ResultTable | None:
    """Return a table for a list of flat objects, also if the list is the only field of an object."""
    place = ""
    if isinstance(value, Mapping):
        lists = [(name, rows) for name, rows in value.items() if isinstance(rows, list)]
        flat = all(not isinstance(item, Mapping) for item in value.values())
        place, value = lists[0] if len(lists) == 1 and flat else ("", None)
    if not isinstance(value, list) or not value or not all(isinstance(row, Mapping) for row in value):
        return None
    if any(isinstance(item, list | Mapping) for row in value for item in row.values()):
        return None
    columns = list(dict.fromkeys(name for row in value for name in row))[:TABLE_COLUMNS]
    rows = [[null_or_text(row.get(column, "")) for column in columns] for row in value[:TABLE_ROWS]]
    count = (full or FullCounts()).of(value, place)
    return ResultTable([clean(column) for column in columns], rows, max(0, count - TABLE_ROWS))


def null_or_text(value: object) -> str | None:
    """Return the text of a table's cell; None is null, which differs from an empty text."""
    return None if value is None else cell_of(value)


def cell_of(value: object) -> str:
    text = clean("" if value is None else value if isinstance(value, str) else json.dumps(value))
    return text[:LONG_VALUE] + "…" if len(text) > LONG_VALUE else text


def json_pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield JSON text cut into (css class, text): names are muted, values are ink."""
    end = 0
    for found in _TOKEN.finditer(text):
        if found.start() > end:
            yield "", text[end : found.start()]
        css = "jk" if found["key"] else "js" if found["text"] else "jn"
        yield css, clean(found[0])
        end = found.end()
    if end < len(text):
        yield "", clean(text[end:])


def pieces_of(value: object) -> list[tuple[str, str]]:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return list(json_pieces(laid_out(text, LONG_RESULT)[:LONG_RESULT]))
