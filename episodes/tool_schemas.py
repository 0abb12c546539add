"""Whether a value fits a JSON Schema: the validator of `jsonschema` (2020-12), within one budget of steps. Pure.

A stranger wrote the schema, so `closed_schemas.py` copies what can be run of it, which refers to nothing outside. Each
keyword that looks at a value takes steps by the size of both, and keywords that the library runs in more than linear
time are replaced here. What is left out of a schema, and what the budget does not reach, counts as fitting: the
environment checks every call anyway.
Called by `suggested_calls.py`, `call_fit.py` and `decisions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator
from jsonschema.exceptions import FormatError, ValidationError
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable

from episodes.closed_schemas import Closed, compiled, is_a_number

STEPS = 30_000
"""The most steps for all calls of one answer. A usual call takes ten."""
SHOWN = 8
PLACES = 20
"""The most places of one value that are named."""


class _Spent(Exception):
    """An error: the budget is used up."""


@dataclass(frozen=True)
class MisfitPlace:
    """Where a value does not fit: the path to it or to what is missing, and what is wanted there."""

    path: tuple[str | int, ...]
    words: str

    def in_words(self, name: str = "") -> str:
        """Return the place with its path below a name.

        >>> MisfitPlace(("lines", 0, "amount"), "must be at most 249").in_words("value")
        'value.lines[0].amount must be at most 249'
        """
        for part in self.path:
            name = f"{name}[{part}]" if isinstance(part, int) else f"{name}.{part}"[:200] if name else part[:200]
        return f"{name or 'this'} {self.words}"


class Checker:
    """A checker of any number of values within one budget of steps."""

    def __init__(self, steps: int = STEPS, *, formats: bool = False) -> None:
        """Prepare a checker; with `formats` it checks dates, times and addresses, too."""
        self._budget = _StepBudget(steps, formats)
        self._closed: dict[int, tuple[Any, Any]] = {}

    @property
    def is_spent(self) -> bool:
        """Whether the budget did not reach: what was found to fit was not looked at whole."""
        return self._budget.left < 0

    def misfit(self, value: Any, schema: Any, name: str = "") -> str:
        """Return why a value does not fit, naming the place; "" if it fits or the budget is used up."""
        return next((place.in_words(name) for place in self.misfits(value, schema, most=1)), "")

    def misfits(self, value: Any, schema: Any, most: int = PLACES) -> list[MisfitPlace]:
        """Return each place where a value does not fit, up to `most`; none if it fits or the budget is used up."""
        try:
            validator = BOUNDED(self._safe(schema), format_checker=self._budget)
            return [_place(error) for error in islice(validator.iter_errors(value), most)]
        except (_Spent, RecursionError, Unresolvable):  # a reference that the library reads otherwise
            self._budget.left = -1
            return []

    def _safe(self, schema: Any) -> Any:
        if id(schema) not in self._closed:
            # the schema is stored with its copy: as long as it lives, no other one has its id()
            self._closed[id(schema)] = (schema, Closed(schema).schema)
        return self._closed[id(schema)][1]


class _StepBudget:
    """What all keywords of one check share. A validator hands on its format checker, so this is one."""

    def __init__(self, steps: int, formats: bool) -> None:
        self.left, self._formats = steps, formats
        self._sizes: dict[int, tuple[Any, int]] = {}
        self._choices: dict[int, tuple[Any, set[Hashable]]] = {}

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _Spent

    def look(self, keyword: str, value: Any, instance: Any) -> None:
        """Pay for one keyword that looks at one value."""
        steps = 1 + (self._size(instance) >> 8)
        if isinstance(value, list | dict):
            steps += len(value) >> 4
        if keyword.startswith("unevaluated") and isinstance(instance, list | dict):
            steps += len(instance) ** 2 >> 10
        self.spend(steps)

    def _size(self, value: Any) -> int:
        """Return the characters and values of a value: what it takes to write it into an error."""
        if isinstance(value, str):
            return len(value)
        if not isinstance(value, list | dict):
            return 1
        if id(value) not in self._sizes:
            inner = value.values() if isinstance(value, dict) else value
            names = sum(map(len, value)) if isinstance(value, dict) else 0
            self._sizes[id(value)] = (value, 1 + names + sum(map(self._size, inner)))
        return self._sizes[id(value)][1]

    def has(self, choices: list[Any], value: Any) -> bool:
        """Return whether a value is one of a list, which is read once."""
        if id(choices) not in self._choices:
            self._choices[id(choices)] = (choices, {self.same(one) for one in choices})
        return self.same(value) in self._choices[id(choices)][1]

    def same(self, value: Any) -> Hashable:
        """Return a value that is equal for equal JSON values: 1 is 1.0, and true is not 1."""
        self.spend(1)
        if isinstance(value, dict):
            return "object", frozenset((name, self.same(item)) for name, item in value.items())
        if isinstance(value, list):
            return "list", tuple(self.same(item) for item in value)
        if is_a_number(value):
            # as texts, whose hashes no one can choose: multiples of 2**61 - 1 share one, and sets of them are quadratic
            is_whole = isinstance(value, int) or value.is_integer()
            return "number", hex(int(value)) if is_whole else repr(value)
        return type(value).__name__, value

    def check(self, value: Any, kind: str) -> None:
        """Raise for a text that is not of a format; unknown formats are notes."""
        read = FORMATS.get(kind) if self._formats and isinstance(value, str) else None
        try:
            if read is not None:
                read[0](value)
        except ValueError as error:
            raise FormatError("") from error


def _searches(validator: Any, pattern: str, text: str) -> bool:
    validator.format_checker.spend(1 + (len(text) >> 6))
    program = compiled(pattern)
    return program is None or program.search(text.encode("utf-8", "replace").decode()) is not None


Errors = Iterator[ValidationError]


def _misses(path: tuple[str, ...] = (), context: tuple[ValidationError, ...] = ()) -> ValidationError:
    return ValidationError("", path=path, context=context)


def _enum(validator: Any, choices: Any, value: Any, schema: Any) -> Errors:
    if not validator.format_checker.has(choices, value):
        yield _misses()


def _const(validator: Any, constant: Any, value: Any, schema: Any) -> Errors:
    same = validator.format_checker.same
    if same(value) != same(constant):
        yield _misses()


def _unique(validator: Any, unique: Any, value: Any, schema: Any) -> Errors:
    if unique and isinstance(value, list) and len({validator.format_checker.same(one) for one in value}) < len(value):
        yield _misses()


def _multiple(validator: Any, unit: Any, value: Any, schema: Any) -> Errors:
    # as written: 1.15 is a multiple of 0.01, which doubles deny
    if is_a_number(value) and value - value == 0 and (Fraction(str(value)) / Fraction(str(unit))).denominator != 1:
        yield _misses()


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Errors:
    if isinstance(value, str) and not _searches(validator, pattern, value):
        yield _misses()


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Errors:
    for name in value if isinstance(value, dict) else ():
        for pattern, part in patterns.items():
            if _searches(validator, pattern, name):
                yield from validator.descend(value[name], part, path=name)


def _additional(validator: Any, part: Any, value: Any, schema: Any) -> Errors:
    fields, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in value if isinstance(value, dict) else ():
        if name not in fields and not any(_searches(validator, one, name) for one in patterns):
            yield from validator.descend(value[name], part, path=name)


def _required(validator: Any, names: Any, value: Any, schema: Any) -> Errors:
    yield from (_misses((name,)) for name in names if isinstance(value, dict) and name not in value)


def _dependent(validator: Any, needs: Any, value: Any, schema: Any) -> Errors:
    for name, others in needs.items():
        if isinstance(value, dict) and name in value:
            validator.format_checker.spend(len(others))
            yield from (_misses((other,)) for other in others if other not in value)


def _names(validator: Any, part: Any, value: Any, schema: Any) -> Errors:
    for name in value if isinstance(value, dict) else ():
        if not validator.evolve(schema=part).is_valid(name):
            yield _misses((name,))


def _one_of(validator: Any, parts: Any, value: Any, schema: Any) -> Errors:
    fitting, context = 0, []
    for part in parts:
        errors = list(validator.descend(value, part))
        fitting += not errors
        context += errors
    if fitting != 1:
        yield _misses(context=() if fitting else tuple(context))


def _not(validator: Any, part: Any, value: Any, schema: Any) -> Errors:
    if validator.evolve(schema=part).is_valid(value):
        yield _misses()


OWN = {
    "enum": _enum, "const": _const, "uniqueItems": _unique, "multipleOf": _multiple, "pattern": _pattern,
    "patternProperties": _pattern_properties, "additionalProperties": _additional, "required": _required,
    "dependentRequired": _dependent, "propertyNames": _names, "oneOf": _one_of, "not": _not,
}  # fmt: skip
"""Keywords that the library runs by backtracking, in quadratic time, or without the place that is missing."""


def _paid(keyword: str, check: Callable[..., Any]) -> Callable[..., Any]:
    def paid(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        validator.format_checker.look(keyword, value, instance)
        return check(validator, value, instance, schema)

    return paid


BOUNDED: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _paid(name, check) for name, check in {**Draft202012Validator.VALIDATORS, **OWN}.items()},
)
_evolve = BOUNDED.evolve


def _paid_evolve(self: Any, **changes: Any) -> Any:
    self.format_checker.spend(1)
    return _evolve(self, **changes)


# the library looks for what was evaluated without asking a keyword, but never without this
BOUNDED.evolve = _paid_evolve


def _place(error: ValidationError) -> MisfitPlace:
    return MisfitPlace(tuple(error.absolute_path), _words(error))


def _words(error: ValidationError) -> str:
    keyword, limit = error.validator, error.validator_value
    if error.context:
        # the parts of a choice of schemas, each at its own place below this value
        depth = len(error.absolute_path)
        parts = [MisfitPlace(tuple(one.absolute_path)[depth:], _words(one)) for one in islice(error.context, SHOWN)]
        return " or ".join(dict.fromkeys(one.in_words("this") if one.path else one.words for one in parts))[:300]
    words = WORDS.get(str(keyword))
    return words(limit) if words else f"must fit the schema's {keyword}"


def _choices(choices: list[Any]) -> str:
    more = f" or {len(choices) - SHOWN} others" if len(choices) > SHOWN else ""
    return f"must be one of {', '.join(str(one)[:60] for one in choices[:SHOWN])}{more}"


def _moment(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None or "T" not in text.upper():
        raise ValueError


def _address(text: str) -> None:
    before, _, host = text.partition("@")
    if not before or not host or "@" in host or any(one.isspace() for one in text):
        raise ValueError


def _uri(text: str) -> None:
    if not urlsplit(text).scheme or any(one.isspace() for one in text):
        raise ValueError


FORMATS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date such as 2026-11-27"),
    "date-time": (_moment, "a time such as 2026-11-27T09:00:00Z"),
    "time": (time.fromisoformat, "a time of day such as 09:00:00Z"),
    "email": (_address, "a mail address"),
    "uri": (_uri, "an address such as https://example.org"),
    "uuid": (UUID, "a UUID"),
    "ipv4": (IPv4Address, "an IPv4 address"),
    "ipv6": (IPv6Address, "an IPv6 address"),
}


def _types(names: Any) -> str:
    return f"is not of type {' or '.join(dict.fromkeys(names if isinstance(names, list) else [names]))}"


WORDS: Mapping[str, Callable[[Any], str]] = {
    "type": _types,
    "enum": _choices,
    "const": lambda constant: f"must be {str(constant)[:60]}",
    "format": lambda kind: f"must be {FORMATS[kind][1]}",
    "required": lambda names: "is missing",
    "dependentRequired": lambda names: "is required beside another field",
    "minimum": "must be at least {}".format,
    "maximum": "must be at most {}".format,
    "exclusiveMinimum": "must be more than {}".format,
    "exclusiveMaximum": "must be less than {}".format,
    "multipleOf": "must be a multiple of {}".format,
    "minLength": "must be at least {} characters long".format,
    "maxLength": "must be at most {} characters long".format,
    "minItems": "must be a list of at least {}".format,
    "maxItems": "must be a list of at most {}".format,
    "minProperties": "must be an object of at least {} fields".format,
    "maxProperties": "must be an object of at most {} fields".format,
    "uniqueItems": lambda unique: "must be a list without repeats",
    "pattern": lambda pattern: f"must match the pattern {pattern[:100]}",
    "propertyNames": lambda part: "is not taken as a name",
    "contains": lambda part: "must be a list with an entry that fits",
    "minContains": "must be a list with at least {} entries that fit".format,
    "maxContains": "must be a list with at most {} entries that fit".format,
    "oneOf": lambda parts: "must fit only one of its forms",
    "not": lambda part: "is a value that is not taken" if part else "is not taken",
    "unevaluatedProperties": lambda part: "has fields that are not taken",
    "unevaluatedItems": lambda part: "has entries that are not taken",
}
"""What is wanted, by the keyword and its value."""
