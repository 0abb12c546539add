# ruff: noqa: E501 - hostile code reads best unbroken
"""The same attacks from scenario code, in an endpoint and at import; and what one scenario may not do to another."""

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from awmenv.packs import Pack, load_pack
from awmenv.server.session.hosts import CONCURRENT_STARTS
from awmenv.server.session.scenario import ScenarioPool
from awmenv.server.session.shared import World
from awmenv.server.settings import Settings
from tests.awmenv.arena import Arena, arena_in, breaches
from tests.awmenv.attacks import ATTACKS, LOOKING, ROWS, TAMPERING, Attack
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack

pytestmark = [pytest.mark.attack("apps"), pytest.mark.long]

# A scenario owns its database and may map code; it stays in its folder all the same.
ALLOWED = {"rwx_memory", "socketpair", *(attack.name for attack in TAMPERING)}
FORBIDDEN = [attack for attack in ATTACKS if attack.name not in ALLOWED]
# While a template imports its app it may fork, because it must fork sessions later.
AT_IMPORT = [attack for attack in FORBIDDEN if attack.name != "fork_alone"]


BAD_APPS = {
    "raises": "raise RuntimeError('no')",
    "exits": "raise SystemExit(0)",
    "leaves": "import os\nos._exit(0)",
    "hangs": "while True: pass",
    "no_app": "x = 1",
    "syntax": "def f(:",
    "reserved": RUN_CODE + '\n@app.get("/v", operation_id="ver" + "ify")\nasync def v() -> int:\n    return 1\n',
    "deep_tools": RUN_CODE
    + """
import functools, sys
framing = sys.modules["awmenv.server.sandbox.framing"]
schema = functools.reduce(lambda inner, _: {"a": inner}, range(300), {})
framing.send = lambda sock, message, send=framing.send: send(
    sock, {"tools": [{"name": "t", "input_schema": schema}]} if "tools" in message else message)
""",
    "forks_for_ever": "import os\nfor _ in range(200):\n    os.fork()\nwhile True: pass",
}

# An app whose import changes what its process does when the server asks for a session: it fills the disk.
LATE_FILL = (
    RUN_CODE
    + """
import socket, time

def fill(*arguments, take=socket.recv_fds):
    taken = take(*arguments)
    for n in range(20):
        open(f"late{n}", "wb").write(b"x" * (1 << 20))
    return taken

socket.recv_fds = fill
"""
)
WAL = (
    RUN_CODE
    + '\nfrom sqlalchemy import event\n@event.listens_for(engine, "connect")\ndef wal(c, _):\n    c.execute("PRAGMA journal_mode=WAL")\n'
)
MUTE = RUN_CODE + "\nimport socket, time\nsocket.recv_fds = lambda *_: time.sleep(600)\n"
UNNAMED = {
    "removed": "os.open('u', os.O_RDWR | os.O_CREAT), os.unlink('u')",
    "never_named": "os.open('.', os.O_RDWR | os.O_TMPFILE, 0o600), None",
}
FILL = "import time\nfor n in range(600):\n    open(f'f{n}', 'wb').write(b'x' * (1 << 20))\n    time.sleep(0.005)\n"


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    with arena_in(tmp_path / "arena") as made:
        yield made


@pytest.fixture(scope="module")
def prey(tmp_path_factory: OpenFolders) -> Iterator[Arena]:
    """What scenarios of the hostile pack name in their own rows and code."""
    with arena_in(tmp_path_factory.mktemp("prey") / "arena") as made:
        yield made


def reaching_rows(prey: Arena) -> dict[str, str]:
    """By scenario, a row that would make a file outside."""
    return {"attaches": f"ATTACH DATABASE '{prey.canary}.db' AS x", "copies": f"VACUUM INTO '{prey.canary}.db'"}


def lying_app(prey: Arena) -> str:
    """An app that names the victim as its own process."""
    assert prey.victim is not None
    return f"import os\nos.getpid = lambda: {prey.victim.pid}\n{RUN_CODE}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: OpenFolders, prey: Arena) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    packs = pack(folder / "pack")
    pack(folder / "pack", name="half_built", inserts=["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"])
    pack(folder / "pack", lying_app(prey), "lies_about_its_pid")
    pack(folder / "pack", WAL, "writes_ahead")
    for name, statement in reaching_rows(prey).items():
        pack(folder / "pack", name=name, inserts=[statement])
    pack(folder / "pack", name="open_2")
    pack(folder / "pack", FILL + RUN_CODE, "fills")
    pack(folder / "pack", LATE_FILL, "fills_late")
    for name, code in BAD_APPS.items():
        pack(folder / "pack", code, name)
    for name, (inserts, _) in ROWS.items():
        pack(folder / "pack", name=name, inserts=inserts)
    limits = {"AWMENV_CALL_TIMEOUT": "3", "AWMENV_LOAD_TIMEOUT": "5", "AWMENV_SESSION_DISK_MB": "8"}
    limits["AWMENV_PARTIAL"] = "0"
    running = start_server(folder, packs, SECRET_OF_SERVER="SECRET-LOOT", **limits)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def importing(tmp_path_factory: OpenFolders) -> Iterator[tuple[Server, Arena]]:
    """A server whose every scenario attacks one arena while its app is imported."""
    folder = tmp_path_factory.mktemp("importing")
    with arena_in(folder / "arena") as arena:
        for attack in AT_IMPORT:
            code = f"{arena.code(attack)}\nLOOT = verify_task_completion('world.db', 'world.db')\n{RUN_CODE}\n"
            code += (
                '@app.get("/loot", operation_id="loot")\nasync def loot() -> dict:\n    return {"loot": str(LOOT)}\n'
            )
            pack(folder / "pack", code, attack.name)
        running = start_server(folder, folder / "pack")
        yield running, arena
        running.stop()


def _skip_if_seen(server: Server, attack: Attack) -> None:
    if attack in LOOKING and not json.loads(server.get("/stats"))["probes"]["no_looking"]:
        pytest.skip("no namespace of mounts here")


@pytest.mark.parametrize("attack", FORBIDDEN, ids=lambda attack: attack.name)
async def test_an_endpoint_reaches_nothing_outside_its_folder(arena: Arena, hostile: Server, attack: Attack) -> None:
    _skip_if_seen(hostile, attack)
    before = arena.print_of()
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        answer = await env.call_tool("run_code", {"code": arena.code(attack)})
        assert breaches(arena, f"{answer.tool_result} {answer.error}", before) == []


@pytest.mark.parametrize("attack", AT_IMPORT, ids=lambda attack: attack.name)
async def test_importing_an_app_reaches_nothing_either(importing: tuple[Server, Arena], attack: Attack) -> None:
    server, arena = importing
    _skip_if_seen(server, attack)
    before = arena.print_of()
    async with EnvironmentClient(server.url) as env:
        try:
            await env.reset(scenario=attack.name)
            said = str((await env.call_tool("loot")).tool_result)
        except ResetFailed as error:
            said = str(error)
        assert breaches(arena, said, before) == []


async def test_an_app_may_import_libraries_late_and_ask_for_time_zones(hostile: Server) -> None:
    """Of the file system it has its own folder and these, and nothing that could disappoint it."""
    code = (
        "def verify_task_completion(a, b):\n"
        "    import colorsys, wave, sqlite3.dump, xml.dom.minidom, mimetypes, zoneinfo, datetime, starlette.staticfiles\n"
        "    zone = zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "    noon = datetime.datetime(2026, 7, 1, 12, tzinfo=zone)\n"
        "    return {'type': mimetypes.guess_type('a.html')[0], 'offset': noon.utcoffset().total_seconds()}\n"
    )
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        answer = await env.call_tool("run_code", {"code": code})
        assert answer.ok and json.loads(str(answer.tool_result)) == {"type": "text/html", "offset": 7200.0}, (
            answer.error
        )


async def test_a_scenario_inherits_no_environment_and_is_another_user(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        here = json.loads((await env.call_tool("where_am_i")).tool_result)
        assert set(here["env"]) <= {"DATABASE_PATH", "HOME", "TMPDIR", "PATH", "LC_CTYPE"}
        assert os.getuid() != 0 or here["uid"] > 50_000


async def test_scenarios_and_sessions_cannot_open_each_others_files(hostile: Server) -> None:
    async with (
        EnvironmentClient(hostile.url) as ada,
        EnvironmentClient(hostile.url) as edo,
        EnvironmentClient(hostile.url) as max_,
    ):
        await ada.reset(scenario="open_1")
        await edo.reset(scenario="open_1")
        await max_.reset(scenario="open_2")
        hers = json.loads((await ada.call_tool("where_am_i")).tool_result)
        other = json.loads((await max_.call_tool("where_am_i")).tool_result)
        assert os.getuid() != 0 or hers["uid"] != other["uid"]
        reach = (
            "def verify_task_completion(a, b):\n    import os\n    found = []\n"
            f"    for path in ({hers['cwd']!r}, {hers['cwd'] + '/world.db'!r}):\n"
            "        try:\n            found.append(os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(9).decode())\n"
            "        except OSError as error:\n            found.append(type(error).__name__)\n"
            f"    try:\n        os.kill({hers['pid']}, 9)\n        found.append('killed')\n    except OSError:\n        pass\n"
            "    return {'found': found}\n"
        )  # fmt: skip
        assert (
            "world.db" in (await ada.call_tool("run_code", {"code": reach.replace("os.kill(", "print(")})).tool_result
        )
        for stranger in (edo, max_):
            found = json.loads((await stranger.call_tool("run_code", {"code": reach})).tool_result)["found"]
            assert found == ["PermissionError", "PermissionError"]
        assert (await ada.call_tool("add_row")).ok


def body(code: str) -> dict[str, str]:
    return {"code": f"def verify_task_completion(a, b):\n    {code}\n    return {{}}\n"}


@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("while True: pass", "timeout"),
        ("import os; os._exit(0)", "server_error"),
        ("import ctypes; ctypes.string_at(0)", "server_error"),
        ("import os; [os.write(n, b'x' * 100) for n in range(3, 40) if os.path.exists('.')]", "server_error"),
        ("import os; os.write(max(range(3, 40), key=lambda n: 0), b'\\xff\\xff\\xff\\xff')", "server_error"),
        ("[open(str(n), 'wb').write(b'x' * (1 << 20)) for n in range(20)]", "server_error"),
        ("[open(str(n), 'wb') for n in range(3000)]", "server_error"),
        ("[open(str(n), 'wb').close() for n in range(300)]", "server_error"),
        ("raise SystemExit(0)", "server_error"),
        ("raise type('E', (BaseException,), {})()", "server_error"),
    ],
)
async def test_a_session_that_breaks_its_limits_ends_alone(hostile: Server, code: str, label: str) -> None:
    async with EnvironmentClient(hostile.url) as bad, EnvironmentClient(hostile.url) as good:
        await bad.reset(scenario="open_1")
        await good.reset(scenario="open_1")
        refused = await bad.call_tool("run_code", body(code))
        assert refused.reward_type == label, refused
        assert "Traceback" not in str(refused.error)
        assert (await good.call_tool("add_row")).ok
        assert (await bad.reset(scenario="open_1")).reward_type == "reset_ok"
        assert (await bad.call_tool("add_row")).ok


async def test_a_huge_answer_is_refused_and_the_session_lives(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        code = "def verify_task_completion(a, b):\n    return {'x': 'a' * (6 << 20)}\n"
        refused = await env.call_tool("run_code", {"code": code})
        assert (refused.reward_type, "1 MiB" in str(refused.error)) == ("server_error", True)
        assert (await env.call_tool("add_row")).ok


@pytest.mark.parametrize("value", ["'\\ud800'", "float('inf')", "10 ** 6000", "'\\0'"])
async def test_an_odd_answer_ends_no_connection(hostile: Server, value: str) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        await env.call_tool("run_code", {"code": f"def verify_task_completion(a, b):\n    return {{'x': {value}}}\n"})
        assert (await env.call_tool("add_row")).ok


@pytest.mark.parametrize("name", BAD_APPS)
async def test_unloadable_app_fails_reset_and_next_scenario_works(hostile: Server, name: str) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        before = _processes_of(hostile)
        with pytest.raises(ResetFailed) as caught:
            await env.reset(scenario=name)
        assert "Traceback" not in str(caught.value)
        await env.reset(scenario="open_1")
        assert (await env.call_tool("add_row")).ok
        assert _eventually(lambda: _processes_of(hostile) <= before)


def _processes_of(server: Server) -> int:
    return len(psutil.Process(server.process.pid).children(recursive=True))


def _eventually(check: Callable[[], bool], seconds: float = 60) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if check():
            return True
        time.sleep(0.02)
    return check()


async def test_disk_is_bounded_during_import_and_calls(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        with pytest.raises(ResetFailed, match="more disk than it may"):
            await env.reset(scenario="fills")
        await env.reset(scenario="open_1")
        refused = await env.call_tool("run_code", body(FILL.replace("\n", "\n    ")))
        assert (refused.reward_type, "more disk" in str(refused.error)) == ("server_error", True)
        assert (await env.call_tool("add_row")).error == refused.error.replace("run_code", "add_row")


@pytest.mark.skipif(os.getuid() != 0, reason="only root sees what another process holds open")
@pytest.mark.parametrize("way", UNNAMED)
async def test_files_without_a_name_count_as_disk(hostile: Server, way: str) -> None:
    make = f"import os\n    for n in range(20):\n        fd, _ = {UNNAMED[way]}\n        os.write(fd, b'x' * (1 << 20))"
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="open_1")
        refused = await env.call_tool("run_code", body(make))
        assert (refused.reward_type, "more disk" in str(refused.error)) == ("server_error", True)


async def test_a_scenario_cannot_fill_the_disk_long_after_its_import(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        with contextlib.suppress(ResetFailed):  # on a busy machine it can be ended before its first session starts
            await env.reset(scenario="fills_late")
        assert await asyncio.to_thread(_eventually, lambda: not list(hostile.run_dir.rglob("late*")))
        async with asyncio.timeout(60):  # its session ends a moment after its files
            while (await env.call_tool("add_row")).reward_type != "server_error":
                await asyncio.sleep(0.02)
        await env.reset(scenario="open_1")
        assert (await env.call_tool("add_row")).ok


async def test_a_scenario_whose_sessions_never_start_holds_up_no_other(tmp_path: Path) -> None:
    folder = pack(pack(tmp_path / "pack"), MUTE, "mute")
    world = World(Settings(packs=(folder,), run_dir=str(tmp_path)))
    world.scenarios.zygote.start()
    try:
        await asyncio.wait_for(_open_beside_the_mute(world.scenarios, load_pack(folder)), 120)
    finally:
        world.stop()


async def _open_beside_the_mute(house: ScenarioPool, packs: Pack) -> None:
    good, mute = await house.template(packs, "open_1"), await house.template(packs, "mute")
    waiting = [asyncio.create_task(house.open(mute)) for _ in range(CONCURRENT_STARTS + 4)]
    await asyncio.sleep(0)  # all of them have asked
    house.close(await house.open(good))
    assert not any(task.done() for task in waiting), "it waited for one that never starts"
    for task in waiting:
        task.cancel()
    assert all(isinstance(end, BaseException) for end in await asyncio.gather(*waiting, return_exceptions=True))


async def test_processor_time_and_memory_of_a_session_are_bounded(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    limits = {"AWMENV_SESSION_CPU_S": "1", "AWMENV_SESSION_MEMORY_MB": "600"}
    server = make_server(pack(tmp_path / "pack"), **limits)
    async with EnvironmentClient(server.url) as env, EnvironmentClient(server.url) as other:
        await env.reset(scenario="open_1")
        await other.reset(scenario="open_1")
        large = await env.call_tool("run_code", body("bytearray(700 << 20)"))
        assert (large.reward_type, large.error) == (
            "server_error", "Error calling run_code. Status code: 500. Response: Internal Server Error",
        )  # fmt: skip
        busy = await env.call_tool("run_code", body("while True: pass"))
        assert busy.reward_type == "server_error" and "timed out" not in str(busy.error), busy.error
        assert (await other.call_tool("add_row")).ok


async def test_a_half_built_database_is_a_reset_error(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        with pytest.raises(ResetFailed, match="UNIQUE constraint") as caught:
            await env.reset(scenario="half_built")
        assert caught.value.code == "database_broken"


@pytest.mark.parametrize("scenario", ["attaches", "copies"])
async def test_rows_cannot_reach_files_while_the_database_is_built(prey: Arena, hostile: Server, scenario: str) -> None:
    before = prey.print_of()
    async with EnvironmentClient(hostile.url) as env:
        with pytest.raises(ResetFailed) as caught:
            await env.reset(scenario=scenario)
    assert caught.value.code == "database_broken"
    assert breaches(prey, "", before) == []


async def test_rows_that_attack_their_builder_end_the_reset_alone(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env, EnvironmentClient(hostile.url) as other:
        await other.reset(scenario="open_1")
        for name, (_, said) in ROWS.items():
            with pytest.raises(ResetFailed) as caught:
                await env.reset(scenario=name)
            assert caught.value.code == "database_broken" and re.search(said, str(caught.value)), name
        assert (await other.call_tool("add_row")).ok


async def test_scenario_with_false_pid_cannot_kill_another_process(prey: Arena, hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await asyncio.wait_for(_try_reset(env), 30)
    assert prey.victim is not None and prey.victim.poll() is None


async def _try_reset(env: EnvironmentClient) -> None:
    try:
        await env.reset(scenario="lies_about_its_pid")
        await env.done()
    except ResetFailed:
        return


async def test_wal_is_checkpointed_before_comparison(hostile: Server) -> None:
    async with EnvironmentClient(hostile.url) as env:
        await env.reset(scenario="writes_ahead", state_diff=True)
        first = await env.call_tool("add_row")
        assert first.state_diff == {"t": {"added": [{"x": 1}], "removed": [], "changed": [], "more": 0}}
        second = await env.call_tool("add_row")
        assert second.state_diff == {"t": {"added": [{"x": 2}], "removed": [], "changed": [], "more": 0}}
