"""Many sessions in one message of /ws, and the client whose episodes share a connection."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from awmenv import sent
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient
from awmenv.errors import CapacityReached, ServerRefused, ServerTimeout, SessionLost
from awmenv.sent import socket_url
from awmenv.server.channels import control
from tests.awmenv.conftest import Server, eventually

pytestmark = pytest.mark.attack("frames")
START = {"scenario": "notes_1", "task_idx": 0}


def message(session: Any, kind: str = "reset", **data: Any) -> dict[str, Any]:
    return (
        {"session": session, "type": kind, "data": data or START}
        if kind != "close"
        else {"session": session, "type": kind}
    )


def call(session: str, name: str, **arguments: Any) -> dict[str, Any]:
    return message(session, "step", tool_name=name, arguments=arguments)


async def batch(socket: Any, *messages: Any) -> Any:
    await socket.send(json.dumps({"type": "batch", "data": {"messages": list(messages)}}))
    return json.loads(await socket.recv())


def raw(server: Server) -> Any:
    return connect(socket_url(server.url), proxy=None, max_size=control.MOST_RESULTS)


def sessions(server: Server) -> int:
    return int(json.loads(server.get("/stats"))["sessions"])


def labels(answer: dict[str, Any]) -> list[str]:
    frames = answer["data"]["results"]
    return [
        one["data"].get("code") or one["data"].get("observation", {}).get("reward_type", one["type"]) for one in frames
    ]


async def test_batch_plays_sessions_apart_and_messages_of_one_in_turn(server: Server) -> None:
    before = sessions(server)
    async with raw(server) as socket:
        ada = [message("ada"), call("ada", "create_note", title="Milk"), call("ada", "list_notes")]
        answer = await batch(socket, ada[0], message("edo"), *ada[1:], call("edo", "list_notes"))
        assert labels(answer) == ["reset_ok", "reset_ok", *["tool_call_ok"] * 3]
        hers, his = (one["data"]["observation"]["tool_result"] for one in answer["data"]["results"][3:])
        assert "Milk" in hers and "Milk" not in his
        assert sessions(server) == before + 2
        verified = await batch(socket, call("ada", "verify"), call("edo", "verify"), message("edo", "close"))
        assert [one["type"] for one in verified["data"]["results"]] == ["observation", "observation", "closed"]
        assert labels(verified)[:2] == ["complete", "others"]
        assert labels(await batch(socket, call("edo", "list_notes"))) == ["SESSION_ERROR"]
        await socket.send(json.dumps({"type": "state"}))
        assert json.loads(await socket.recv())["data"]["step_count"] == 0, "its own session has seen nothing of it"
    assert eventually(lambda: sessions(server) == before), "all end with the socket"


async def test_refused_message_of_a_batch_touches_no_other(server: Server) -> None:
    async with raw(server) as socket:
        odd = [{"session": "a", "type": "dance"}, message("a", "step", tool_name=5), {"session": "a", "type": "batch"}]
        answer = await batch(socket, *odd, message("b", scenario="nowhere"), call("c", "list_notes"), message("a"))
        assert labels(answer) == [
            "UNKNOWN_TYPE",
            "VALIDATION_ERROR",
            "UNKNOWN_TYPE",
            "reset_error",
            "SESSION_ERROR",
            "reset_ok",
        ]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"messages": []},
        {"messages": {}},
        {"messages": [message("a")], "more": 1},
        {"messages": [message("a")] * (control.MOST_IN_BATCH + 1)},
        {"messages": [message("")]},
        {"messages": [message("a" * (control.MAX_NAME + 1))]},
        {"messages": [message(1)]},
        {"messages": ["reset"]},
        {"messages": [{"type": "state"}, message("a")]},
    ],
)
async def test_batch_of_unknown_form_is_refused_whole(server: Server, data: Any) -> None:
    before = sessions(server)
    async with raw(server) as socket:
        await socket.send(json.dumps({"type": "batch", "data": data}))
        refused = json.loads(await socket.recv())
        assert refused["type"] == "error" and refused["data"]["code"] == "VALIDATION_ERROR"
        assert sessions(server) == before


async def test_key_of_one_session_shows_nothing_of_another(server: Server) -> None:
    async with raw(server) as socket:
        keyed = message("a", **START, control_key="sesame", state_diff=True)
        await batch(socket, keyed, message("b", **START, control_key="other", state_diff=True))
        wrong = message("b", "step", tool_name="verify", arguments={"control_key": "sesame"})
        answer = await batch(socket, call("a", "create_note", title="Milk"), wrong)
        assert answer["data"]["results"][0]["data"]["metadata"]["state_diff"]["notes"]["added"]
        assert labels(answer)[1] == "tool_not_found"


def own(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "step", "data": {"tool_name": name, "arguments": arguments}}


async def test_batch_without_names_runs_in_its_own_session(server: Server) -> None:
    before = sessions(server)
    async with raw(server) as socket:
        answer = await batch(
            socket, {"type": "reset", "data": START}, own("create_note", title="Milk"), {"type": "close"}
        )
        assert labels(answer) == ["reset_ok", "tool_call_ok", "VALIDATION_ERROR"]
        answer = await batch(socket, own("list_notes"), {"type": "dance"}, own("verify"), own("list_notes"))
        assert labels(answer) == ["tool_call_ok", "UNKNOWN_TYPE", "complete", "episode_already_done"]
        assert "Milk" in answer["data"]["results"][0]["data"]["observation"]["tool_result"]
        assert sessions(server) == before + 1


async def test_long_results_end_a_batch_of_one_session_early(server: Server) -> None:
    async with raw(server) as socket:
        await batch(socket, {"type": "reset", "data": START}, *[own("create_note", title="x" * 90_000)] * 2)
        answer = await batch(socket, *[own("create_note", title="x" * 90_000)] * 2)
        assert labels(answer) == ["tool_call_ok"] * 2
        found = labels(await batch(socket, *[own("list_notes")] * control.MOST_IN_BATCH))
        assert 1 < len(found) < control.MOST_IN_BATCH and set(found) == {"tool_call_ok"}
        await socket.send(json.dumps({"type": "state"}))
        assert json.loads(await socket.recv())["data"]["step_count"] == 4 + len(found), "the rest is not carried out"


async def test_full_server_refuses_one_session_of_a_batch(make_server: Callable[..., Server]) -> None:
    server = make_server(AWMENV_MAX_SESSIONS="2")
    async with EnvironmentBatch(server.url) as shared, shared.client() as one, shared.client() as other:
        results = await asyncio.gather(one.reset(**START), other.reset(**START), return_exceptions=True)
        assert [type(result) is CapacityReached for result in results].count(True) == 1


def test_results_beyond_a_frame_become_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_RESULTS", 10)
    kept, dropped, small = control._bounded(["x" * 8, "x" * 8, "x"])
    assert kept == "x" * 8 and "RESULT_TOO_LONG" in dropped and "RESULT_TOO_LONG" in small


async def test_clients_of_a_batch_send_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    exchange = EnvironmentBatch._exchange

    async def counted(self: EnvironmentBatch, socket: Any, messages: list[Any]) -> None:
        sent.append(len(messages))
        await exchange(self, socket, messages)

    monkeypatch.setattr(EnvironmentBatch, "_exchange", counted)

    async def play(title: str) -> str | None:
        async with shared.client() as env:
            await env.reset(**START)
            await env.list_tools()
            await env.call_tool("create_note", {"title": title})
            return (await env.verify()).reward_type

    async with EnvironmentBatch(server.url) as shared:
        assert await asyncio.gather(*(play(title) for title in ("Milk", "Tea", "Milk"))) == [
            "complete",
            "others",
            "complete",
        ]
    assert sent == [3] * 5


async def test_long_messages_of_a_batch_go_apart(server: Server) -> None:
    text = "x" * (sent.MOST_SIZE // 2)
    async with EnvironmentBatch(server.url) as shared:
        envs = [shared.client() for _ in range(3)]
        await asyncio.gather(*(env.open() for env in envs))
        await asyncio.gather(*(env.reset(**START) for env in envs))
        found = await asyncio.gather(*(env.call_tool("create_note", {"title": text}) for env in envs))
        assert [one.error for one in found] == [None] * 3


async def test_given_up_request_ends_its_own_episode_alone(server: Server) -> None:
    before = sessions(server)
    async with EnvironmentBatch(server.url) as shared, shared.client() as one, shared.client() as other:
        await asyncio.gather(one.reset(**START), other.reset(**START))
        calling = asyncio.create_task(one.call_tool("list_notes"))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        with pytest.raises(SessionLost, match="cancelled"):
            await one.call_tool("list_notes")
        assert (await other.call_tool("list_notes")).error is None
        assert eventually(lambda: sessions(server) == before + 1)


async def test_lost_connection_ends_all_episodes_without_restore(server: Server) -> None:
    async with EnvironmentBatch(server.url) as shared:
        async with shared.client() as one, shared.client(restore=True) as other:
            await asyncio.gather(one.reset(**START), other.reset(**START))
            await other.call_tool("create_note", {"title": "Milk"})
            assert shared._socket is not None
            shared._socket.transport.abort()
            with pytest.raises(SessionLost):
                await one.call_tool("list_notes")
            assert "Milk" in str((await other.call_tool("list_notes")).tool_result)
            assert (await other.verify()).reward_type == "complete"
        async with shared.client() as later:
            assert (await later.reset(**START)).task


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"type": "error", "data": {"code": "UNKNOWN_TYPE", "message": "Unknown message type: batch"}}, ServerRefused),
        ({"type": "batch", "data": {"results": []}}, SessionLost),
        ({"type": "batch", "data": []}, SessionLost),
        ([], SessionLost),
        (None, ServerTimeout),
    ],
)
async def test_odd_answers_to_a_batch_are_errors_of_its_episodes(answer: Any, error: type[Exception]) -> None:
    async def odd(socket: Any) -> None:
        async for _text in socket:
            if answer is not None:
                await socket.send(json.dumps(answer))

    async with serve(odd, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with EnvironmentBatch(f"http://127.0.0.1:{port}") as shared:
            one = shared.client(reset_timeout_s=30 if answer is not None else 0.01)
            await one.open()
            with pytest.raises(error):
                await one.reset(**START)


async def test_socket_without_batches_is_as_before(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        assert (await env.reset(**START)).task
