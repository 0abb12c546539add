"""Processes that an app's import leaves, or makes at each fork: counted against the sessions there are, and ended."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from tests.awmenv.conftest import OpenFolders, Server, eventually, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack
from tests.awmenv.test_ordinary_user import USER, python  # noqa: F401 - a fixture

pytestmark = [pytest.mark.attack("apps"), pytest.mark.long]

FORKS = """
import time

def leave(count, fork=os.fork):
    for _ in range(count):
        try:
            if fork() == 0:
                time.sleep(600)
        except OSError:
            return

def {name}(fork=os.fork, forks=[]):
    forks.append(1)
    if len(forks) == 1:
        return fork()  # the trial of its reads, which would wait for what is left
    {before}
    pid = fork()
    {after}
    return pid

os.fork = {name}
"""
SCENARIOS = {
    "at_import": RUN_CODE + FORKS.format(name="same", before="pass", after="pass") + "leave(300)\n",
    "at_each_fork": RUN_CODE + FORKS.format(name="hooked", before="leave(5)", after="pass"),
    "many_at_each_fork": RUN_CODE + FORKS.format(name="flood", before="leave(300)", after="pass"),
    "below_each_session": RUN_CODE + FORKS.format(name="inside", before="pass", after="pid or leave(5)"),
}
SOON_S = 40  # a look each second, every fifth one deep, on a machine that does other things


@pytest.fixture(scope="module", params=["root", "ordinary"])
def server(tmp_path_factory: OpenFolders, request: pytest.FixtureRequest) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("strays")
    pack(folder / "pack")
    for name, code in SCENARIOS.items():
        pack(folder / "pack", code, name)
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("started as an ordinary user")
    if request.param == "root":
        running = start_server(folder, folder / "pack")
    else:
        folder.chmod(0o777)
        running = start_server(folder, folder / "pack", USER, request.getfixturevalue("python"))
    yield running
    running.stop()


def processes(server: Server) -> int:
    return len(psutil.Process(server.process.pid).children(recursive=True))


FLOOD = "many_at_each_fork"
"""Has more processes than one look ends. Its scenario is ended by rule if several looks find some."""


async def come_to(server: Server, count: int, fewest: int | None = None) -> None:
    """Fewer than these would mean that a session was taken for a stray."""
    fewest, ends = count if fewest is None else fewest, time.monotonic() + SOON_S
    while not fewest <= processes(server) <= count and time.monotonic() < ends:
        await asyncio.sleep(0.1)
    assert fewest <= processes(server) <= count


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_processes_without_a_session_are_ended(server: Server, scenario: str) -> None:
    async with EnvironmentClient(server.url) as good, EnvironmentClient(server.url) as bad:
        await good.reset(scenario="open_1")
        before = processes(server)
        try:
            await bad.reset(scenario=scenario)
            live = 2  # its template and its session
        except ResetFailed as error:
            assert "no process" in str(error), "it had used up the processes it may have"
            live = 0
        assert processes(server) < before + 350
        is_flood = scenario == FLOOD
        await come_to(server, before + live, before if is_flood else None)
        assert (await good.call_tool("add_row")).ok
        if live:
            goes_on = (await bad.call_tool("add_row")).ok
            assert goes_on or (is_flood and processes(server) < before + live), "its own session goes on"
        await bad.close()
        await come_to(server, before + live // 2, before if is_flood else None)


async def test_scenario_that_leaves_processes_again_and_again_ends(server: Server) -> None:
    async with EnvironmentClient(server.url) as env, EnvironmentClient(server.url) as good:
        await good.reset(scenario="open_1")
        before, ends = processes(server), time.monotonic() + 120
        while time.monotonic() < ends:
            await env.reset(scenario="at_each_fork")
            assert await asyncio.to_thread(eventually, lambda: processes(server) <= before + 2)  # counted and ended
            if (await env.call_tool("add_row")).reward_type == "server_error":
                break
        else:
            raise AssertionError("it goes on for ever")
        assert (await good.call_tool("add_row")).ok


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's limit counts all that the user runs")
async def test_template_may_fork_little_more_than_its_sessions(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server(pack(tmp_path / "pack", SCENARIOS[FLOOD], "flood_1"))
    async with EnvironmentClient(server.url) as env:
        resetting, most = asyncio.create_task(env.reset(scenario="flood_1")), 0
        while not resetting.done():
            most = max(most, processes(server))
            await asyncio.sleep(0.02)
        assert isinstance(resetting.exception(), ResetFailed)
        assert most < 40, "two zygotes, the template and what it may fork beside its sessions"


async def test_sixty_sessions_of_one_scenario_are_no_strays(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(pack(tmp_path / "pack"))
    clients = [EnvironmentClient(server.url) for _ in range(60)]
    for client in clients:
        await client.open()
    for _round in range(3):
        await asyncio.gather(*(client.reset(scenario="open_1") for client in clients))
        # the server looks for strays about once a second, and shows nothing when it has found none
        await asyncio.sleep(1.5)
        answers = await asyncio.gather(*(client.call_tool("add_row") for client in clients))
        assert all(answer.ok for answer in answers)
    await come_to(server, 63)
    for client in clients:
        await client.close()
    await come_to(server, 3)
