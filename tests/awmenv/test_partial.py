"""Scenarios where single SQL statements fail: played without them, and called partial wherever people look."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from awmenv.models import BuildReport
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack
from tests.awmenv.test_agent_channel import rpc

INSERTS = ["INSERT INTO t VALUES (7)", "INSERT INTO gone VALUES (1)", "INSERT INTO t VALUES (7)"]
APP = (
    RUN_CODE
    + """
@app.get("/gone", operation_id="list_gone")
def list_gone() -> int:
    with engine.begin() as connection:
        return connection.execute(text("SELECT count(*) FROM gone")).scalar()
"""
)
VERIFIER = "def verify_task_completion(a, b, c=None):\n    return {'result': 'others'}\n"


def partial_pack(folder: Path, name: str = "open_1") -> Path:
    pack(folder, APP, name, inserts=INSERTS)
    with (folder / "gen_verifier.pure_code.jsonl").open("a", encoding="utf-8") as stream:
        row = {"scenario": name, "task_idx": 0, "verification": {"code": VERIFIER}}
        stream.write(json.dumps(row) + "\n")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("partial")
    running = start_server(folder, pack(partial_pack(folder / "pack"), name="whole_1"), own_zygotes=False)
    yield running
    running.stop()


async def test_reset_and_verdict_tell_the_control_side(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        started = await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        report = BuildReport.from_wire(started.metadata["partial"])
        assert report is not None and (report.statements, report.failures) == (4, 2)
        assert "no such table: gone" in report.failed[0] and "UNIQUE" in report.failed[1]
        assert json.loads(str((await env.call_tool("add_row")).tool_result)) == 2, (
            "the row that could be built is there"
        )
        assert (await env.verify()).metadata["partial"] == started.metadata["partial"]
        assert "partial" not in (await env.reset(scenario="whole_1", state_diff=True)).metadata


async def test_tool_that_misses_a_table_says_so_to_people_only(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", state_diff=True)
        failed = await env.call_tool("list_gone")
        assert failed.metadata["detail"].startswith("The scenario is partial, which may be the reason: 2 of 4")
        assert "no such table: gone" in failed.metadata["detail"]
        assert failed.error == "Error calling list_gone. Status code: 500. Response: Internal Server Error"


async def test_agents_channel_and_plain_resets_say_nothing_of_it(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        assert (await env.reset(scenario="open_1", task_idx=0)).metadata == {}
        assert "partial" not in (await env.verify()).metadata
    name = rpc(server, "openenv/session/create")["result"]["session_id"]
    async with connect(f"{server.url.replace('http', 'ws')}/ws?session_id={name}", proxy=None) as socket:
        await socket.send(json.dumps({"type": "reset", "data": {"scenario": "open_1", "state_diff": True}}))
        assert "partial" in json.loads(await socket.recv())["data"]["observation"]["metadata"]
        said = (
            rpc(server, "tools/list", session_id=name),
            rpc(server, "tools/call", session_id=name, name="list_gone", arguments={}),
        )
        assert "partial" not in json.dumps(said) and "no such table" not in json.dumps(said)
    rpc(server, "openenv/session/close", session_id=name)


async def test_stats_name_partial_scenarios_that_were_built(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1")
        await env.reset(scenario="whole_1")
    (found,) = json.loads(server.get("/stats"))["partial"].items()
    assert found[0] == "open_1" and (found[1]["failures"], found[1]["statements"], len(found[1]["reasons"])) == (
        2,
        4,
        2,
    )


async def test_setting_refuses_partial_scenarios(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(partial_pack(tmp_path / "pack"), AWMENV_PARTIAL="0")
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(ResetFailed, match="2 of 4 SQL statements fail") as caught:
            await env.reset(scenario="open_1")
        assert caught.value.code == "database_broken"
    assert json.loads(server.get("/stats"))["partial"] == {}, "it plays none"


async def test_scenario_without_any_table_is_refused(make_server: Callable[..., Server], tmp_path: Path) -> None:
    folder = partial_pack(tmp_path / "pack")
    (folder / "gen_db.jsonl").write_text((folder / "gen_db.jsonl").read_text().replace("CREATE TABLE", "CREATE TABEL"))
    async with EnvironmentClient(make_server(folder).url) as env:
        with pytest.raises(ResetFailed, match="statements fail"):
            await env.reset(scenario="open_1")
