"""/mcp is the agent's: its scenario's tools and nothing else."""

import asyncio
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from awmenv.models import CONTROL_TOOLS
from awmenv.server.channels.connections import Connections, NotThere
from awmenv.server.channels.control import Line
from awmenv.server.session.wire import WorldObservation
from tests.awmenv.conftest import Server, eventually
from tests.awmenv.hostile_packs import pack

pytestmark = pytest.mark.attack("frames")


def rpc(server: Server, method: str, **params: Any) -> dict[str, Any]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(f"{server.url}/mcp", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        result: dict[str, Any] = json.loads(answer.read())
        return result


async def session(server: Server) -> tuple[str, Any]:
    """An HTTP session, reset through the control channel, as openenv's clients do it."""
    name = rpc(server, "openenv/session/create")["result"]["session_id"]
    socket = await connect(f"{server.url.replace('http', 'ws')}/ws?session_id={name}", proxy=None)
    await socket.send(json.dumps({"type": "reset", "data": {"scenario": "notes_1", "task_idx": 0}}))
    assert json.loads(await socket.recv())["data"]["observation"]["reward_type"] == "reset_ok"
    return name, socket


async def test_agent_uses_tools_in_the_reset_session(server: Server) -> None:
    name, socket = await session(server)
    tools = rpc(server, "tools/list", session_id=name)["result"]["tools"]
    assert [tool["name"] for tool in tools][:2] == ["list_notes", "create_note"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
    made = rpc(server, "tools/call", session_id=name, name="create_note", arguments={"title": "Milk"})["result"]
    assert json.loads(made["data"])["title"] == "Milk"
    assert made["content"][0]["text"] == made["data"] and made["isError"] is False
    await socket.close()
    closed = rpc(server, "openenv/session/close", session_id=name)["result"]
    assert closed["closed"] or closed["closing"], "the server may still be letting go of the socket"
    assert eventually(lambda: "error" in rpc(server, "tools/call", session_id=name, name="list_notes"), 10)


@pytest.mark.parametrize("control", sorted(CONTROL_TOOLS))
async def test_control_tool_is_unlisted_and_refused_as_unknown(server: Server, control: str) -> None:
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
async def test_control_tool_is_unknown_before_reset_and_after_end(server: Server, control: str) -> None:
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
        with urllib.request.urlopen(request, timeout=60) as answer:
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


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [0, 1, 2]),
        ({"start": 1}, [1, 2]),
        ({"stop": 2}, [0, 1]),
        ({"start": -1}, [2]),
        ({"start": 2, "stop": 1}, []),
        ({"start": 5, "stop": 99}, []),
        ({"split": "test"}, []),
    ],
)
def test_a_range_of_tasks_is_that_of_a_list(server: Server, asked: dict[str, Any], found: list[int]) -> None:
    body = json.dumps({"split": "all", **asked}).encode()
    request = urllib.request.Request(f"{server.url}/AWMENV/task_range", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert [task["index"] for task in json.loads(answer.read())["tasks"]] == found


async def test_rows_that_hold_half_a_character_are_told_all_the_same(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    folder = pack(tmp_path / "pack")
    for file in ("gen_tasks.jsonl", "gen_scenario.jsonl"):
        text = (folder / file).read_text().replace("Do something.", "Do \\ud800.").replace('on": ""', 'on": "\\udfff"')
        (folder / file).write_text(text)
    server = make_server(folder)
    body = urllib.request.Request(
        f"{server.url}/awmenv/tasks", b'{"split": "all"}', {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(body, timeout=60) as answer:
        assert json.loads(answer.read())["tasks"][0]["task"] == "Do ?."
    async with control(server) as socket:
        assert (await told(socket, "step", tool_name="__list_scenarios__"))["observation"]["total"] == 1
        assert (await told(socket, "reset", scenario="open_1", task_idx=0))["observation"]["task"] == "Do ?."


async def test_a_task_of_the_task_api_can_be_reset_by_split_and_index(server: Server) -> None:
    async with connect(f"{server.url.replace('http', 'ws')}/ws", proxy=None) as socket:
        await socket.send(json.dumps({"type": "reset", "data": {"split": "all", "index": 0}}))
        assert json.loads(await socket.recv())["data"]["observation"]["scenario"] == "lamps_1"


def control(server: Server, name: str = "") -> Any:
    address = f"{server.url.replace('http', 'ws')}/ws"
    return connect(f"{address}?session_id={name}" if name else address, proxy=None)


async def told(socket: Any, kind: str, **data: Any) -> dict[str, Any]:
    await socket.send(json.dumps({"type": kind, "data": data} if kind != "state" else {"type": kind}))
    answer: dict[str, Any] = json.loads(await socket.recv())["data"]
    return answer


async def attached(server: Server, name: str) -> Any:
    """A socket of the session, right after the one before it has closed."""
    socket = await control(server, name)
    await socket.send(json.dumps({"type": "state"}))
    assert json.loads(await socket.recv())["type"] == "state"
    return socket


async def test_http_session_outlives_its_socket_and_takes_one(server: Server) -> None:
    name, first = await session(server)
    async with control(server, name) as second:
        assert json.loads(await second.recv())["data"]["code"] == "SESSION_ERROR"
    rpc(server, "tools/call", session_id=name, name="create_note", arguments={"title": "Milk"})
    await first.close()
    async with await attached(server, name) as third:
        listed = await told(third, "step", tool_name="list_notes")
        assert "Milk" in listed["observation"]["tool_result"]
        assert rpc(server, "openenv/session/close", session_id=name)["result"]["closing"] is True
        assert (await told(third, "state"))["step_count"] == 2
    assert eventually(lambda: "error" in rpc(server, "tools/list", session_id=name), 10)
    assert "Unknown session_id" in rpc(server, "tools/list", session_id=name)["error"]["message"]


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
async def test_the_id_of_a_sockets_own_session_opens_nothing(server: Server, path: str) -> None:
    """An agent may ask for it; with it, it would have the control channel of its own episode."""
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    async with connect(f"{server.url.replace('http', 'ws')}{path}", proxy=None) as socket:
        await socket.send(json.dumps(create if path == "/mcp" else {"type": "mcp", "data": create}))
        answer = json.loads(await socket.recv())
        name = (answer if path == "/mcp" else answer["data"])["result"]["session_id"]
        assert "Unknown session_id" in rpc(server, "tools/list", session_id=name)["error"]["message"]
        assert "Unknown session_id" in rpc(server, "openenv/session/close", session_id=name)["error"]["message"]
        async with control(server, name) as other:
            assert "Unknown session_id" in json.loads(await other.recv())["data"]["message"]


def test_ids_are_long_and_never_the_same(server: Server) -> None:
    names = {rpc(server, "openenv/session/create")["result"]["session_id"] for _ in range(20)}
    assert len(names) == 20 and all(len(name) >= 32 for name in names)
    for name in names:
        assert rpc(server, "openenv/session/close", session_id=name)["result"]["closed"] is True


async def test_who_only_has_the_id_cannot_take_a_keyed_episode_over(server: Server) -> None:
    """The control side's socket has dropped; the agent knows the id, because its own calls carry it."""
    name = rpc(server, "openenv/session/create")["result"]["session_id"]
    async with control(server, name) as first:
        start = {"scenario": "notes_1", "task_idx": 1, "control_key": "open sesame", "state_diff": True}
        assert (await told(first, "reset", **start))["observation"]["reward_type"] == "reset_ok"
        made = await told(first, "step", tool_name="create_note", arguments={"title": "Milk"})
        assert made["metadata"]["state_diff"]["notes"]["added"]
    async with control(server, name) as agents:
        for key in ({}, {"control_key": "guess"}):
            refused = await told(agents, "reset", scenario="notes_1", task_idx=1, **key)
            assert refused["observation"]["metadata"]["code"] == "control_key_needed"
            for tool in ("verify", "done"):
                refused = await told(agents, "step", tool_name=tool, arguments=key)
                assert refused["observation"]["reward_type"] == "tool_not_found"
        made = await told(agents, "step", tool_name="create_note", arguments={"title": "Eggs"})
        failed = await told(agents, "step", tool_name="broken_report")
        assert "metadata" not in made and "metadata" not in failed
        assert made["observation"]["metadata"] == failed["observation"]["metadata"] == {}
        verdict = await told(
            agents, "step", tool_name="verify", arguments={"control_key": "open sesame", "final_answer": "5"}
        )
        assert verdict["observation"]["reward_type"] in ("complete", "others")
        assert len(verdict["metadata"]["state_diff"]["notes"]["added"]) == 2
    rpc(server, "openenv/session/close", session_id=name)


async def test_socket_comes_back_while_the_one_before_is_let_go(server: Server) -> None:
    """The first socket closes in the middle of a call, which goes on, with another message and its end unread."""
    name, first = await session(server)
    for _ in range(3):
        await first.send(
            json.dumps({"type": "step", "data": {"tool_name": "create_note", "arguments": {"title": "a"}}})
        )
    closing = asyncio.ensure_future(first.close())
    second = await attached(server, name)
    made = await told(second, "step", tool_name="create_note", arguments={"title": "Milk"})
    assert made["observation"]["reward_type"] == "tool_call_ok"
    await asyncio.gather(closing, second.close())
    for _ in range(20):
        await (await attached(server, name)).close()
    rpc(server, "openenv/session/close", session_id=name)


async def test_key_of_the_socket_before_opens_nothing_to_the_next() -> None:
    """Its last call can end after the next socket was attached."""
    connections = Connections(SimpleNamespace(settings=None), 2, 60.0)  # type: ignore[arg-type]
    connection = connections.open(over_http=True)
    first, second = object(), object()
    await connections.attach(connection.id, first)
    connection.environment._key = b"sesame"
    connections.lose(connection, first)
    await connections.attach(connection.id, second)
    shown = WorldObservation(reward_type="tool_call_ok", metadata={"status": 200})
    before, now = (Line(socket, connections, connection) for socket in (first, second))
    assert before._visible(shown, "sesame", connection).metadata == {"status": 200}
    assert now._visible(shown.model_copy(), None, connection).metadata == {}
    connections.leave(connection, first)
    with pytest.raises(NotThere):
        await connections.attach(connection.id, object())


async def test_idle_session_ends_unless_it_has_a_socket(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(AWMENV_DETACHED_S="2")
    never_had_one = rpc(server, "openenv/session/create")["result"]["session_id"]
    has_none_now, left = await session(server)
    await left.close()
    _name, socket = await session(server)
    # asking for a session would be a use of it
    assert await asyncio.to_thread(eventually, lambda: json.loads(server.get("/stats"))["sessions"] == 1)
    for idle in (never_had_one, has_none_now):
        assert "Unknown session_id" in rpc(server, "tools/list", session_id=idle)["error"]["message"]
    assert (await told(socket, "step", tool_name="list_notes"))["observation"]["reward_type"] == "tool_call_ok"
    await socket.close()


async def test_a_full_server_says_so_on_every_way_in(make_server: Callable[..., Server]) -> None:
    server = make_server(AWMENV_MAX_SESSIONS="2")
    name, socket = await session(server)
    async with connect(f"{server.url.replace('http', 'ws')}/mcp", proxy=None) as agents:
        await agents.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        assert json.loads(await agents.recv())["result"] == {"tools": []}
        full = rpc(server, "openenv/session/create")["error"]
        assert (full["code"], full["data"]) == (-32000, {"active_sessions": 2, "max_sessions": 2})
        async with control(server) as refused:
            assert json.loads(await refused.recv())["data"]["code"] == "CAPACITY_REACHED"
        async with connect(f"{server.url.replace('http', 'ws')}/mcp", proxy=None) as refused:
            assert "capacity" in json.loads(await refused.recv())["error"]["message"]
    await socket.close()
    rpc(server, "openenv/session/close", session_id=name)
    async with control(server) as socket:
        assert (await told(socket, "state"))["step_count"] == 0
