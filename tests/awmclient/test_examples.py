"""The examples run as a newcomer runs them: in a process of their own, against a dashboard over HTTP."""

import asyncio
import os
import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from awmclient.schema import Advice
from awmenv.version import NUMBER
from tests.awmclient.http_dashboard import TOKEN, FakeHttpDashboard

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def server():
    server = FakeHttpDashboard()
    await server.start()
    yield server
    await server.kill()


async def run(server, example, python=sys.executable, **extra):
    environment = {**os.environ, "AWMWEB_URL": server.url, "AWMWEB_TOKEN": TOKEN, **extra}
    return await asyncio.create_subprocess_exec(
        str(python),
        str(ROOT / "examples" / example),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


async def ended(process):
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode, out.decode()


async def test_the_own_agent_asks_and_does_as_it_is_told(server):
    process = await run(server, "own_agent.py", PYTHONPATH=str(ROOT))
    while not any(ask.status == "open" for ask in server.book.asks.values()):
        assert process.returncode is None
        await asyncio.sleep(0.02)
    ask = next(iter(server.book.asks.values()))
    server.book.close(ask, "answered", Advice(text="Twelve.", source="human"))
    code, out = await ended(process)
    entry = next(iter(server.book.episodes.values()))
    assert code == 0, out
    assert [step["kind"] for step in entry.steps] == ["tool_call", "tool_call", "ask", "message"]
    assert (entry.state, entry.final_answer) == ("finished", "I was told: Twelve.")


@pytest.mark.parametrize("answered", ["while it is down", "while it waits again"])
async def test_killed_example_agent_resumes_by_key(server, answered):
    """It is killed while it waits for the answer, and asks nothing a second time."""
    first = await run(server, "own_agent.py", PYTHONPATH=str(ROOT), AWMWEB_KEY="orders-1")
    while not any(ask.status == "open" for ask in server.book.asks.values()):
        assert first.returncode is None
        await asyncio.sleep(0.02)
    first.kill()
    await first.wait()
    (ask,) = server.book.asks.values()
    poll = ("GET", f"/asks/{ask.id}")
    polls = server.requests.count(poll)
    second = None
    if answered == "while it waits again":
        second = await run(server, "own_agent.py", PYTHONPATH=str(ROOT), AWMWEB_KEY="orders-1")
        while len(server.book.asks) == 1 and server.requests.count(poll) == polls:
            assert second.returncode is None
            await asyncio.sleep(0.02)
    server.book.close(ask, "answered", Advice(text="Twelve.", source="human"))
    second = second or await run(server, "own_agent.py", PYTHONPATH=str(ROOT), AWMWEB_KEY="orders-1")
    if len(server.book.asks) > 1:
        second.kill()
    code, out = await ended(second)
    assert (code, len(server.book.asks)) == (0, 1), out
    (entry,) = server.book.episodes.values()
    assert [step["kind"] for step in entry.steps] == ["tool_call", "tool_call", "ask", "message"]
    assert (entry.state, entry.final_answer) == ("finished", "I was told: Twelve.")


async def test_the_own_agent_goes_on_when_nobody_answers(server):
    code, out = await ended(await run(server, "own_agent.py", PYTHONPATH=str(ROOT), AWMWEB_ASK_S="1"))
    assert code == 0, out
    assert next(iter(server.book.episodes.values())).final_answer == "no answer, I order 10"


def test_the_own_agent_is_short():
    assert len((ROOT / "examples" / "own_agent.py").read_text().splitlines()) < 50


@pytest.mark.slow
async def test_external_openenv_environment_is_recorded_as_actions(server):
    code, out = await ended(await run(server, "own_openenv.py", PYTHONPATH=str(ROOT)))
    entry = next(iter(server.book.episodes.values()))
    assert code == 0, out
    actions = [step for step in entry.steps if step["kind"] == "action"]
    assert [step["action"]["word"] for step in actions] == ["curriculum", "mulucirruc"]
    assert (
        actions[-1]["observation"]["hint"] == "right" and actions[-1]["done"] is True and actions[-1]["reward"] == 1.0
    )
    assert (entry.state, entry.stop_reason, entry.plan.environment) == ("finished", "done", "backwards")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The interpreter of an environment with the client's wheel and what it asks for. Nothing comes from a network."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", folder, ROOT / "awmclient"]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    install = [*pip, "--python", python, "install", "-q", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, timeout=300)
    (site,) = (folder / "venv").glob("lib/*/site-packages")
    for name in asked_for(["httpx", "pydantic"]):
        for entry in {path.parts[0] for path in metadata.files(name) or () if ".." not in path.parts}:
            (site / entry).symlink_to(metadata.distribution(name).locate_file(entry))
    return python


def asked_for(names):
    """Return the packages that these need, themselves included."""
    found, todo = set(), list(names)
    while todo:
        found.add(name := canonicalize_name(todo.pop()))
        needed = [Requirement(line) for line in metadata.requires(name) or []]
        fitting = [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
        todo += [one for one in fitting if canonicalize_name(one) not in found]
    return found


def printed(python, program, **extra):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | extra
    done = subprocess.run([python, "-c", program], cwd=python.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_wheel_of_the_client_has_every_module_and_its_version(alone):
    """An adapter says which framework it misses; every other module can be the first that is imported."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "awmclient").rglob("*.py")}
    modules = sorted(name.removesuffix(".__init__") for name in modules)
    program = f"""
import importlib, os, sys
import httpx, pydantic
for name in {modules}:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    try:
        importlib.import_module(name)
    except ImportError as error:
        is_right = name.startswith("awmclient.adapters.") and "pip install" in str(error)
        is_right or print(f"{{name}}: {{error}}", file=sys.stderr)
        os._exit(not is_right)
    os._exit(0)
from pathlib import Path
from awmclient.client.wire import version
import awmclient
assert Path(awmclient.__file__).with_name("py.typed").exists()
print(version())
"""
    assert re.fullmatch(re.escape(NUMBER) + r"\+[0-9a-f]{8}(\.changed)?", printed(alone, program))


@pytest.mark.slow
async def test_client_installed_alone_runs_its_readme_and_an_example(server, alone):
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "awmclient" / "README.md").read_text(), re.DOTALL)
    assert printed(alone, first).splitlines()[-1] == "done The mug costs 9."
    second = second.replace("http://127.0.0.1:8000", server.url).replace("<token>", TOKEN)
    await asyncio.to_thread(printed, alone, second.replace("deadline_s=120", "deadline_s=1"))
    (entry,) = server.book.episodes.values()
    assert (entry.state, entry.final_answer) == ("finished", "no answer")
    code, out = await ended(await run(server, "own_agent.py", alone, AWMWEB_ASK_S="1", PYTHONPATH=""))
    assert code == 0, out
    assert not (ROOT / "awmclient" / "build").exists()
