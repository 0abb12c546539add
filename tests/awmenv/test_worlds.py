"""A recorded world is made again byte for byte: clocks, chance and the start database follow the record."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import Diverged, ResetFailed
from awmenv.packs import load_pack
from awmenv.repeated import Made
from awmenv.server.session.marks import CallMark, WorldStart, WorldTime
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack
from tests.commands import ROOT

pytest.importorskip("time_machine")

STARTER = ROOT / "packs" / "starter"
CLOCKS = (
    RUN_CODE.replace("import os", "import datetime, os, random, secrets, sqlite3, time, uuid", 1)
    + """
BORN = time.time()
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS seen (at TEXT DEFAULT CURRENT_TIMESTAMP, n INTEGER, u TEXT)"))
    connection.execute(text("INSERT INTO seen (n) VALUES (random())"))


@app.get("/clocks", operation_id="clocks")
def clocks() -> dict:
    with engine.begin() as connection:
        sql = list(connection.execute(text(
            "SELECT datetime('now'), CURRENT_TIMESTAMP, strftime('%s', 'now', '+1 day'), julianday('now'), date(), "
            "random(), hex(randomblob(8)), date('2024-01-31', '+1 month')"
        )).one())
    return {
        "sql": sql, "born": BORN, "now": str(datetime.datetime.now()), "utc": str(datetime.datetime.utcnow()),
        "today": str(datetime.date.today()), "time": time.time(), "local": time.strftime("%H:%M:%S"),
        "random": random.random(), "token": secrets.token_hex(8), "uuid": [str(uuid.uuid4()), str(uuid.uuid1())],
        "urandom": os.urandom(4).hex(), "order": list({"pear", "apple", "fig", "plum", "quince"}),
    }


@app.post("/seen", operation_id="see")
def see() -> list:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO seen (n, u) VALUES (random(), :u)"), {"u": str(uuid.uuid4())})
        return [list(row) for row in connection.execute(text("SELECT at, n, u FROM seen"))]


@app.get("/kernel", operation_id="kernel")
def kernel() -> float:
    return float(open("/proc/uptime").read().split()[0]) if os.path.exists("/proc/uptime") else time.monotonic()


@app.post("/quiet", operation_id="quiet")
def quiet() -> str:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO seen (n) VALUES (:n)"), {"n": time.monotonic_ns()})
    return "done"
"""
)
CALLS = ("clocks", "see", "clocks", "see")


async def played(server: Server, calls: tuple[str, ...] = CALLS) -> tuple[dict[str, Any], list[Made]]:
    """The record of a world in which these calls were made."""
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        made = []
        for name in calls:
            found = await env.call_tool(name, {})
            assert found.error is None, found.error
            made.append(Made(name, {}, json.dumps(found.tool_result), found.metadata["mark"]))
        assert env.world is not None
        return env.world, made


async def replayed(
    server: Server, world: dict[str, Any], made: list[Made], scenario: str = "open_1", task_idx: int = 0
) -> EnvironmentClient:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario=scenario, task_idx=task_idx, state_diff=True)
        await env.begin_as(world)
        for call in made:
            found = await env.call_again(call.name, call.arguments, call.mark)
            assert json.dumps(found.tool_result) == call.seen
        await env.settle()
        return env


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: OpenFolders) -> Path:
    folder = tmp_path_factory.mktemp("clocks")
    return pack(folder / "pack", CLOCKS, inserts=["INSERT INTO t VALUES (abs(random() % 1000))"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders, clocks: Path) -> Iterator[Server]:
    running = start_server(tmp_path_factory.mktemp("worlds"), clocks)
    yield running
    running.stop()


async def test_a_world_is_exact_on_another_server(
    server: Server, make_server: Callable[..., Server], clocks: Path
) -> None:
    world, made = await played(server)
    assert made[0].seen != made[2].seen
    env = await replayed(make_server(clocks), world, made)
    assert (env.restored.calls, env.restored.grade) == (4, "exact")
    assert set(made[1].mark or {}) == {"clock", "answer", "database", "rows"}
    assert set(made[0].mark or {}) == {"clock", "answer"}


async def again(
    server: Server, world: dict[str, Any], made: list[Made], *, singly: bool = False
) -> tuple[list[str], str, EnvironmentClient]:
    """The results of calls made again, and the difference at which they ended."""
    async with EnvironmentClient(server.url) as env:
        env._batches = not singly
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        await env.begin_as(world)
        seen: list[str] = []
        try:
            async for found in env.calls_again((call.name, call.arguments, call.mark) for call in made):
                seen.append(json.dumps(found.tool_result))
            await env.settle()
        except Diverged as differs:
            return seen, str(differs), env
        return seen, "", env


async def test_many_calls_again_take_one_message(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    world, made = await played(server, CALLS * 20)
    kinds: list[str] = []
    exchange = EnvironmentClient._exchange

    async def counted(self: EnvironmentClient, message: dict[str, Any], *rest: Any) -> dict[str, Any]:
        kinds.append(message["type"])
        return await exchange(self, message, *rest)

    monkeypatch.setattr(EnvironmentClient, "_exchange", counted)
    seen, difference, env = await again(server, world, made)
    assert (seen, difference) == ([call.seen for call in made], "")
    assert (env.restored.calls, env.restored.grade) == (80, "exact")
    assert kinds == ["reset", "reset", "batch", "batch"]
    async with EnvironmentClient(server.url) as other:
        await other.reset(scenario="open_1", task_idx=0, state_diff=True)
        await other.replay([replace(call, seen="") for call in made], world)
        assert (other.restored.calls, other.restored.grade) == (80, "exact")


@pytest.mark.parametrize("seed", range(4))
async def test_calls_together_differ_where_they_do_singly(server: Server, seed: int) -> None:
    """One mark of the record is not that of its call: of its answer, its database, or its time."""
    chance = random.Random(seed)
    world, made = await played(server, CALLS * 3)
    place = chance.randrange(1, len(made), 2)
    mark = dict(made[place].mark or {})
    if seed % 2:
        mark |= {"database": "0" * 32, "rows": "0" * 32}
    else:
        mark |= {"clock": mark["clock"] + 1000} if seed else {"answer": "0" * 32}
    made[place] = replace(made[place], mark=mark)
    seen, difference, env = await again(server, world, made)
    alone, same, other = await again(server, world, made, singly=True)
    assert (seen, difference, env.restored) == (alone, same, other.restored)
    assert len(seen) == place and f"call {place + 1}" in difference


async def test_older_servers_get_calls_singly(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    world, made = await played(server)
    exchange = EnvironmentClient._exchange

    async def older(self: EnvironmentClient, message: dict[str, Any], *rest: Any) -> dict[str, Any]:
        kind = "dance" if message["type"] == "batch" else message["type"]
        return await exchange(self, message | {"type": kind}, *rest)

    monkeypatch.setattr(EnvironmentClient, "_exchange", older)
    seen, difference, env = await again(server, world, made)
    assert (seen, difference, env.restored.grade) == ([call.seen for call in made], "", "exact")


async def test_a_world_goes_on_at_its_own_time(server: Server) -> None:
    world, made = await played(server)
    past = {**world, "clock": world["clock"] - 3 * 86_400_000}
    async with EnvironmentClient(server.url, restore=True) as env:
        await env.reset(scenario="open_1", task_idx=0)
        await env.begin_as(past)
        found = await env.call_tool("clocks", {})
        assert abs(json.loads(found.tool_result)["time"] * 1000 - past["clock"]) < 60_000


@pytest.mark.parametrize("each", [1, pytest.param(None, marks=pytest.mark.long)], ids=["first", "all"])
async def test_oracles_are_exact_elsewhere_three_days_on(make_server: Callable[..., Server], each: int | None) -> None:
    """Oracles of each scenario of the starter pack in a world of three days ago, made again by another server and hash
    seed. `tests/runs/play/test_certifying.py` makes all of them again on one server in each run of the tests.
    """
    starter = load_pack(STARTER)
    tasks = [(name, idx) for name in sorted(starter.scenarios) for idx in range(len(starter.tasks(name)))[:each]]
    first = make_server(STARTER, PYTHONHASHSEED="1")
    recorded = []
    for name, idx in tasks:
        async with EnvironmentClient(first.url, restore=True) as env:
            await env.reset(scenario=name, task_idx=idx, state_diff=True)
            assert env.world is not None
            past = {**env.world, "clock": env.world["clock"] - 3 * 86_400_000}
            await env.begin_as(past)
            made = []
            for turn in starter.scripts(name, idx)["oracle"]:
                if call := turn.get("call"):
                    found = await env.call_tool(call["name"], call.get("arguments") or {})
                    seen = json.dumps(found.tool_result)
                    made.append(Made(call["name"], call.get("arguments") or {}, seen, found.metadata["mark"]))
            recorded.append((name, idx, past, made))
    first.stop()
    second = make_server(STARTER, PYTHONHASHSEED="2")
    for name, idx, past, made in recorded:
        env = await replayed(second, past, made, name, idx)
        assert (env.restored.calls, env.restored.grade) == (len(made), "exact"), (name, idx)
    assert len(recorded) == (24 if each is None else len(starter.scenarios))


async def test_a_world_that_differs_is_refused(server: Server) -> None:
    world, made = await played(server, ("see", "kernel", "quiet"))
    with pytest.raises(Diverged, match="kernel, call 2, brings something else now"):
        await replayed(server, world, made)
    with pytest.raises(Diverged, match="quiet, call 2, leaves another database"):
        await replayed(server, world, [made[0], made[2]])
    forged = {**world, "base": {**world["base"], "digest": "0" * 32}}
    with pytest.raises(Diverged, match="The start database is not the one of the record"):
        await replayed(server, forged, made)
    changed = {**forged, "rows": "0" * 32}
    with pytest.raises(Diverged, match="the scenario's rows have changed"):
        await replayed(server, changed, made)


async def test_nothing_of_the_record_reaches_agents(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        plain = await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert "world" not in plain.metadata
        assert "mark" not in (await env.call_tool("see", {})).metadata
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, world=True, control_key="k")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "see"}}
        found = await env._exchange({"type": "mcp", "data": call}, "mcp", 10)
        assert not {"clock", "answer", "database", "mark"} & set(found["result"])
        for wrong in ({"base": 1}, {"seed": "x"}, {"base": {"clock": 1, "digest": "d"}, "clock": "2", "seed": ""}):
            with pytest.raises(ResetFailed, match="'world' must be"):
                await env.reset(scenario="open_1", task_idx=0, world=wrong)


def test_what_clients_say_of_a_record_is_bounded() -> None:
    good = WorldStart(1, "d", "s", 2, "r")
    assert WorldStart.from_wire(good.wire()) == good
    for bad in (None, [], {"base": {}}, {**good.wire(), "clock": -1}, {**good.wire(), "seed": "x" * 999}):
        assert WorldStart.from_wire(bad) is None
    assert CallMark.from_wire({"clock": 5}) == CallMark(5)
    for bad in (None, {}, {"clock": "5"}, {"clock": True}, {"clock": 1 << 60}, {"clock": 5, "more": 1}):
        assert CallMark.from_wire(bad) is None


def test_world_time_stands_while_nobody_lives_in_it() -> None:
    time = WorldTime("seed")
    assert time.moment(1000) == {"clock": 1000, "seed": "seed/1"}
    later = time.moment()
    assert 1000 <= later["clock"] < 60_000 and later["seed"] == "seed/2"


async def test_real_clocks_move_and_chance_stays_recorded(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True, world=True, clocks="real")
        world, found = env.world, await env.call_tool("clocks", {})
    assert world is not None and world["clocks"] == "real"
    first, mark = json.loads(found.tool_result), found.metadata["mark"]
    assert abs(first["time"] - time.time()) < 3600 and set(mark) == {"clock", "answer"}
    past = {**world, "clock": world["clock"] - 3 * 86_400_000}
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert env.world is None
        begun = await env.begin_as(past)
        again = json.loads((await env._call("clocks", {}, {**mark, "clock": past["clock"]})).tool_result)
    assert begun.metadata["world"]["clocks"] == "real"
    assert again["time"] > first["time"] and again["born"] == first["born"]  # when the base was made
    assert [again[name] for name in ("random", "token", "urandom")] == [
        first[name] for name in ("random", "token", "urandom")
    ]
    with pytest.raises(Diverged, match="clocks, call 1, brings something else now"):
        await replayed(server, world, [Made("clocks", {}, found.tool_result, mark)])


async def test_clocks_are_recorded_or_real(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        for wrong in ("frozen", 1, ["real"]):
            with pytest.raises(ResetFailed, match="'clocks' must be recorded or real"):
                await env.reset(scenario="open_1", world=True, clocks=wrong)
