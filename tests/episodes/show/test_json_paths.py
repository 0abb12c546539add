"""JSON paths within a step: written, read, and refused where no path can name a value. Pure."""

from __future__ import annotations

import pytest

from episodes.show.json_paths import BadPath, under, value_at
from episodes.show.step_cards import card_of

STEP = {"arguments": {"a b": [{"x": "one"}], "é": 2}, "result": "text"}


@pytest.mark.parametrize(
    ("name", "path"),
    [("status", "$.status"), ("a b", '$["a b"]'), ("é", '$["é"]'), ("1", '$["1"]'), ('"', ""), ("\\", ""), ("", "")],
)
def test_field_gets_the_path_that_names_it(name, path):
    assert under("$", name) == path
    if path:
        assert value_at({name: 7}, path) == 7


@pytest.mark.parametrize("name", ["a\x00", "a\ud800", "a\u202eb", "x " * 101, "y" * 500])
def test_name_that_no_column_or_page_holds_has_no_path(name):
    assert under("$", name) == ""
    with pytest.raises(BadPath):
        value_at({name: 7}, f'$["{name}"]')


@pytest.mark.parametrize(
    "path", ["$.result[0]", '$["result"].x', "$.arguments[0]", "$.no", '$["a b"]', "arguments", "$..a"]
)
def test_path_that_names_nothing_is_refused(path):
    with pytest.raises(BadPath):
        value_at(STEP, path)


def test_path_goes_through_lists_and_quoted_names():
    assert value_at(STEP, '$.arguments["a b"][0].x') == "one"
    assert under(under('$.arguments["a b"]', 0), "x") == '$.arguments["a b"][0].x'
    assert under("", 0) == "" and under("$." + "x" * 497, 0) == ""


def test_card_says_where_its_values_are():
    call = {"seq": 1, "kind": "tool_call", "name": "f", "arguments": {"a b": 1, 'a"': 2}, "result": "ok"}
    card = card_of(call)
    assert [one.path for one in card.arguments] == ['$.arguments["a b"]', ""] and card.result.path == "$.result"
    action = card_of({"seq": 1, "kind": "action", "action": {"go": 1}, "observation": {"at": 2}})
    assert (action.arguments[0].path, action.result.path) == ("$.action.go", "$.observation")
