# ruff: noqa: E501 - hostile code reads best unbroken
"""Whatever is sent to /ws and /mcp: an answer comes, and the session lives."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from awmenv.server.channels.control import problem_of
from awmenv.server.channels.pacing import FRAME, MAX_RECEIVED
from tests.awmenv.conftest import Server

pytestmark = pytest.mark.attack("frames")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(["reset", "step", "state", "close ", "mcp", ""]) | JSON},
    optional={
        "data": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["call_tool", "list_tools"]) | JSON,
                "tool_name": st.sampled_from(["list_notes", "create_note", "verify"]) | JSON,
                "arguments": st.fixed_dictionaries({"title": JSON}) | JSON,
                "scenario": st.just("notes_1") | JSON,
                "task_idx": JSON,
                "reward_config": JSON,
                "control_key": JSON,
                "jsonrpc": st.just("2.0"),
                "method": st.sampled_from(["tools/list", "tools/call"]),
                "params": JSON,
            },
        ),
        "extra": JSON,
    },
)
NASTY = [
    "", "[]", "5", "null", '"text"', "{", "[" * 200_000, '{"type":' * 500 + "1" + "}" * 500, '{"type": []}', '{"type": {}}',
    '{"type": "step"}', '{"type": "step", "data": null}', '{"type": "step", "data": {"type": "call_tool"}}',
    '{"type": "step", "data": {"type": "nope"}}', '{"type": "step", "data": {"type": "call_tool", "tool_name": "\\ud800"}}',
    '{"type": "reset", "data": {"scenario": "\\ud800"}}', '{"type": "reset", "data": []}', "9" * 5000,
    '{"type": "step", "data": {"tool_name": "list_notes", "arguments": {"limit": ' + "9" * 4000 + "}}}",
    '{"type": "step", "data": {"tool_name": "create_note", "arguments": {"title": NaN}}}',
    '{"type": "step", "data": {"tool_name": "create_note", "arguments": {"title": "\\u0000"}}}',
    '{"type": "state", "data": {}}', '{"type": "mcp", "data": {"jsonrpc": "1"}}', b"\x00\xff", b"{}",
    '{"type": "reset", "data": {"self": 1}}', '{"type": "reset", "data": {"scenario": "' + "n" * 100_000 + '"}}',
    '"' + "a" * FRAME.size + '"', '"' + "a" * (MAX_RECEIVED - 10) + '"', "[" + "[]," * 80_000 + "[]]", "[" * 100_000 + "]" * 100_000,
    '{"type": "step", "data": {"tool_name": "list_notes", "arguments": {"a": ' + "[" * 500 + "]" * 500 + "}}}",
    '{"type": "step", "data": {"tool_name": "list_notes", "arguments": {}, "more": 1}}',
]  # fmt: skip


@pytest.mark.parametrize("message", NASTY, ids=range(len(NASTY)))
async def test_a_nasty_message_is_answered_and_the_session_goes_on(server: Server, message: str | bytes) -> None:
    async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None, max_size=None) as socket:
        assert (await exchange(socket, {"type": "reset", "data": {"scenario": "notes_1"}}))["type"] == "observation"
        await socket.send(message)
        assert json.loads(await asyncio.wait_for(socket.recv(), 20))["type"] in ("error", "observation", "mcp")
        listed = await exchange(socket, {"type": "step", "data": {"type": "list_tools"}})
        assert listed["type"] == "observation"


async def exchange(socket: Any, message: Any) -> Any:
    await socket.send(json.dumps(message))
    return json.loads(await asyncio.wait_for(socket.recv(), 20))


@settings(max_examples=120)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5))
def test_any_messages_are_each_answered_by_one_frame(server: Server, messages: list[Any]) -> None:
    async def talk() -> None:
        async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None) as socket:
            for message in messages:
                answer = await exchange(socket, message)
                assert answer["type"] in ("error", "observation", "state", "mcp")
            assert (await exchange(socket, {"type": "state"}))["type"] == "state"

    asyncio.run(talk())


@given(MESSAGES | JSON)
def test_the_form_of_a_message_is_judged_without_raising(message: Any) -> None:
    problem = problem_of(message)
    assert problem is None or json.loads(problem)["type"] == "error"


async def test_oversized_message_closes_only_its_connection(server: Server) -> None:
    async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None, max_size=None) as other:
        async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None, max_size=None) as socket:
            await socket.send('"' + "a" * MAX_RECEIVED + '"')
            with pytest.raises(ConnectionClosed, match="1009"):
                await asyncio.wait_for(socket.recv(), 20)
        assert (await exchange(other, {"type": "state"}))["type"] == "state"


async def test_arguments_of_usual_size_come_through_whatever_they_hold(server: Server) -> None:
    text = '"[{,\\' * 9_000 + "é\U0001f600\n"
    async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None, max_size=None) as socket:
        await exchange(socket, {"type": "reset", "data": {"scenario": "notes_1"}})
        action = {"tool_name": "create_note", "arguments": {"title": text}}
        made = await exchange(socket, {"type": "step", "data": action})
        assert json.loads(made["data"]["observation"]["tool_result"])["title"] == text


@pytest.mark.parametrize(
    "message",
    [
        *(
            "5",
            "[]",
            "{",
            '{"jsonrpc": "2.0", "method": 5}',
            '{"jsonrpc": "2.0", "method": "tools/call", "params": []}',
        ),
        *('{"jsonrpc": "2.0", "method": "no/such"}', '{"jsonrpc": "2.0", "id": [], "method": "tools/list"}', b"\xff"),
        *('{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": ' + text + "}}" for text in ("5", "[]", '""')),
        *("[" + "[]," * 80_000 + "[]]", "[" * 100_000 + "]" * 100_000, '"' + "a" * (MAX_RECEIVED - 10) + '"'),
    ],
    ids=range(14),
)
async def test_the_agents_socket_survives_bad_messages_too(server: Server, message: str | bytes) -> None:
    async with connect(f"{server.url.replace('http', 'ws')}/mcp", proxy=None, max_size=None) as socket:
        await socket.send(message)
        assert "error" in json.loads(await asyncio.wait_for(socket.recv(), 20))
        assert "result" in await exchange(socket, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
