"""A lost world is made again from its calls, and only if they bring what they brought before."""

import asyncio
import itertools
import os
import random
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from awmenv.client import RESTORES_A_CALL, EnvironmentClient
from awmenv.errors import Diverged, SessionLost, WorldLost
from awmenv.repeated import Made
from awmenv.server import database
from awmenv.server.session import snapshots
from awmenv.server.session.marks import digest_of
from awmenv.server.session.snapshots import Snapshots
from tests.awmenv.conftest import OpenFolders, Server, eventually, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack

CODE = (
    RUN_CODE.replace("import os", "import os, time", 1)
    + """
@app.get("/chance", operation_id="chance")
def chance() -> int:
    return time.monotonic_ns()  # no record holds this clock


@app.post("/quiet", operation_id="quiet")
def quiet() -> str:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": time.monotonic_ns()})
    return "done"


@app.get("/all", operation_id="all_rows")
def all_rows() -> list:
    with engine.begin() as connection:
        return [x for (x,) in connection.execute(text("SELECT x FROM t ORDER BY x"))]
"""
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("restoring")
    running = start_server(folder, pack(folder / "pack", CODE))
    yield running
    running.stop()


def snapshot(server: Server, made: Made, world: Mapping[str, Any]) -> Path:
    """Where the server keeps the database that a call left in this world."""
    owner = digest_of("open_1", world["base"]["digest"], world["clock"], world["seed"])
    return server.run_dir / "cache" / "worlds" / f"{owner}-{(made.mark or {})['database']}"


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


async def test_a_killed_process_costs_nothing_of_the_world(server: Server) -> None:
    async with EnvironmentClient(server.url) as idle, EnvironmentClient(server.url, restore=True) as env:
        await idle.reset(scenario="open_1")
        before = {process.pid for process in worlds(server)}
        await env.reset(scenario="open_1", state_diff=True)
        assert [(await env.call_tool("add_row", {})).tool_result for _ in range(2)] == ["1", "2"]
        await asyncio.to_thread(end, server, before)
        assert (await env.call_tool("add_row", {})).tool_result == "3"


async def test_world_lost_between_calls_again_is_restored(server: Server) -> None:
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1", state_diff=True)
        assert env.world is not None
        made = [await env.call_tool("add_row", {}) for _ in range(70)]
        calls = [("add_row", {}, found.metadata["mark"]) for found in made]
        before = {process.pid for process in worlds(server)}
        await env.begin_as(env.world)
        seen = []
        async for found in env.calls_again(calls):
            if len(seen) == 1:  # the first batch is made, the second is not
                mine = {process.pid for process in worlds(server)} - before
                await asyncio.to_thread(end, server, {process.pid for process in worlds(server)} - mine)
            seen.append(found.tool_result)
        await env.settle()
        assert seen == [str(number) for number in range(1, 71)]
        assert (env.restored.calls, env.restored.grade) == (70, "exact")


async def test_lost_connection_recovers_only_with_restore(server: Server) -> None:
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


async def test_another_world_is_never_gone_on_with(server: Server) -> None:
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


async def made_by(env: EnvironmentClient, *names: str) -> list[Made]:
    made = []
    for name in names:
        found = await env.call_tool(name, {})
        made.append(Made(name, {}, mark=found.metadata["mark"]))
    return made


async def again(server: Server, world: Mapping[str, object], made: list[Made]) -> tuple[EnvironmentClient, object]:
    """Restore a world; returns its client, and what the app says of its rows."""
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1", state_diff=True)
        await env.replay(made, world)
        return env, (await env.call_tool("all_rows", {})).tool_result


async def test_other_rows_are_put_back_from_a_snapshot(server: Server) -> None:
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1", state_diff=True)
        made = await made_by(env, "quiet", "add_row", "quiet", "all_rows")
        rows, world = (await env.call_tool("all_rows", {})).tool_result, env.world
    assert world is not None
    kept = snapshot(server, made[2], world)
    assert eventually(kept.exists)
    restored, found = await again(server, world, made)
    assert found == rows
    assert (restored.restored.grade, restored.restored.calls) == ("database", 4)
    assert restored.restored.difference == "quiet, call 1, leaves another database"
    kept.write_bytes(zlib.compress(b"SQLite format 3" + bytes(5000)))  # something else under its name
    with pytest.raises(Diverged, match="quiet, call 1, leaves another database"):
        await again(server, world, made)
    kept.unlink()
    with pytest.raises(Diverged, match="quiet, call 1, leaves another database"):
        await again(server, world, made[:3])


async def test_a_comparing_client_gets_no_snapshot(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", state_diff=True, world=True)
        made, world = await made_by(env, "quiet"), env.world
    assert world is not None and eventually(snapshot(server, made[0], world).exists)
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", state_diff=True)
        with pytest.raises(Diverged, match="quiet, call 1, leaves another database"):
            await env.replay(made, world)


def test_snapshots_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, source, owner = Snapshots(tmp_path / "worlds"), tmp_path / "world.db", "a" * 32
    kept = []
    for number in range(4):
        source.write_bytes(b"SQLite format 3" + random.Random(number).randbytes(20_000))
        kept.append(database.digest(source))
        store.keep(owner, source, kept[-1])
        os.utime(tmp_path / "worlds" / f"{owner}-{kept[-1]}", (1e9 + number, 4e9 + number))
    assert sorted(path.name for path in (tmp_path / "worlds").iterdir()) == sorted(
        f"{owner}-{digest}" for digest in kept
    )
    monkeypatch.setattr(snapshots, "MAX_STORE", 60_000)
    store.keep(owner, source, kept[-1])
    left = {path.name.removeprefix(f"{owner}-") for path in (tmp_path / "worlds").iterdir()}
    assert kept[0] not in left and kept[2] in left
    store.keep(owner, source, "../" + kept[0])
    store.keep("../" + owner, source, kept[0])
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["world.db"]
    assert not store.put_back(owner, "../world.db", source)
    assert not store.put_back("b" * 32, kept[2], source), "another session's work"
    link = tmp_path / "link.db"
    link.symlink_to(source)
    assert not store.put_back(owner, kept[2], link) and store.put_back(owner, kept[2], source)
    assert database.digest(source) == kept[2]
