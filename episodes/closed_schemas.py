"""A stranger's JSON Schema, made safe to run: a copy of what awmweb reads of it, and why that is not all. Pure.

The copy has only keywords whose own shape is right. It names no dialect, no address and no anchor, so a validator
fetches nothing and stays with the keywords it was made with. A `$ref` names a place of the same document that is a
schema, and patterns are those of RE2. What is left out counts as fitting; `problem_of_form` says it instead, before a
form is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import re2

from awmclient.nouns.typed import SPEC_LEVELS, SPEC_VALUES

TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
ONE = frozenset({
    "additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas look at the same value again."""
OLD = frozenset({"dependencies", "additionalItems", "$dynamicRef", "$recursiveRef"})
"""Keywords that would constrain a value and are not read; each other unknown one is a note."""
PATTERN_MAX = 1000


def is_a_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_a_count(value: Any) -> bool:
    return is_a_number(value) and value == int(value) and value >= 0


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_types(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(one, str) and one in TYPES for one in names)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re2._Regexp[str] | None:
    """Return a pattern ready to search in linear time; None for one that RE2 cannot run."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, 1 << 20
    try:
        return re2.compile(pattern, options=options) if len(pattern) <= PATTERN_MAX else None
    except (re2.error, UnicodeEncodeError):
        return None


SHAPES: dict[str, Callable[[Any], bool]] = {
    "type": _are_types,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda value: True,
    "format": lambda value: isinstance(value, str),
    "multipleOf": lambda value: is_a_number(value) and value > 0,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_a_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_a_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_a_count),
    "uniqueItems": lambda value: isinstance(value, bool),
    "required": _are_words,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_are_words, value.values())),
    "pattern": lambda value: isinstance(value, str) and compiled(value) is not None,
}
"""Keywords with a value of their own, and whether that has the right shape."""


class Closed:
    """The copy of one document: `schema`, and `problems` with their places, the first first."""

    def __init__(self, document: Any) -> None:
        """Copy what can be run of a document."""
        self.problems: list[str] = []
        self._places: dict[str, dict[str, Any]] = {}
        self.schema = self._copied(document, "", "")
        if any("patternProperties" in schema for schema in self._places.values()):
            self._drop_unevaluated()
        for place, schema in self._places.items():
            self._drop_ref(place, schema)

    def _copied(self, schema: Any, pointer: str, place: str) -> Any:
        if not isinstance(schema, dict | bool):
            self._note(place, "a schema is an object, true or false")
            return True
        made: dict[str, Any] = {}
        self._places[pointer] = made
        if schema is False:  # what fits nothing, as an error names it with its place
            made["not"] = self._places[f"{pointer}/not"] = {}
        # what is missing is named behind what does not fit
        for keyword, value in sorted(schema.items(), key=_is_last) if isinstance(schema, dict) else ():
            self._take(made, keyword, value, f"{pointer}/{_escaped(keyword)}", f"{place}.{keyword[:60]}")
        return made

    def _take(self, made: dict[str, Any], keyword: str, value: Any, pointer: str, place: str) -> None:
        if keyword in ONE:
            made[keyword] = self._copied(value, pointer, place)
        elif keyword in LISTS and isinstance(value, list) and value:
            made[keyword] = [self._copied(one, f"{pointer}/{n}", f"{place}[{n}]") for n, one in enumerate(value)]
        elif keyword in NAMED and isinstance(value, dict):
            made[keyword] = {
                name: self._copied(part, f"{pointer}/{_escaped(name)}", f"{place}.{name[:60]}")
                for name, part in value.items()
                if keyword != "patternProperties" or self._is_run(name, place)
            }
        elif (keyword in SHAPES and SHAPES[keyword](value)) or keyword == "$ref":
            made[keyword] = value
        elif keyword == "pattern":
            self._is_run(value, place)
        elif keyword in OLD or keyword in SHAPES or keyword in LISTS or keyword in NAMED:
            words = "this keyword is not supported" if keyword in OLD else "this is not what the keyword takes"
            self._note(place, words)

    def _is_run(self, pattern: Any, place: str) -> bool:
        if isinstance(pattern, str) and compiled(pattern) is not None:
            return True
        self._note(place, f"RE2 cannot run the pattern {str(pattern)[:100]}")
        return False

    def _drop_unevaluated(self) -> None:
        """Leave out what the library runs with Python's own patterns, wherever in the document these are."""
        dropped = set()
        for place, schema in self._places.items():
            if schema.pop("unevaluatedProperties", None) is not None:
                self._note(place.replace("/", "."), "unevaluatedProperties and patternProperties in one schema")
                dropped.add(f"{place}/unevaluatedProperties")
        for place in list(self._places):
            if any("/".join(parts) in dropped for parts in _beginnings(place)):
                del self._places[place]

    def _drop_ref(self, place: str, schema: dict[str, Any]) -> None:
        """Leave out a reference to what is no schema of this document."""
        if "$ref" in schema and self.target(schema["$ref"]) is None:
            ref = schema.pop("$ref")
            self._note(place.replace("/", "."), f"$ref {str(ref)[:100]} names no schema of this document")

    def target(self, ref: Any) -> str | None:
        """Return the place that a reference names; None for another document, an anchor or what is no schema."""
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")) or "%" in unquote(ref):
            return None  # a sign that a page could not read back
        pointer = unquote(ref[1:])
        return pointer if pointer in self._places else None

    def _note(self, place: str, words: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{place[:300]}: {words}" if place else words)

    def again(self, pointer: str) -> Iterator[str]:
        """Yield the places whose schemas look at the value of a place once more."""
        schema = self._places[pointer]
        for keyword in IN_PLACE:
            part = schema.get(keyword)
            if isinstance(part, list):
                yield from (f"{pointer}/{keyword}/{n}" for n in range(len(part)))
            elif keyword == "dependentSchemas" and part:
                yield from (f"{pointer}/{keyword}/{_escaped(name)}" for name in part)
            elif part is not None:
                yield f"{pointer}/{keyword}"
        if "$ref" in schema:
            yield self.target(schema["$ref"]) or ""

    def endless(self) -> str:
        """Return why a value would be looked at too often, whatever it is; empty if it would not."""
        weights: dict[str, int] = {}
        for start in self._places:
            todo = [start]
            while todo:
                here = todo[-1]
                inner = list(self.again(here))
                fresh = [one for one in inner if one not in weights]
                if weights.get(here) != 0 and fresh:
                    weights.setdefault(here, 0)
                    todo += fresh
                    continue
                todo.pop()
                if any(weights.get(one, 0) == 0 for one in inner):
                    return f"{here[:100] or '#'} refers to itself for the same value"
                weights[here] = min(1 + sum(weights[one] for one in inner), SPEC_VALUES + 1)
                if weights[here] > SPEC_VALUES:
                    return "the schema is too large once its references are resolved"
        return ""


def _beginnings(pointer: str) -> Iterator[list[str]]:
    """Yield the parts of a place and of those that it is in."""
    parts = pointer.split("/")
    return (parts[:length] for length in range(2, len(parts) + 1))


def _is_last(item: tuple[str, Any]) -> bool:
    return item[0] == "required"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def followed(schema: Any, root: Any) -> dict[str, Any]:
    """Return a schema for a page to draw: what its references name, and what is said beside them.

    >>> followed({"$ref": "#/$defs/a", "title": "A"}, {"$defs": {"a": {"type": "string"}}})
    {'type': 'string', 'title': 'A'}
    """
    beside: dict[str, Any] = {}
    for _ in range(SPEC_LEVELS):
        if not isinstance(schema, dict):
            break
        beside = {**schema, **beside}
        if not isinstance(ref := beside.pop("$ref", None), str) or not ref.startswith("#"):
            break
        schema = root
        for part in unquote(ref[2:]).split("/") if len(ref) > 2 else ():
            name = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, dict) else None
    return {name: value for name, value in beside.items() if name != "$ref"}


def problem_of_form(schema: Any) -> str:
    """Return why an answer could not be checked whole against the schema of a form; empty if it can be.

    >>> problem_of_form({"properties": {"a": {"pattern": "(a)\\\\1"}}})
    'response_schema.properties.a.pattern: RE2 cannot run the pattern (a)\\\\1'
    """
    closed = Closed(schema)
    problem = closed.problems[0] if closed.problems else closed.endless()
    return f"response_schema{'' if problem.startswith('.') else ': '}{problem}" if problem else ""
