"""The client says what happened to its server, and never goes on in another world."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from awmenv.client import EnvironmentClient
from awmenv.errors import CapacityReached, ServerRefused, ServerTimeout, ServerUnreachable, SessionLost
from awmenv.sent import socket_url
from tests.awmenv.conftest import Server


@asynccontextmanager
async def fake(answer: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    async with serve(answer, "127.0.0.1", 0) as running:
        yield f"http://127.0.0.1:{next(iter(running.sockets)).getsockname()[1]}"


async def test_a_dead_address_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ServerUnreachable, match=str(port)):
        await EnvironmentClient(f"http://127.0.0.1:{port}").open()


async def test_a_dropped_socket_is_a_lost_session_and_stays_one() -> None:
    async def drop(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.abort()

    async with fake(drop) as url, EnvironmentClient(url) as env:
        with pytest.raises(SessionLost):
            await env.reset(scenario="notes_1")
        with pytest.raises(SessionLost):
            await env.call_tool("list_notes")
        with pytest.raises(SessionLost):
            await env.open()


async def test_late_response_closes_the_connection() -> None:
    async def never(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with fake(never) as url, EnvironmentClient(url, step_timeout_s=0.1) as env:
        with pytest.raises(ServerTimeout):
            await env.call_tool("list_notes")
        with pytest.raises(SessionLost):
            await env.state()


async def test_a_cancelled_request_ends_the_connection_too() -> None:
    got = asyncio.Event()

    async def never(connection: ServerConnection) -> None:
        await connection.recv()
        got.set()
        await connection.wait_closed()

    async with fake(never) as url, EnvironmentClient(url) as env:
        task = asyncio.create_task(env.call_tool("list_notes"))
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(SessionLost):
            await env.call_tool("list_notes")


@pytest.mark.parametrize("text", ["no json", "[]", '{"type": "state", "data": {}}', '{"type": "observation"}', "5"])
async def test_an_answer_that_is_none_ends_the_connection(text: str) -> None:
    async def nonsense(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(text)
        await connection.wait_closed()

    async with fake(nonsense) as url, EnvironmentClient(url) as env:
        with pytest.raises(SessionLost):
            await env.call_tool("list_notes")


async def test_error_frame_raises_its_code_and_session_continues() -> None:
    async def refuse(connection: ServerConnection) -> None:
        async for _message in connection:
            await connection.send(json.dumps({"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "no"}}))

    async with fake(refuse) as url, EnvironmentClient(url) as env:
        for _time in range(2):
            with pytest.raises(ServerRefused, match="no") as caught:
                await env.call_tool("list_notes")
            assert caught.value.code == "execution_error"


async def test_refusal_is_read_after_the_server_closed() -> None:
    async def full(connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full"}}))
        await connection.close()

    async with fake(full) as url, EnvironmentClient(url) as env:
        assert env._socket is not None
        await env._socket.wait_closed()
        with pytest.raises(CapacityReached, match="full"):
            await env.reset(scenario="notes_1")


async def test_a_full_server_says_so(make_server: Callable[..., Server]) -> None:
    server = make_server(AWMENV_MAX_SESSIONS="1")
    async with EnvironmentClient(server.url) as ada:
        await ada.reset(scenario="notes_1")
        async with EnvironmentClient(server.url) as edo:
            with pytest.raises(CapacityReached):
                await edo.reset(scenario="notes_1")
        assert (await ada.call_tool("list_notes")).ok


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://127.0.0.1:8100", "ws://127.0.0.1:8100/ws"),
        ("https://a.example/env/", "wss://a.example/env/ws"),
        ("127.0.0.1:8100", "ws://127.0.0.1:8100/ws"),
        ("ws://a.example/ws?session_id=1", "ws://a.example/ws?session_id=1"),
    ],
)
def test_the_sockets_address_follows_from_the_servers(given: str, wanted: str) -> None:
    assert socket_url(given) == wanted
