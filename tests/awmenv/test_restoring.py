"""A lost world is made again from its calls, and only if they bring what they brought before."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from awmenv.client import RESTORES_A_CALL, EnvironmentClient
from awmenv.errors import Diverged, SessionLost, WorldLost
from tests.awmenv.conftest import Server, eventually
from tests.awmenv.hostile_packs import RUN_CODE, pack

CHANCE = (
    RUN_CODE.replace("import os", "import os, time", 1)
    + """
@app.get("/chance", operation_id="chance")
def chance() -> int:
    return time.monotonic_ns()  # no record holds this clock
"""
)


def worlds(server: Server) -> list[psutil.Process]:
    """Processes of sessions: the great-grandchildren of the server."""
    known = psutil.Process(server.process.pid).children(recursive=True)
    depth = {server.process.pid: 0}
    for process in known:
        depth[process.pid] = depth.get(process.ppid(), 0) + 1
    deepest = max(depth.values())
    return [process for process in known if depth[process.pid] == deepest and deepest >= 2]


def end(server: Server, before: set[int]) -> None:
    (mine,) = [process for process in worlds(server) if process.pid not in before]
    mine.kill()
    assert eventually(lambda: not mine.is_running() or mine.status() == psutil.STATUS_ZOMBIE)


async def test_a_killed_process_costs_nothing_of_the_world(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(pack(tmp_path / "pack"))
    async with EnvironmentClient(server.url) as idle, EnvironmentClient(server.url, restore=True) as env:
        await idle.reset(scenario="open_1")
        before = {process.pid for process in worlds(server)}
        await env.reset(scenario="open_1", state_diff=True)
        assert [(await env.call_tool("add_row", {})).tool_result for _ in range(2)] == ["1", "2"]
        await asyncio.to_thread(end, server, before)
        assert (await env.call_tool("add_row", {})).tool_result == "3"


async def test_lost_connection_recovers_only_with_restore(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(pack(tmp_path / "pack"))
    for restore in (True, False):
        env = EnvironmentClient(server.url, restore=restore)
        await env.open()
        await env.reset(scenario="open_1")
        await env.call_tool("add_row", {})
        assert env._socket is not None
        env._socket.transport.abort()
        if restore:
            assert (await env.call_tool("add_row", {})).tool_result == "2"
        else:
            with pytest.raises(SessionLost):
                await env.call_tool("add_row", {})
        await env.close()
        with pytest.raises(SessionLost):
            await env.call_tool("add_row", {})


async def test_another_world_is_never_gone_on_with(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(pack(tmp_path / "pack", CHANCE))
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1")
        await env.call_tool("chance", {})
        assert env._socket is not None
        env._socket.transport.abort()
        with pytest.raises(Diverged, match="chance, call 1, brings something else now"):
            await env.call_tool("chance", {})


async def test_tries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    env, tried = EnvironmentClient("http://127.0.0.1:9", restore=True), itertools.count()

    async def lose(*_arguments: object) -> None:
        next(tried)
        raise WorldLost("the world was lost")

    async def restore() -> None:
        return None

    monkeypatch.setattr(env, "_call", lose)
    monkeypatch.setattr(env, "_restore", restore)
    with pytest.raises(WorldLost):
        await env.call_tool("list_notes")
    assert next(tried) == 1 + RESTORES_A_CALL
