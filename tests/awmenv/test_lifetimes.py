# ruff: noqa: E501 - hostile code reads best unbroken
"""Nothing outlives what it belongs to: not the server, not the session, not the connection."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, WorldLost
from awmenv.server.workplace import Workplace
from tests.awmenv.conftest import EVER_S, ROOT, TINY, OpenFolders, Server, eventually, launch, start_server
from tests.awmenv.hostile_packs import pack
from tests.examples import some_of


def family(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def gone(processes: list[psutil.Process], seconds: float = EVER_S) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def sessions(server: Server) -> int:
    return int(json.loads(server.get("/stats"))["sessions"])


@pytest.mark.parametrize("end", some_of([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
async def test_no_process_or_file_outlives_the_server(
    make_server: Callable[..., Server], tmp_path: Path, end: signal.Signals
) -> None:
    server = make_server()
    async with EnvironmentClient(server.url) as env, EnvironmentClient(server.url) as other:
        await env.reset(scenario="notes_1")
        await other.reset(scenario="lamps_1")
        # Two zygotes, two templates, two sessions; a zygote's short-lived errand may still be seen at first.
        assert await asyncio.to_thread(eventually, lambda: len(family(server)) == 6)
        processes = family(server)
        assert list(tmp_path.glob("awmenv-*"))
        server.process.send_signal(end)
        assert server.process.wait(EVER_S) == (-end if end == signal.SIGKILL else 0)
        assert gone(processes)
        assert end == signal.SIGKILL or list(tmp_path.glob("awmenv-*")) == []


async def test_what_a_killed_server_left_behind_is_swept_by_the_next(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    first = make_server()
    left = set(tmp_path.glob("awmenv-*"))
    first.process.kill()
    first.process.wait()
    second = make_server()
    assert not left & set(tmp_path.glob("awmenv-*"))
    assert second.get("/health")


def test_a_living_owners_folder_is_not_swept(tmp_path: Path) -> None:
    first, second = Workplace(str(tmp_path)), Workplace(str(tmp_path))
    assert first.path.exists() and second.path.exists()
    assert os.geteuid() != 0 or first.uid != second.uid
    first.remove()
    second.remove()


async def test_process_forked_at_app_import_is_killed(make_server: Callable[..., Server], tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0:\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\nraise RuntimeError\n"
    server = make_server(pack(tmp_path / "pack", code))
    before = len(family(server))
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(Exception, match="does not load"):
            await env.reset(scenario="open_1")
    assert eventually(lambda: len(family(server)) <= before)


DYNASTY = """
import os, socket, sys, time
from awmenv.server.sandbox import confine, zygote

def found_dynasty(request, fds):
    hear, tell = os.pipe()
    for _generation in range(request["generations"]):
        if os.fork():
            time.sleep(0 if _generation == 0 else 600)
            break
    else:
        os.write(tell, b"!")
        time.sleep(600)
    os.read(hear, 1)
    os._exit(0)

confine.prctl(confine.PR_SET_CHILD_SUBREAPER, 1)
zygote.Zygote(socket.socket(fileno=int(sys.argv[1])), found_dynasty).run()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans fall to a subreaper, which is Linux's")
def test_strays_end_however_many_generations_they_are() -> None:
    """Each is an orphan only when the one before it has ended, which takes long on a busy machine."""
    generations = 25
    control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    leash, far_leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with control, leash:
        with far, far_leash:
            process = subprocess.Popen(
                [sys.executable, "-c", DYNASTY, str(far.fileno())], cwd=ROOT, pass_fds=[far.fileno()]
            )
            socket.send_fds(control, [json.dumps({"generations": generations}).encode()], [far_leash.fileno()])
        leash.settimeout(EVER_S)
        assert json.loads(leash.recv(1 << 16))["exit"] == 0, "who founded it has ended"
        descendants = psutil.Process(process.pid).children
        # psutil reads one process after another, so an orphan between two parents is in no single list
        assert eventually(lambda: not any(descendants(recursive=True) for _look in range(3)), 2 * EVER_S)
    assert process.wait(EVER_S) == 0


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    """A server that outlives what is done to it; its tests stand in an order in which each finds what it needs."""
    running = start_server(tmp_path_factory.mktemp("lasting"))
    yield running
    running.stop()


async def test_many_resets_at_once_share_one_loading(lasting: Server) -> None:
    clients = [EnvironmentClient(lasting.url) for _ in range(12)]
    for client in clients:
        await client.open()
    started = await asyncio.gather(*(client.reset(scenario="notes_1") for client in clients))
    assert {one.reward_type for one in started} == {"reset_ok"}
    assert json.loads(lasting.get("/stats"))["warm_scenarios"] == 1
    assert all(one.ok for one in await asyncio.gather(*(client.call_tool("list_notes") for client in clients)))
    for client in clients:
        await client.close()


@pytest.mark.parametrize("how", ["close", "abort", "reset", "done"])
async def test_session_ends_with_connection_reset_or_episode(lasting: Server, how: str) -> None:
    env = EnvironmentClient(lasting.url)
    await env.open()
    await env.reset(scenario="notes_1")
    # Two zygotes, a template, a session; a zygote's short-lived errand may still be seen at first.
    assert await asyncio.to_thread(eventually, lambda: len(family(lasting)) == 4)
    started = {process.pid for process in family(lasting)}
    assert sessions(lasting) == 1
    if how == "close":
        await env.close()
    elif how == "abort":
        assert env._socket is not None
        env._socket.transport.abort()
    elif how == "reset":
        await env.reset(scenario="notes_1")
    else:
        await env.done()

    def one_has_gone() -> bool:
        return len(started & {process.pid for process in family(lasting)}) == len(started) - 1

    assert await asyncio.to_thread(eventually, one_has_gone)
    assert await asyncio.to_thread(eventually, lambda: sessions(lasting) == (1 if how == "reset" else 0))
    await env.close()


def zygotes(server: Server) -> dict[str, psutil.Process]:
    """The living zygotes; that of the scenarios has children. A short-lived errand may be beside them for a moment."""
    found: dict[str, list[psutil.Process]] = {"scenario_zygote": [], "verifier_zygote": []}
    for one in psutil.Process(server.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.status() != psutil.STATUS_ZOMBIE:
                found["scenario_zygote" if one.children() else "verifier_zygote"].append(one)
    return {name: ones[0] for name, ones in found.items() if len(ones) == 1}


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("which", ["scenario_zygote", "verifier_zygote"])
async def test_a_killed_zygote_costs_its_sessions_and_not_the_server(lasting: Server, which: str) -> None:
    async with EnvironmentClient(lasting.url) as env:
        await env.reset(scenario="notes_1", task_idx=1)
        assert await asyncio.to_thread(eventually, lambda: len(zygotes(lasting)) == 2)
        zygote = zygotes(lasting)[which]
        ending = [zygote, *(zygote.children(recursive=True) if which == "scenario_zygote" else ())]
        zygote.kill()
        assert await asyncio.to_thread(eventually, lambda: all(map(has_ended, ending)))
        answer = await env.call_tool("list_notes")
        assert answer.ok == (which == "verifier_zygote")
        await env.reset(scenario="notes_1", task_idx=1)
        assert (await env.call_tool("list_notes")).ok
        assert (await env.verify(final_answer="3")).reward_type == "complete"


async def test_a_call_ends_with_the_connection_that_made_it(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """A client that leaves must not keep a core busy until the timeout of its last call."""
    server = make_server(pack(tmp_path / "pack"), AWMENV_CALL_TIMEOUT="600")
    env = EnvironmentClient(server.url)
    await env.open()
    await env.reset(scenario="open_1")
    before = {process.pid for process in family(server)}
    spinning = asyncio.ensure_future(
        env.call_tool("run_code", {"code": "open('begun', 'w').close()\nwhile True: pass"})
    )
    assert await asyncio.to_thread(eventually, lambda: bool(list(tmp_path.glob("awmenv-*/**/begun"))))
    assert env._socket is not None
    env._socket.transport.abort()
    with pytest.raises(AwmenvError):
        await spinning
    assert await asyncio.to_thread(eventually, lambda: len(before - {process.pid for process in family(server)}) == 1)
    assert sessions(server) == 0 and json.loads(server.get("/stats"))["faults"] == {}


async def test_an_idle_world_is_ended_and_says_why(make_server: Callable[..., Server]) -> None:
    """Where its steps are recorded, it is lost: no call may make a fresh one of it."""
    server = make_server(AWMENV_IDLE_S="3")
    async with EnvironmentClient(server.url) as env, EnvironmentClient(server.url) as recorded:
        await env.reset(scenario="notes_1")
        await recorded.reset(scenario="notes_1", task_idx=0, state_diff=True)
        assert await asyncio.to_thread(eventually, lambda: json.loads(server.get("/stats"))["faults"].get("host") == 2)
        refused = await env.call_tool("list_notes")
        assert (refused.reward_type, "unused for more than 3 s" in str(refused.error)) == ("server_error", True)
        with pytest.raises(WorldLost, match="unused for more than 3 s"):
            await recorded.call_tool("list_notes")
        await env.reset(scenario="notes_1")
        assert (await env.call_tool("list_notes")).ok


async def test_fewer_warm_templates_than_scenarios_are_enough(make_server: Callable[..., Server]) -> None:
    server = make_server(AWMENV_WARM_SCENARIOS="1")
    async with EnvironmentClient(server.url) as ada, EnvironmentClient(server.url) as edo:
        for _time in range(3):
            await ada.reset(scenario="notes_1")
            await edo.reset(scenario="lamps_1")
            assert (await ada.call_tool("list_notes")).ok and (await edo.call_tool("list_lamps")).ok
        assert json.loads(server.get("/stats"))["warm_scenarios"] <= 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("AWMENV_VERIFIER_TIMEOUT", "soon"), ("AWMENV_MIN_TIER", "high"), ("AWMENV_MAX_SESSIONS", "0")],
)
def test_a_bad_setting_stops_the_start_with_the_reason(name: str, value: str) -> None:
    process = launch("--packs", str(TINY), "--port", "0", environment={**os.environ, name: value})
    assert process.wait(60) == 2
    said = process.stdout.read()
    assert name in said and value in said
