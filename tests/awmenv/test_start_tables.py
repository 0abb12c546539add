"""The start tables for a dashboard: signed questions alone, bounded answers, hostile names and values inert."""

from __future__ import annotations

import json
import sqlite3
import time
import urllib.error
import urllib.request

import pytest

from awmenv.attesting import NotAttested, asked, opened, question, signed
from awmenv.client import EnvironmentClient
from awmenv.server.sandbox import plain
from awmenv.server.verify import listing
from tests.awmenv.conftest import TINY, start_server

KEY = "k" * 40


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "key").write_text(KEY)
    server = start_server(folder, TINY, own_zygotes=False, AWMENV_ATTEST_KEY_FILE=str(folder / "key"))
    yield server
    server.stop()


def ask(server, body):
    request = urllib.request.Request(f"{server.url}/start_tables", json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


async def began(server, scenario="notes_1"):
    """The base of a recorded world: the clock and the digest of its start database."""
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario=scenario, task_idx=0, state_diff=True, world=True)
        await env.done()
        return env.world["base"]


def about(base, **more):
    return {"scenario": "notes_1", "clock": base["clock"], "digest": base["digest"], "table": "", "offset": 0, **more}


async def test_signed_question_gets_tables_and_rows(keyed):
    base = await began(keyed)
    status, found = ask(keyed, question(KEY, about(base)))
    assert status == 200, found
    name = found["tables"][0]["name"]
    _, rows = ask(keyed, question(KEY, about(base, table=name)))
    assert len(rows["rows"]) == rows["tables"][0]["rows"] and len(rows["rows"][0]) == len(rows["columns"])
    _, later = ask(keyed, question(KEY, about(base, table=name, offset=1)))
    assert later["rows"] == rows["rows"][1:]


async def test_question_without_the_key_is_refused(keyed):
    base = await began(keyed)
    stale = question(KEY, {**about(base), "at": int(time.time()) - 1000})
    statement = signed(KEY, about(base))
    forged = {"question": statement["statement"], "signature": statement["signature"]}
    for body in ({}, [], about(base), question("other", about(base)), stale, forged):
        assert ask(keyed, body)[0] == 403, body
    with pytest.raises(NotAttested):
        opened(KEY, {"statement": question(KEY, {})["question"], "signature": question(KEY, {})["signature"]})
    with pytest.raises(NotAttested):
        asked(KEY, {"question": "é", "signature": "é"})


async def test_other_database_or_scenario_is_refused(keyed):
    base = await began(keyed)
    assert ask(keyed, question(KEY, about(base, digest="0" * 32)))[0] == 409
    assert ask(keyed, question(KEY, about(base, scenario="no_such_1")))[0] == 404
    for more in ({"offset": -1}, {"clock": "1"}, {"table": "x" * 300}, {"more": 1}):
        assert ask(keyed, question(KEY, about(base, **more)))[0] == 422, more


async def test_neither_channel_tells_start_tables(keyed):
    base = await began(keyed)
    call = {"jsonrpc": "2.0", "id": 1, "method": "start_tables", "params": question(KEY, about(base))}
    request = urllib.request.Request(f"{keyed.url}/mcp", json.dumps(call).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert "error" in json.loads(answer.read())
    async with EnvironmentClient(keyed.url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        said = await env.call_tool("start_tables", {})
    assert said.reward_type == "tool_not_found"


def test_server_without_a_key_answers_no_question(tmp_path):
    server = start_server(tmp_path, TINY, own_zygotes=False)
    try:
        status, said = ask(server, question("", about({"clock": 1, "digest": "0"})))
        assert status == 403 and "AWMENV_ATTEST_KEY_FILE" in said["detail"]
    finally:
        server.stop()


def test_listing_is_bounded_and_names_are_inert(tmp_path):
    file = tmp_path / "hostile.db"
    connection = sqlite3.connect(file)
    name = 'x"; DROP TABLE y; --'
    quoted = '"' + name.replace('"', '""') + '"'
    columns = ", ".join(f'"c{n} <b>"' for n in range(100))
    connection.execute(f"CREATE TABLE {quoted} ({columns})")
    connection.execute("CREATE TABLE y (id INTEGER PRIMARY KEY, text)")
    connection.executemany("INSERT INTO y VALUES (?, ?)", ((n, "z" * 5000) for n in range(300)))
    connection.execute("INSERT INTO y VALUES (1000, ?)", (b"\x00" * 9,))
    connection.execute(f'INSERT INTO {quoted} ("c0 <b>") VALUES (9e999)')
    for n in range(300):
        connection.execute(f"CREATE TABLE t{n:03} (a)")
    connection.commit()
    connection.close()
    found = listing.listed(str(file), {"table": name, "offset": 0})
    assert found["more"] == 102 and len(found["tables"]) == 200
    assert len(found["columns"]) == 64 and found["rows"][0][0] == "inf"
    rows = listing.listed(str(file), {"table": "y", "offset": 0})
    assert 0 < len(rows["rows"]) < 200 and len(rows["rows"][0][1]) < 1100 and rows["key"] == ["id"]
    assert listing.listed(str(file), {"table": "y", "offset": 300})["rows"] == [[1000, "<9 bytes>"]]
    assert "rows" not in listing.listed(str(file), {"table": "sqlite_master", "offset": 0})
    assert len(json.dumps(plain.plain(rows))) < plain.MAX_SIZE
