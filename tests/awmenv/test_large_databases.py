"""Work that SQLite does in temporary files: in sessions, verifiers and differences it has to work behind the walls."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from awmenv.client import EnvironmentClient
from awmenv.server.verifier import run_verifier
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import pack

SERIES = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 30000)"
SORT = "SELECT count(*) FROM (SELECT DISTINCT n, hex(randomblob(400)) FROM r ORDER BY 2)"
QUERY = f"""
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import os, sqlite3
    connection = sqlite3.connect(final_db_path)
    found = connection.execute("{SERIES} {SORT}").fetchone()[0]
    return {{"result": "others", "found": found, "files": sorted(os.listdir(".")) if final_answer is None else None}}
"""
LARGE = f"{SERIES} INSERT INTO big SELECT n, hex(randomblob(300)) FROM r"


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("large")
    large = ["CREATE TABLE big (x INTEGER PRIMARY KEY, y TEXT)", LARGE]
    running = start_server(folder, pack(pack(folder / "pack"), name="large", inserts=large))
    yield running
    running.stop()


async def test_session_sorts_more_than_its_page_cache(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1")
        answer = await env.call_tool("run_code", {"code": QUERY})
        assert json.loads(str(answer.tool_result)) == {"result": "others", "found": 30000, "files": ["world.db"]}


async def test_verifier_sorts_more_than_its_page_cache(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        (tmp_path / name).touch()
    files = [str(tmp_path / name) for name in ("a.db", "b.db")]
    result = await asyncio.to_thread(run_verifier, QUERY, "code", *files, "")
    assert result["execution_status"] == "success" and result["raw_result"]["found"] == 30000, result


async def test_difference_of_large_tables_is_told(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="large", state_diff=True)
        added = await env.call_tool("add_row")
        assert added.state_diff == {"t": {"added": [{"x": 1}], "removed": [], "changed": [], "more": 0}}
