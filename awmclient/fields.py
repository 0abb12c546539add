"""The values of single fields of the record format: texts, numbers, times, counts.

Owns the bounds that a database and a JSON document set to single values. Called by `schema.py`, which defines what each
field means.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

MAX_INT = 2**31 - 1
LEVELS = 100
"""Of a step that a loop records. The dashboard takes 128 levels, of which a body around it needs some."""
DIFF_KINDS = "`added`, `changed`, `removed` or `more`"
COPIED = "is_copied_context"
"""In a step's `meta`: it was copied from an earlier episode as history, so it is no doing of this one."""


class Shape(BaseModel):
    """Base of every shape: unknown fields of a body are refused, so that typing errors are reported immediately."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @classmethod
    def read(cls, answer: Any) -> Self:
        """Return an answer of the dashboard. Fields that a newer one added are left out, at every level."""
        return cls.model_validate(answer, extra="ignore")


CAME = {"tool_call": "result", "action": "observation"}
"""The field of what came back, by the kind of a step. Without it nothing came back; null in it is a value."""


def has_come(step: Mapping[str, Any]) -> bool:
    """Return whether a call or an action has a result, which can be null, or an error."""
    return step.get("error") is not None or CAME[step["kind"]] in step


def is_copied(step: Mapping[str, Any]) -> bool:
    """Return whether a step was copied from an earlier episode."""
    meta = step.get("meta")
    return isinstance(meta, Mapping) and meta.get(COPIED) is True


def _any_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


def clean_text(value: Any) -> Any:
    """Refuse U+0000 and lone surrogates in keys and names, which are used in indexes and logs."""
    if isinstance(value, str) and ("\x00" in value or not value.isascii() and _has_half_a_pair(value)):
        raise PydanticCustomError("string_unicode", "Input should have no U+0000 and no lone surrogate")
    return value


def _has_half_a_pair(text: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF for char in text)


def _finite(value: Any) -> Any:
    low, high = -sys.float_info.max, sys.float_info.max
    # For integers, too: readers in other languages have doubles.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise PydanticCustomError("finite_number", "Input should be a finite number")
    return value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _storable(value: datetime) -> datetime:
    """Refuse times that a database cannot store as UTC: year 0, after 9999, or zones more than 15 hours off."""
    offset = value.utcoffset() or timedelta()
    if not 1000 <= value.year <= 9000 or abs(offset) > timedelta(hours=15):
        raise PydanticCustomError("moment", "Input should be a time between the years 1000 and 9000")
    return value


def problem_of_diff(value: Mapping[str, Any]) -> str:
    """Return what is wrong with a state diff, with the place; empty if nothing is."""
    for table, kinds in value.items():
        place = _printable(table)
        if not isinstance(kinds, Mapping):
            return f"{place}: expected an object with {DIFF_KINDS}, not {_named(kinds)}"
        for kind, rows in kinds.items():
            if kind == "more":
                if type(rows) is not int or rows < 0:
                    return f"{place}.more: expected a count"
            elif kind not in ("added", "changed", "removed"):
                return f"{place}.{_printable(kind)}: expected {DIFF_KINDS}"
            elif not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
                return f"{place}.{kind}: expected a list of objects, one for each row"
    return ""


def _printable(name: Any) -> str:
    """Return a name for an error, which has to be UTF-8: without half characters."""
    return str(name)[:100].encode("utf-8", "replace").decode()


def _named(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else f"{value!r}"[:20]


def _a_diff(value: dict[str, Any]) -> dict[str, Any]:
    if problem := problem_of_diff(value):
        raise PydanticCustomError("state_diff", "{problem}", {"problem": problem})
    return value


Text = Annotated[Any, BeforeValidator(_any_text), WithJsonSchema({"type": "string"})]
"""Any string an agent or a tool can produce, U+0000 and lone surrogates included, kept as it came."""
Number = Annotated[Any, BeforeValidator(_finite), WithJsonSchema({"type": "number"})]
Line = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(clean_text)]
Prose = Annotated[str, Field(min_length=1, max_length=20_000), BeforeValidator(clean_text)]
WHOLE = BeforeValidator(_whole)
"""Beside an integer: 15.0 is one, too, as JSON Schema says. Bounds stand before it, so that the document names them."""
Count = Annotated[StrictInt, Field(ge=0, le=MAX_INT), WHOLE]
Object = dict[str, Any]
StateDiff = Annotated[dict[str, Any], AfterValidator(_a_diff)]
"""Changed rows by table: `{table: {added, changed, removed: [row], more: count}}`."""
Moment = Annotated[datetime, AfterValidator(_storable)]
ZonedMoment = Annotated[AwareDatetime, AfterValidator(_storable)]
"""A time that decides something, so that its zone is not guessed."""


def too_large(value: Any, values: int, levels: int, characters: int) -> str:
    """Return the bound that a JSON value exceeds, in words; empty if none. Walks no further than the bounds reach."""
    todo, depth = [value], 0
    while todo:
        depth, values = depth + 1, values - len(todo)
        if depth > levels:
            return f"nests deeper than {levels} levels"
        boxes = [one for one in todo if isinstance(one, dict | list)]
        names = [name for one in boxes if isinstance(one, dict) for name in one]
        characters -= sum(map(len, names)) + sum(len(one) for one in todo if isinstance(one, str))
        if characters < 0:
            return "holds too much text"
        if values < sum(map(len, boxes)):
            return "holds too many values"
        todo = [inner for one in boxes for inner in (one.values() if isinstance(one, dict) else one)]
    return ""


def bounded(most: int, least: int = 0) -> BeforeValidator:
    """Return any text, within bounds that pydantic's own check of strings could not put on a lone surrogate."""

    def check(value: Any) -> Any:
        if not least <= len(_any_text(value)) <= most or (least and not value.strip()):
            raise PydanticCustomError("text_length", f"Input should have between {least} and {most} characters")
        return value

    return BeforeValidator(check)
