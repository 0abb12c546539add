"""A message of an MCP client is counted before it is read, and read once: the SDK gets no arguments of a call."""

from __future__ import annotations

import json

import pytest

from awmclient.nouns.typed import SPEC_CHARACTERS, SPEC_VALUES
from awmclient.schema import CONTEXT_MAX, QUESTION_MAX
from experts.mcp import messages
from experts.mcp.messages import call_after, message_of
from people.errors import BadJson, Invalid, TooLarge
from people.text import json_text


def sent(arguments, **more):
    params = {"name": "request_approval", "arguments": arguments, "_meta": {"progressToken": 3}}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **more}).encode()


def test_sdk_gets_a_call_without_its_arguments():
    arguments = {"calls": [{"name": "refund", "arguments": {"order": 9007199254740993}}]}
    message = message_of(sent(arguments))
    assert message.arguments == arguments and message.call.number == 7 and message.call.progress == 3
    for_sdk = json.loads(message.for_sdk)
    assert for_sdk["params"] == {"name": "request_approval", "arguments": {}, "_meta": {"progressToken": 3}}
    assert for_sdk["id"] == 7 and for_sdk["method"] == "tools/call"


@pytest.mark.parametrize("arguments", [None, [], [1], "text", 1])
def test_arguments_that_are_no_object_stay_for_the_sdk(arguments):
    message = message_of(sent(arguments))
    assert message.arguments == {} and json.loads(message.for_sdk)["params"]["arguments"] == arguments


def test_largest_ask_within_its_own_limits_is_read():
    calls = [{"name": "put", "arguments": {"n": [1] * (SPEC_VALUES - 100), "s": "字" * (SPEC_CHARACTERS - 1_000)}}]
    raw = json.dumps(
        {"calls": calls, "question": "字" * QUESTION_MAX, "context": "字" * CONTEXT_MAX}, ensure_ascii=False
    )
    arguments = json.loads(raw)
    assert message_of(
        json.dumps({"method": "tools/call", "params": {"arguments": arguments}}, ensure_ascii=False).encode()
    )


@pytest.mark.parametrize("shape", ["[]", "{}", "1", '""'])
def test_many_values_are_refused_before_anything_is_parsed(shape, monkeypatch):
    def parsed(raw):
        raise AssertionError("parsed before it was counted")

    monkeypatch.setattr(json_text, "_read_fast", parsed)
    raw = b'{"method":"tools/call","params":{"arguments":{"calls":[%s]}}}' % b",".join([shape.encode()] * 40_001)
    with pytest.raises(BadJson, match="40,000 values"):
        message_of(raw)


def test_bytes_beyond_the_limit_are_refused():
    with pytest.raises(TooLarge):
        message_of(sent({"context": "x" * messages.MOST_BYTES}))


@pytest.mark.parametrize("rest", ["x" * messages.SDK_BYTES, [[]] * messages.SDK_VALUES])
def test_sdk_gets_no_large_rest(rest):
    with pytest.raises(TooLarge, match="Beside a call's arguments"):
        message_of(json.dumps({"method": "initialize", "params": {"capabilities": {"experimental": rest}}}).encode())


def test_long_answer_to_our_own_question_is_read():
    answer = {"action": "accept", "content": {"answer": "x" * QUESTION_MAX * 4}}
    message = message_of(json.dumps({"jsonrpc": "2.0", "id": "ask-1", "result": answer}).encode())
    assert message.fields["result"] == answer and json.loads(message.for_sdk)["result"] == {}


@pytest.mark.parametrize("event", [b"[" * 5_000, b"W1tbW1tb", b"\xff"])
def test_event_that_is_none_of_ours_is_refused(event):
    with pytest.raises(Invalid, match="Last-Event-ID"):
        call_after(event)
