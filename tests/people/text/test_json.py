"""The JSON door's reading of bodies: what no page, export or database could carry on is refused before it is stored."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from people.errors import BadJson
from people.text.json_text import MAX_DEPTH, parse_json


@pytest.mark.parametrize(
    "body",
    ['{"a": 1e999}', '{"a": -1E+0999}', f'{{"a": 1{"0" * 400}}}', f"[2{'0' * 250}e60]", '{"a": NaN}', "Infinity"],
)
def test_a_number_that_no_double_holds_is_refused(body):
    with pytest.raises(BadJson):
        parse_json(body.encode())


def test_long_digits_in_text_and_large_integers_are_allowed():
    value = {"text": "7" * 5000 + " 1e999", "whole": 2**63, "small": 1e-300, "large": 1.5e300, "zeros": 0.0}
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "-9223372036854775809",
        "18446744073709551616",
        "[0.1, 1e-7, -0.0, 123456789.123456789012345678901]",
        '" \\u0000"',
    ],
)
def test_a_number_is_the_same_whoever_reads_it(text):
    assert repr(parse_json(text.encode())) == repr(json.loads(text))


def nested(depth):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "body", [nested(MAX_DEPTH + 1), nested(500), nested(100_000), b'{"a":' * 200 + b"1" + b"}" * 200]
)
def test_nesting_beyond_reason_is_refused(body):
    with pytest.raises(BadJson):
        parse_json(body)


@pytest.mark.parametrize("body", [b"[" + b"1," * 400_000 + b"1]", b'{"a":[' + b"[]," * 200_000 + b"[]]}"])
def test_swarm_of_values_is_refused_before_it_is_made(body):
    tracemalloc.start()
    try:
        with pytest.raises(BadJson, match="more than 400,000 values"):
            parse_json(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_commas_in_a_text_are_no_values():
    assert len(parse_json(json.dumps({"csv": 'a,"[{,' * 200_000}).encode())["csv"]) == 1_200_000


def test_reasonable_nesting_and_lone_surrogates_are_kept():
    assert parse_json(nested(MAX_DEPTH))
    assert parse_json(b'{"a": "\\ud800\\u0000"}') == {"a": "\ud800\x00"}
