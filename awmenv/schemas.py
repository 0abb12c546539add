"""Shorter schemas of tools, which say the same: a prompt of a scenario is almost nothing but these. Pure.

Left out are `title`, which repeats the name, and bounds that every number of its kind keeps. The server checks calls
against the whole schema all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FULL, SHORT = "full", "short"
LEVELS = 100
"""Below that a schema stays as it is."""
LARGEST = {2**31 - 1, 2**63 - 1}
SMALLEST = {-(2**31), -(2**63)}
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})


def listed(tools: Sequence[dict[str, Any]], *chosen: Any) -> list[dict[str, Any]]:
    """Return tools as they are listed: with shorter schemas if any of server and scenario has chosen so."""
    if SHORT not in chosen:
        return list(tools)
    return [{**tool, "input_schema": shorter(tool["input_schema"])} for tool in tools]


def shorter(schema: Any, level: int = 0) -> Any:
    """Return a schema without what says nothing. Values, such as those of `enum` and `default`, are never touched."""
    if not isinstance(schema, Mapping) or level > LEVELS:
        return schema
    return {key: _part(key, value, level + 1) for key, value in schema.items() if not _says_nothing(key, value)}


def _says_nothing(key: str, value: Any) -> bool:
    if key == "title":
        return isinstance(value, str)
    is_number = type(value) is int
    return is_number and (key == "maximum" and value in LARGEST or key == "minimum" and value in SMALLEST)


def _part(key: str, value: Any, level: int) -> Any:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: shorter(schema, level) for name, schema in value.items()}
    if key in _LISTED and isinstance(value, list):
        return [shorter(schema, level) for schema in value]
    return shorter(value, level) if key in _SINGLE else value
