"""A process killed from outside is the environment's fault; one that the agent's own call kills is an answer."""

import asyncio
import contextlib
import glob
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.testing import MemoryDashboard
from awmclient.words.toolcalls import Call
from awmenv.client import EnvironmentClient
from awmenv.errors import WorldLost
from awmenv.server.session.sessions import KILLS
from tests.awmenv.conftest import OpenFolders, Server, eventually, start_server
from tests.awmenv.hostile_packs import pack


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("lost")
    rows = pack(folder / "pack")
    code = "def verify_task_completion(initial_db, final_db, final_answer=None):\n    return {'result': 'others'}\n"
    verifier = {"scenario": "open_1", "task_idx": 0, "verification": {"code": code}}
    (rows / "gen_verifier.pure_code.jsonl").write_text(json.dumps(verifier) + "\n", encoding="utf-8")
    running = start_server(folder, rows)
    yield running
    running.stop()


def session_pids(server: Server) -> set[int]:
    """Server, zygote, template, session: each is the child of the one before."""
    generation = psutil.Process(server.process.pid).children()
    for _ in range(2):
        generation = [child for one in generation for child in children(one)]
    return {one.pid for one in generation}


def children(one: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return one.children()
    return []


def kill_sessions(server: Server) -> None:
    pids = session_pids(server)
    assert len(pids) == 1
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not any(map(psutil.pid_exists, pids)))


def body(code: str) -> dict[str, str]:
    return {"code": f"def verify_task_completion(a, b):\n    {code}\n    return {{}}\n"}


WAITS = """import os, time
    open('begun', 'w').close()
    while not os.path.exists('go'):
        time.sleep(0.01)"""
"""A call that says when it begins and ends when it may."""


def begun(server: Server) -> list[str]:
    return glob.glob(f"{server.run_dir}/**/begun", recursive=True)


async def test_world_killed_between_calls_is_lost_without_outcome(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert (await env.call_tool("add_row")).ok
        await asyncio.to_thread(kill_sessions, server)
        for _ in range(2):
            with pytest.raises(WorldLost, match="not by this call"):
                await env.call_tool("add_row")
        said = await env.verify()
        assert said.reward_type == "judge_error" and "environment was lost" in said.verify_result["error_message"]


async def test_a_world_killed_in_the_middle_of_a_call_is_lost(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert (await env.call_tool("add_row")).ok
        calling = asyncio.create_task(env.call_tool("run_code", body(WAITS)))
        assert await asyncio.to_thread(eventually, lambda: begun(server))
        await asyncio.to_thread(kill_sessions, server)
        while not calling.done():
            for path in begun(server):
                Path(path).with_name("go").touch()
            await asyncio.sleep(0.02)
        with pytest.raises(WorldLost, match="does not end a fresh one"):
            await calling


async def test_call_killing_every_fresh_process_is_a_tool_error(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert (await env.call_tool("add_row")).ok
        found = await env.call_tool("run_code", body("import os; os._exit(0)"))
        assert found.reward_type == "server_error" and KILLS in str(found.error)
        assert found.metadata["world"] == "dead"
        assert (await env.call_tool("add_row")).metadata["world"] == "dead"
        said = await env.verify()
        assert said.reward_type == "others", said  # what the agent did is judged
    assert await asyncio.to_thread(eventually, lambda: not session_pids(server))


async def test_call_killing_on_session_rows_only_is_detected(server: Server) -> None:
    count = "import os, sqlite3; rows = sqlite3.connect(a).execute('SELECT count(*) FROM t').fetchone()[0]"
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1", task_idx=0, state_diff=True)
        assert (await env.call_tool("add_row")).ok
        found = await env.call_tool("run_code", body(f"{count}; rows and os._exit(0)"))
        assert KILLS in str(found.error), found


class Kills:
    """Calls a tool twice; the session's process is killed before the second call."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def act(self, view: Any) -> Turn:
        if view.turn == 2:
            await asyncio.to_thread(kill_sessions, self.server)
        if view.turn > 3:
            return Turn(answer="done")
        return Turn(calls=[Call("add_row", {})])


async def test_rollout_in_a_lost_world_ends_with_environment_fault(server: Server) -> None:
    verified = []

    async def verify(*_about: Any) -> None:
        verified.append(True)

    async with EnvironmentClient(server.url) as env:
        result = await rollout(
            Kills(server), env, MemoryDashboard(), task="add rows", scenario="open_1", task_idx=0, on_end=verify
        )
    assert (result.fault, result.stop_reason, verified) == ("environment", None, [])
    assert "lost the application's process" in result.detail
