"""The examples run as a newcomer runs them: in a process of their own, against a dashboard over HTTP."""

import asyncio
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from awmclient.schema import Advice
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


@pytest.mark.slow
async def test_client_package_installs_alone_and_runs_the_example(server, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", str(ROOT / "awmclient")]
    done = await asyncio.to_thread(subprocess.run, install, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    listing = [python, "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"]
    listed = await asyncio.to_thread(subprocess.check_output, listing, text=True, cwd=tmp_path)
    installed = {line.partition("==")[0].lower().replace("-", "_") for line in listed.split()}
    beneath = {"anyio", "certifi", "h11", "httpcore", "idna", "typing_extensions"}
    beneath |= {"annotated_types", "pydantic_core", "typing_inspection"}
    assert installed - {"pip", "setuptools"} == {"awmclient", "httpx", "pydantic"} | beneath
    everything = "import awmclient.chat, awmclient.client, awmclient.rollout, awmclient.testing as t; "
    everything += "from pathlib import Path; assert Path(t.__file__).with_name('py.typed').exists()"
    subprocess.run([python, "-c", everything], cwd=tmp_path, check=True)
    code, out = await ended(await run(server, "own_agent.py", python, AWMWEB_ASK_S="1", PYTHONPATH=""))
    assert code == 0, out
    assert not (ROOT / "awmclient" / "build").exists()
