"""The walls for a server that is an ordinary user: the same attacks, from verifiers, endpoints and imports.

Everything then runs as that one user, the victim of the attacks, too: only Landlock and seccomp stand between them.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from tests.awmenv.arena import NAME, SECRET, Arena, arena_in, breaches
from tests.awmenv.attacks import LOOKING, Attack
from tests.awmenv.conftest import ROOT, OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack
from tests.awmenv.test_hostile_scenarios import AT_IMPORT, FORBIDDEN

pytestmark = [pytest.mark.attack("verifiers and apps, as an ordinary user"), pytest.mark.long]

USER = 12_345
VERIFIERS = """
import json, sys
from pathlib import Path
from tests.awmenv.arena import arena_in, breaches
from tests.awmenv.attacks import ATTACKS
from awmenv.server import verifier
from awmenv.server.verifier import run_verifier

found = {}
for attack in ATTACKS:
    with arena_in(Path(sys.argv[1]) / attack.name) as arena:
        before = arena.print_of()
        result = run_verifier(arena.code(attack), "code", *arena.databases())
        found[attack.name] = [result["tier"], *breaches(arena, json.dumps(result), before)]
found["no_looking"] = verifier.shared_verifiers().zygote.probes["no_looking"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: OpenFolders) -> str:
    """An interpreter that another user can reach, with our packages."""
    found = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if os.geteuid() != 0 or found is None:
        pytest.skip("needs root to become another user, and an interpreter that the other user can reach")
    closed = [step for step in (ROOT, *ROOT.parents) if not step.stat().st_mode & 0o001]
    if closed or not ROOT.stat().st_mode & 0o004:
        pytest.skip("the checkout lies where another user may not go")
    venv = tmp_path_factory.mktemp("python") / "venv"
    subprocess.run([found, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python3.*")) / "site-packages"
    (site / "ours.pth").write_text(str(Path(psutil.__file__).parents[1]) + "\n")
    return str(venv / "bin" / "python")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: OpenFolders, python: str) -> Iterator[Arena]:
    with arena_in(tmp_path_factory.mktemp("prey") / "arena", USER) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: OpenFolders, python: str, arena: Arena) -> Iterator[Server]:
    """One scenario takes attacks by an endpoint; each of the others attacks while it is imported."""
    folder = tmp_path_factory.mktemp("ordinary")
    pack(folder / "pack")
    for attack in AT_IMPORT:
        code = f"{arena.code(attack)}\nLOOT = verify_task_completion('world.db', 'world.db')\n{RUN_CODE}\n"
        code += '@app.get("/loot", operation_id="loot")\nasync def loot() -> dict:\n    return {"loot": str(LOOT)}\n'
        pack(folder / "pack", code, attack.name)
    folder.chmod(0o777)
    running = start_server(folder, folder / "pack", USER, python, SECRET_OF_SERVER=SECRET)
    yield running
    running.stop()


def test_environment_runs_fully_sandboxed_as_its_user(server: Server) -> None:
    assert json.loads(server.get("/health"))["tier"] == "strict"
    processes = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
    assert len(processes) > 2 and {process.uids().real for process in processes} == {USER}


@pytest.mark.slow
def test_no_verifier_reaches_anything(tmp_path: Path, python: str) -> None:
    tmp_path.chmod(0o777)
    done = subprocess.run(
        [python, "-c", VERIFIERS, str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "AWMENV_RUN_DIR": str(tmp_path), NAME: SECRET},
        user=USER,
        group=USER,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    seen = set() if found.pop("no_looking") else {attack.name for attack in LOOKING}
    assert len(found) > 60 and {name for name, said in found.items() if said != ["strict"]} - seen == set()


def _forbidden(server: Server, attacks: list[Attack]) -> list[Attack]:
    """Without a namespace of users, which not every kernel grants, an ordinary user's sandbox sees paths."""
    hidden = json.loads(server.get("/stats"))["probes"]["no_looking"]
    return [attack for attack in attacks if hidden or attack not in LOOKING]


@pytest.mark.slow
async def test_no_endpoint_reaches_anything(server: Server, arena: Arena) -> None:
    async with EnvironmentClient(server.url) as env:
        for attack in _forbidden(server, FORBIDDEN):
            before = arena.print_of()
            await env.reset(scenario="open_1")
            answer = await env.call_tool("run_code", {"code": arena.code(attack)})
            assert breaches(arena, f"{answer.tool_result} {answer.error}", before) == [], attack.name


@pytest.mark.slow
async def test_no_import_reaches_anything(server: Server, arena: Arena) -> None:
    before, room = arena.print_of(), asyncio.Semaphore(4)

    async def load(attack: Attack) -> list[str]:
        async with room, EnvironmentClient(server.url) as env:
            try:
                await env.reset(scenario=attack.name)
                said = str((await env.call_tool("loot")).tool_result)
            except ResetFailed as error:
                said = str(error)
            return breaches(arena, said, before)

    attacks = _forbidden(server, AT_IMPORT)
    found = await asyncio.gather(*(load(attack) for attack in attacks))
    assert {attack.name: said for attack, said in zip(attacks, found, strict=True) if said} == {}


async def test_episode_is_played_diffed_verified_and_cleaned_up(
    make_server: Callable[..., Server], python: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    own = make_server(user=USER, python=python)
    async with EnvironmentClient(own.url) as env:
        await env.reset(scenario="notes_1", task_idx=0, state_diff=True)
        assert (await env.call_tool("create_note", {"title": "Milk"})).state_diff
        assert (await env.verify()).reward_type == "complete"
    processes = psutil.Process(own.process.pid).children(recursive=True)
    own.process.kill()
    own.process.wait()
    assert processes and psutil.wait_procs(processes, timeout=60)[1] == []
