"""The end state is what was committed: what an open or broken transaction has spilled into the file is never judged."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from awmenv.client import EnvironmentClient
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack

pytestmark = pytest.mark.attack("apps")

TRANSACTION = (
    RUN_CODE
    + """
import sqlite3, time

held = []

@app.post("/begin", operation_id="begin")
def begin(journal: str, then: str) -> int:
    connection = sqlite3.connect("world.db", isolation_level=None)
    held.append(connection)
    connection.execute(f"PRAGMA journal_mode={journal}").fetchone()
    connection.execute("PRAGMA cache_size=2")
    connection.execute("INSERT INTO t VALUES (1)")
    if then == "commit_first":
        return 1
    file = "world.db-wal" if journal == "WAL" else "world.db"
    before = os.stat(file)
    time.sleep(0.02)
    connection.execute("BEGIN")
    connection.execute("UPDATE big SET y = 'changed' || substr(y, 8)")
    assert os.stat(file).st_mtime_ns != before.st_mtime_ns, "the transaction did not spill"
    if then == "die":
        os._exit(1)
    while then == "hang":
        time.sleep(1)
    return 0
"""
)
FIRST_ROW = '    connection.execute("INSERT INTO t VALUES (1)")\n'
COUNT = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3
    counts = []
    for path in (initial_db_path, final_db_path):
        connection = sqlite3.connect(path)
        counts.append(connection.execute("SELECT count(*) FROM t").fetchone()[0])
        changed = connection.execute("SELECT count(*) FROM big WHERE y LIKE 'changed%'").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return {"result": "complete" if changed else "others", "counts": counts}
"""
AT_IMPORT = (
    RUN_CODE
    + """
import sqlite3

open_one = sqlite3.connect("world.db", isolation_level=None)
open_one.execute("PRAGMA journal_mode=WAL").fetchone()
open_one.execute("PRAGMA cache_size=2")
open_one.execute("INSERT INTO t VALUES (1)")
open_one.execute("BEGIN")
open_one.execute("UPDATE big SET y = 'changed' || substr(y, 8)")
"""
)
SERIES = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 3000)"
LARGE = f"{SERIES} INSERT INTO big SELECT n, hex(zeroblob(100)) FROM r"
ON_DISK, NOWHERE = ("DELETE", "TRUNCATE", "PERSIST", "WAL"), ("MEMORY", "OFF")


def with_verifier(folder: Path, code: str, name: str) -> Path:
    pack(folder, code, name, inserts=["CREATE TABLE big (x INTEGER PRIMARY KEY, y TEXT)", LARGE])
    with (folder / "gen_verifier.pure_code.jsonl").open("a", encoding="utf-8") as stream:
        row = {"scenario": name, "task_idx": 0, "verification": {"code": COUNT}}
        stream.write(json.dumps(row) + "\n")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("committed")
    with_verifier(folder / "pack", TRANSACTION, "transaction_1")
    with_verifier(folder / "pack", AT_IMPORT, "at_import_1")
    with_verifier(folder / "pack", TRANSACTION.replace(FIRST_ROW, "    pass\n"), "nothing_else_1")
    running = start_server(folder, folder / "pack", AWMENV_CALL_TIMEOUT="6")
    yield running
    running.stop()


@pytest.mark.parametrize("then", ["stay", "die"])
@pytest.mark.parametrize("journal", ON_DISK)
async def test_verdict_is_on_committed_rows_whatever_the_journal(server: Server, journal: str, then: str) -> None:
    await is_judged_by_committed_rows(server, journal, then)


async def test_calls_that_hang_are_judged_as_those_that_end(server: Server) -> None:
    """All journals beside each other, as each call is waited for."""
    await asyncio.gather(
        *(is_judged_by_committed_rows(server, journal, "hang") for journal in ON_DISK),
        *(is_refused(server, journal, "hang") for journal in NOWHERE),
    )


async def is_judged_by_committed_rows(server: Server, journal: str, then: str) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="transaction_1", task_idx=0, state_diff=True)
        called = await env.call_tool("begin", {"journal": journal, "then": then})
        assert called.ok == (then == "stay"), called
        found = await env.verify()
        assert found.verify_result is not None
        assert found.verify_result["raw_result"] == {"result": "others", "counts": [0, 1]}, found.verify_result
        assert [row["x"] for row in (found.state_diff or {})["t"]["added"]] == [1]


@pytest.mark.parametrize("journal", NOWHERE)
async def test_open_transaction_without_a_journal_is_refused(server: Server, journal: str) -> None:
    await is_refused(server, journal, "stay")


async def is_refused(server: Server, journal: str, then: str) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="transaction_1", task_idx=0)
        await env.call_tool("begin", {"journal": journal, "then": then})
        found = await env.verify()
        assert (found.reward_type, found.reward) == ("judge_error", 0.0)
        assert "no journal" in str(found.verify_result)


@pytest.mark.parametrize("journal", NOWHERE)
async def test_death_without_a_journal_is_refused(server: Server, journal: str) -> None:
    """Nothing that this call wrote was committed, as the app writes no row before the transaction."""
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="nothing_else_1", task_idx=0)
        await env.call_tool("begin", {"journal": journal, "then": "die"})
        found = await env.verify()
        assert found.reward_type == "judge_error" and "no journal" in str(found.verify_result)


@pytest.mark.parametrize("journal", [*ON_DISK, *NOWHERE])
async def test_committed_rows_are_judged_whatever_the_journal(server: Server, journal: str) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="transaction_1", task_idx=0, state_diff=True)
        called = await env.call_tool("begin", {"journal": journal, "then": "commit_first"})
        assert called.ok, called.error
        assert called.state_diff == {"t": {"added": [{"x": 1}], "removed": [], "changed": [], "more": 0}}
        found = await env.verify()
        assert found.verify_result is not None and found.verify_result["raw_result"]["counts"] == [0, 1]


async def test_session_begins_with_what_the_import_committed(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="at_import_1", task_idx=0)
        found = await env.verify()
        assert found.verify_result is not None and found.verify_result["raw_result"]["counts"] == [1, 1]
