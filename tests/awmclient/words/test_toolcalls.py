"""Calls as agents and experts write them."""

import json

import pytest

from awmclient.errors import MalformedCall
from awmclient.words.textcalls import text_calls
from awmclient.words.toolcalls import Call, advised_calls, is_reserved, native_calls


def native(name, arguments, call_id="c1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"item": "mug"}', {"item": "mug"}), ({"item": "mug"}, {"item": "mug"}), ("", {}), (None, {}), ("{}", {})],
)
def test_native_arguments_may_be_text_or_an_object(arguments, expected):
    assert native_calls([native("get_item", arguments)]) == [Call("get_item", expected, "c1")]


def test_several_native_calls_keep_their_order_and_ids():
    calls = native_calls([native("a", "{}", "x"), native("b", '{"n": 1}', "y")])
    assert [(call.name, call.call_id) for call in calls] == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{broken", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"n": NaN}', "NaN"),
        ("[" * 100_000, "nested too deeply"),
        ('{"n": ' + "[" * 95 + "]" * 95 + "}", "nested too deeply"),
        ('{"n": 1e999}', "out of range"),
        ({"n": float("nan")}, "arguments of get_item"),
        ({"n": [float("inf")]}, "arguments of get_item"),
        ('{"n": -%s}' % ("9" * 400), "out of range"),
        ('{"n": %s}' % ("9" * 5000), "out of range"),
    ],
)
def test_unreadable_arguments_give_the_agent_an_error_text(arguments, words):
    with pytest.raises(MalformedCall, match=words):
        native_calls([native("get_item", arguments)])


@pytest.mark.parametrize(
    "call", [None, 3, {}, {"function": None}, {"function": {"name": 7}}, {"function": {"arguments": "{}"}}]
)
def test_a_native_call_without_a_name_is_malformed(call):
    with pytest.raises(MalformedCall):
        native_calls([call])


def test_calls_in_text_are_found_and_thinking_is_skipped():
    text = (
        '<think>maybe <tool_call>{"name": "no"}</tool_call></think>Now.'
        '<tool_call>\n{"name": "get_item", "arguments": {"item": "mug"}}\n</tool_call>'
        '<tool_call>{"name": "list_items"}</tool_call>'
    )
    assert text_calls(text) == [Call("get_item", {"item": "mug"}), Call("list_items", {})]


def test_wrapped_call_is_unwrapped_with_text_arguments():
    inner = json.dumps({"item": "mug"})
    wrapped = {"name": "call_tool", "arguments": {"tool_name": "get_item", "arguments": inner}}
    assert text_calls(f"<tool_call>{json.dumps(wrapped)}</tool_call>") == [Call("get_item", {"item": "mug"})]
    assert native_calls([native("call_tool", json.dumps(wrapped["arguments"]))])[0].name == "get_item"


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{",
        '<tool_call>{"name": "x"}',
        "<tool_call>[]</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call></tool_call>",
    ],
)
def test_a_block_that_cannot_be_read_is_malformed(text):
    with pytest.raises(MalformedCall):
        text_calls(text)


def test_plain_words_hold_no_calls():
    assert text_calls("I call get_item(item='mug') in my mind.") == []


NAMES = ["set_price", "get_item"]


@pytest.mark.parametrize(
    "text",
    [
        "Do set_price(item='mug', price=9.5, now=true) and tell me.",
        'Use:\n```json\n{"name": "set_price", "arguments": {"item": "mug", "price": 9.5, "now": true}}\n```',
        'First set_price( item = "mug", price = 9.5,\n now=True ).',
    ],
)
def test_a_call_written_into_advice_is_read(text):
    assert advised_calls(text, NAMES) == [Call("set_price", {"item": "mug", "price": 9.5, "now": True})]


def test_nested_literals_and_brackets_in_quotes_are_read():
    text = """set_price(item="a ) b", tags=["x", {"k": null}], price=-2)"""
    assert advised_calls(text, NAMES) == [Call("set_price", {"item": "a ) b", "tags": ["x", {"k": None}], "price": -2})]


@pytest.mark.parametrize(
    "text",
    [
        "Ten percent is right.",
        "delete_all(now=true)",
        "set_price(item=__import__('os').system('true'))",
        "set_price(**{'item': 'mug'})",
        "set_price('mug', 9)",
        "set_price(item='mug'",
        "set_price(price=1e999j)",
        "x.set_price(item='mug')",
        "```json\n{broken\n```",
        "set_price(" * 3000,
        "set_price(a=" + "[" * 3000 + "]" * 3000 + ")",
    ],
)
def test_words_that_are_no_plain_call_stay_words(text):
    assert advised_calls(text, NAMES) == []


@pytest.mark.parametrize("name", ["verify", " Verify ", "DONE", "__list_scenarios__", "reset", "ask_expert"])
def test_control_tools_are_reserved_however_they_are_spelt(name):
    assert is_reserved(name)


def test_ordinary_tools_are_not_reserved():
    assert not is_reserved("verify_order")
