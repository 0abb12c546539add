"""/mcp is the agent's: its scenario's tools and nothing else."""

import json
import urllib.request
from typing import Any

import pytest
from websockets.asyncio.client import connect

from awmenv.models import CONTROL_TOOLS
from tests.awmenv.conftest import Server

pytestmark = pytest.mark.attack("frames")


def rpc(server: Server, method: str, **params: Any) -> dict[str, Any]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(f"{server.url}/mcp", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        result: dict[str, Any] = json.loads(answer.read())
        return result


async def session(server: Server) -> tuple[str, Any]:
    """An HTTP session, reset through the control channel, as openenv's clients do it."""
    name = rpc(server, "openenv/session/create")["result"]["session_id"]
    socket = await connect(f"{server.url.replace('http', 'ws')}/ws?session_id={name}", proxy=None)
    await socket.send(json.dumps({"type": "reset", "data": {"scenario": "notes_1", "task_idx": 0}}))
    assert json.loads(await socket.recv())["data"]["observation"]["reward_type"] == "reset_ok"
    return name, socket


async def test_the_agent_lists_and_calls_its_tools_in_the_session_that_was_reset(server: Server) -> None:
    name, socket = await session(server)
    tools = rpc(server, "tools/list", session_id=name)["result"]["tools"]
    assert [tool["name"] for tool in tools][:2] == ["list_notes", "create_note"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
    made = rpc(server, "tools/call", session_id=name, name="create_note", arguments={"title": "Milk"})["result"]
    assert json.loads(made["data"])["title"] == "Milk"
    assert made["content"][0]["text"] == made["data"] and made["isError"] is False
    await socket.close()
    assert rpc(server, "openenv/session/close", session_id=name)["result"]["closed"] is True


@pytest.mark.parametrize("control", sorted(CONTROL_TOOLS))
async def test_a_control_tool_is_never_listed_and_refused_in_the_words_of_an_unknown_one(
    server: Server, control: str
) -> None:
    name, socket = await session(server)
    listed = [tool["name"] for tool in rpc(server, "tools/list", session_id=name)["result"]["tools"]]
    assert control not in listed
    unknown = rpc(server, "tools/call", session_id=name, name="nope", arguments={})
    refused = rpc(server, "tools/call", session_id=name, name=control, arguments={})
    assert json.dumps(refused).replace(control, "nope") == json.dumps(unknown)
    still = rpc(server, "tools/call", session_id=name, name="list_notes", arguments={})
    assert "result" in still
    await socket.close()
    rpc(server, "openenv/session/close", session_id=name)


@pytest.mark.parametrize("control", sorted(CONTROL_TOOLS))
async def test_before_the_reset_and_after_the_end_a_control_tool_is_told_apart_by_nothing_either(
    server: Server, control: str
) -> None:
    def same(name: str | None) -> bool:
        session = {"session_id": name} if name else {}
        unknown = rpc(server, "tools/call", **session, name="nope", arguments={})
        refused = rpc(server, "tools/call", **session, name=control, arguments={})
        return json.dumps(refused).replace(control, "nope") == json.dumps(unknown)

    assert same(None)
    name, socket = await session(server)
    for tool in ("verify", "done"):
        await socket.send(json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": tool}}))
        assert json.loads(await socket.recv())["type"] == "observation"
        assert same(name), tool
    await socket.close()
    rpc(server, "openenv/session/close", session_id=name)


async def test_a_sealed_episode_takes_no_call_from_the_agent(server: Server) -> None:
    name, socket = await session(server)
    await socket.send(json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": "verify"}}))
    assert json.loads(await socket.recv())["data"]["observation"]["reward_type"] == "others"
    refused = rpc(server, "tools/call", session_id=name, name="list_notes", arguments={})
    assert "Episode has ended" in refused["error"]["message"]
    assert "others" not in json.dumps(refused)
    await socket.close()
    rpc(server, "openenv/session/close", session_id=name)


def test_without_a_session_there_are_no_tools(server: Server) -> None:
    assert rpc(server, "tools/list")["result"]["tools"] == []
    assert "reset" in rpc(server, "tools/call", name="list_notes", arguments={})["error"]["message"]


def test_the_task_api_answers(server: Server) -> None:
    def post(path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{server.url}/awmenv/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    assert json.loads(server.get("/list_environments")) == ["awmenv"]
    assert json.loads(server.get("/awmenv/splits")) == [{"name": "all", "type": "train"}]
    assert post("num_tasks", split="all") == {"num_tasks": 3}
    assert post("task", split="all", index=1)["task"]["id"] == "notes_1/0"
    assert len(post("tasks", split="all")["tasks"]) == 3
    assert [task["id"] for task in post("task_range", split="all", start=1, stop=3)["tasks"]] == [
        "notes_1/0",
        "notes_1/1",
    ]


async def test_a_task_of_the_task_api_can_be_reset_by_split_and_index(server: Server) -> None:
    async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None) as socket:
        await socket.send(json.dumps({"type": "reset", "data": {"split": "all", "index": 0}}))
        assert json.loads(await socket.recv())["data"]["observation"]["scenario"] == "lamps_1"
