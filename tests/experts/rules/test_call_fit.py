"""Calls that break their tool's own schema: where and why, within bounds."""

from __future__ import annotations

import pytest

from experts.rules.call_fit import SHOWN, UNCHECKED, breaks_in

SCHEMA = {
    "type": "object",
    "required": ["order", "why"],
    "properties": {
        "order": {"type": "integer"},
        "why": {"type": "string"},
        "day": {"type": "string", "format": "date"},
    },
    "additionalProperties": False,
}


def breaks(arguments, schema=SCHEMA):
    calls = [{"id": "1", "name": "refund", "arguments": arguments}]
    [places] = breaks_in(calls, [{"name": "refund", "input_schema": schema}])
    return [(place.name, place.words) for place in places]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"order": 1, "why": "late"}, []),
        (
            {"order": "ten", "day": "soon"},
            [
                ("order", "order is not of type integer"),
                ("day", "day must be a date such as 2026-11-27"),
                ("why", "why is missing"),
            ],
        ),
        ({"order": 1, "why": "late", "bcc": "x"}, [("bcc", "bcc is not taken")]),
    ],
)
def test_each_argument_that_breaks_its_schema_is_named(arguments, expected):
    assert breaks(arguments) == expected


@pytest.mark.parametrize("schema", [None, True, 7, {"properties": 1, "required": 2, "type": "object"}])
def test_odd_schemas_break_nothing(schema):
    assert breaks({"a": 1}, schema) == []


def test_own_schema_of_a_call_comes_first():
    call = {"id": "1", "name": "refund", "arguments": {"order": 1}, "schema": {"properties": {"order": {"maximum": 0}}}}
    [[place]] = breaks_in([call], [{"name": "refund", "input_schema": SCHEMA}])
    assert (place.name, place.words) == ("order", "order must be at most 0")


def test_what_is_too_large_to_check_is_not_called_fitting():
    assert breaks({"a": [[1] * 200] * 200}, {"properties": {"a": {"items": {"items": {"type": "integer"}}}}}) == [
        ("", UNCHECKED)
    ]
    assert len(breaks({}, {"required": [str(n) for n in range(100)]})) == SHOWN
