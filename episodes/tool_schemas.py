"""Whether a value fits a tool's JSON Schema, as far as awmweb reads one. Pure.

A schema is untrusted, so the work is bounded whatever it contains. Of JSON Schema (2020-12) only the keywords of `READ`
are read, each of which visits a value once; references are not followed, patterns are not run, and a malformed keyword
counts as absent. Every visit costs one step of a budget. Unread values and keywords count as fitting: the environment
checks every call anyway. Called by `suggested_calls.py` and
`decisions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import date, datetime
from operator import ge, gt, le, lt
from typing import Any

STEPS = 30_000
"""The most steps for all calls of one answer: a tenth of a second at worst. A usual call takes ten."""
SHOWN = 8
TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


class _Spent(Exception):
    """An error: the budget is used up."""


class Checker:
    """A checker of any number of values within one budget of steps."""

    def __init__(self, steps: int = STEPS, *, formats: bool = False) -> None:
        """Prepare a checker; with `formats` it checks dates, times and addresses, too."""
        self._left, self._formats = steps, formats
        self._choices: dict[int, tuple[list[Any], set[Hashable]]] = {}

    @property
    def is_spent(self) -> bool:
        """Whether the budget did not reach: what was found to fit was not looked at whole."""
        return self._left < 0

    def misfit(self, value: Any, schema: Any, name: str = "") -> str:
        """Return why a value does not fit, naming the place; "" if it fits or the budget is used up."""
        try:
            return self._misfit(value, schema, name)
        except (_Spent, RecursionError):
            self._left = -1
            return ""

    def _misfit(self, value: Any, schema: Any, name: str) -> str:
        self._spend(1)
        if schema is False:
            return f"{name or 'this'} is not taken"
        if not isinstance(schema, dict):
            return ""
        for keyword, check in READ.items():
            if keyword in schema and (words := check(self, value, schema[keyword], schema, name)):
                return words
        return ""

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _Spent

    def _type(self, value: Any, types: Any, schema: dict[str, Any], name: str) -> str:
        names = types if isinstance(types, list) else [types]
        self._spend(len(names))
        if not names or not all(isinstance(one, str) and one in TYPES for one in names):
            return ""
        fits = any(_is_a(value, one) for one in names)
        return "" if fits else f"{name or 'this'} is not of type {' or '.join(dict.fromkeys(names))}"

    def _enum(self, value: Any, choices: Any, schema: dict[str, Any], name: str) -> str:
        if not isinstance(choices, list) or not choices:
            return ""
        if id(choices) not in self._choices:
            # the list is stored with its set: as long as it lives, no other list has its id()
            self._choices[id(choices)] = (choices, {self._same(one) for one in choices})
        if self._same(value) in self._choices[id(choices)][1]:
            return ""
        more = f" or {len(choices) - SHOWN} others" if len(choices) > SHOWN else ""
        return _must(name, f"one of {', '.join(str(one)[:60] for one in choices[:SHOWN])}{more}")

    def _const(self, value: Any, constant: Any, schema: dict[str, Any], name: str) -> str:
        return "" if self._same(value) == self._same(constant) else _must(name, str(constant)[:60])

    def _format(self, value: Any, kind: Any, schema: dict[str, Any], name: str) -> str:
        read = FORMATS.get(kind) if self._formats and isinstance(kind, str) and isinstance(value, str) else None
        if read is None:
            return ""
        try:
            read[0](value)
        except ValueError:
            return _must(name, read[1])
        return ""

    def _required(self, value: Any, names: Any, schema: dict[str, Any], name: str) -> str:
        if not isinstance(value, dict) or not isinstance(names, list):
            return ""
        self._spend(len(names))
        missing = next((one for one in names if isinstance(one, str) and one not in value), None)
        return f"{_inside(name, missing)} is a required property" if missing is not None else ""

    def _properties(self, value: Any, fields: Any, schema: dict[str, Any], name: str) -> str:
        if not isinstance(value, dict) or not isinstance(fields, dict):
            return ""
        self._spend(len(value))
        misfits = (self._misfit(item, fields[one], _inside(name, one)) for one, item in value.items() if one in fields)
        return next(filter(None, misfits), "")

    def _additional(self, value: Any, subschema: Any, schema: dict[str, Any], name: str) -> str:
        # patterns are not run, so any other field could be allowed by one
        if not isinstance(value, dict) or "patternProperties" in schema:
            return ""
        self._spend(len(value))
        fields = schema.get("properties")
        others = (one for one in value if not (isinstance(fields, dict) and one in fields))
        misfits = (self._misfit(value[one], subschema, _inside(name, one)) for one in others)
        return next(filter(None, misfits), "")

    def _items(self, value: Any, subschema: Any, schema: dict[str, Any], name: str) -> str:
        # `items` is for the entries behind those, whose number is not read here
        if not isinstance(value, list) or "prefixItems" in schema:
            return ""
        misfits = (self._misfit(item, subschema, f"{name}[{place}]") for place, item in enumerate(value))
        return next(filter(None, misfits), "")

    def _unique(self, value: Any, unique: Any, schema: dict[str, Any], name: str) -> str:
        if not isinstance(value, list) or unique is not True:
            return ""
        return "" if len({self._same(item) for item in value}) == len(value) else _must(name, "a list without repeats")

    def _all(self, value: Any, parts: Any, schema: dict[str, Any], name: str) -> str:
        misfits = (self._misfit(value, part, name) for part in parts) if isinstance(parts, list) else iter(())
        return next(filter(None, misfits), "")

    def _any(self, value: Any, parts: Any, schema: dict[str, Any], name: str) -> str:
        """Check that at least one part fits, for `oneOf`, too: with unread keywords, a second fit can be wrong."""
        if not isinstance(parts, list) or not parts:
            return ""
        words = []
        for part in parts:
            words.append(self._misfit(value, part, name))
            if not words[-1]:
                return ""
        return " or ".join(dict.fromkeys(words[:SHOWN]))[:300]

    def _same(self, value: Any) -> Hashable:
        """Return a value that is equal for equal JSON values: 1 is 1.0, and true is not 1."""
        self._spend(1)
        if isinstance(value, dict):
            return "object", frozenset((name, self._same(item)) for name, item in value.items())
        if isinstance(value, list):
            return "list", tuple(self._same(item) for item in value)
        if _is_a(value, "number"):
            # as texts, whose hashes no one can choose: multiples of 2**61 - 1 share one, and sets of them are quadratic
            return "number", hex(int(value)) if _is_a(value, "integer") else repr(value)
        return type(value).__name__, value


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and (isinstance(value, int) or value.is_integer()))
    return kind == ("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object")


def _must(name: str, what: str) -> str:
    return f"{name or 'this'} must be {what}"


def _inside(name: str, inner: str) -> str:
    return f"{name}.{inner}"[:200] if name else inner[:200]


Check = Callable[[Checker, Any, Any, dict[str, Any], str], str]


def _limit(fits: Callable[[Any, Any], bool], words: str, measured: Callable[[Any], float | None]) -> Check:
    """Return a check of a number against a bound. `measured` returns the number, None for a value that has none."""

    def check(checker: Checker, value: Any, bound: Any, schema: dict[str, Any], name: str) -> str:
        size = measured(value)
        return (
            "" if size is None or not _is_a(bound, "number") or fits(size, bound) else _must(name, words.format(bound))
        )

    return check


def _itself(value: Any) -> float | None:
    return value if _is_a(value, "number") else None


def _letters(value: Any) -> float | None:
    return len(value) if isinstance(value, str) else None


def _entries(value: Any) -> float | None:
    return len(value) if isinstance(value, list) else None


def _fields(value: Any) -> float | None:
    return len(value) if isinstance(value, dict) else None


def _moment(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None or "T" not in text.upper():
        raise ValueError


def _address(text: str) -> None:
    before, _, host = text.partition("@")
    if not before or not host or "@" in host or any(one.isspace() for one in text):
        raise ValueError


FORMATS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date such as 2026-11-27"),
    "date-time": (_moment, "a time such as 2026-11-27T09:00:00Z"),
    "email": (_address, "a mail address"),
}

READ: dict[str, Check] = {
    "type": Checker._type,
    "enum": Checker._enum,
    "const": Checker._const,
    "format": Checker._format,
    "minimum": _limit(ge, "at least {}", _itself),
    "maximum": _limit(le, "at most {}", _itself),
    "exclusiveMinimum": _limit(gt, "more than {}", _itself),
    "exclusiveMaximum": _limit(lt, "less than {}", _itself),
    "minLength": _limit(ge, "at least {} characters long", _letters),
    "maxLength": _limit(le, "at most {} characters long", _letters),
    "minItems": _limit(ge, "a list of at least {}", _entries),
    "maxItems": _limit(le, "a list of at most {}", _entries),
    "minProperties": _limit(ge, "an object of at least {} fields", _fields),
    "maxProperties": _limit(le, "an object of at most {} fields", _fields),
    "uniqueItems": Checker._unique,
    "required": Checker._required,
    "properties": Checker._properties,
    "additionalProperties": Checker._additional,
    "items": Checker._items,
    "allOf": Checker._all,
    "anyOf": Checker._any,
    "oneOf": Checker._any,
}
