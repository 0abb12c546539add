"""OpenCode from npm with the installed plugin: its prompts are answered at the desk, and its session is an episode.

OpenCode's own terminal is a client of its server, so the tests start the server, and reply as that terminal does.
"""

from __future__ import annotations

import json
import os
import subprocess

import httpx
import pytest

from tests.coding_agents.model_server import call, model, text
from tests.coding_agents.programs import asks_in, decide, installed, program
from tests.running import free_ports, until

pytestmark = pytest.mark.hooks


def config(url):
    local = {"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": {"baseURL": f"{url}/v1", "apiKey": "x"}}
    models = {"models": {"local": {"name": "local", "tool_call": True}}}
    return {
        "model": "local/local", "small_model": "local/local", "provider": {"local": {**local, **models}},
        "permission": {"bash": "ask", "edit": "ask"}, "autoupdate": False, "share": "disabled",
    }  # fmt: skip


@pytest.fixture
def opencode(house, tmp_path):
    """Start OpenCode in a folder of its own, with the plugin installed for the product, and a session in it."""
    started = []

    def start(server, *words):
        work, home = tmp_path / "work", tmp_path / "home"
        work.mkdir()
        home.mkdir()
        (work / "opencode.json").write_text(json.dumps(config(server.url)))
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        installed(house, "opencode", environment, *words)
        [port] = free_ports(1)
        command = [program("opencode"), "serve", "--port", str(port)]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        started.append((subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL), client))
        until(lambda: _answers(client), 300)
        session = client.post("/session", json={}).json()["id"]
        prompt = {"parts": [{"type": "text", "text": "Go on"}]}
        assert client.post(f"/session/{session}/prompt_async", json=prompt).status_code == 204
        return client, work

    yield start
    for process, client in started:
        client.close()
        process.kill()
        process.wait()


def _answers(client):
    try:
        return client.get("/session").is_success
    except httpx.TransportError:
        return False


def command(number, line):
    return call(f"call{number}", "bash", {"command": line, "description": "Make a file"})


def test_prompts_are_approved_and_rejected_at_the_desk(house, opencode):
    turns = [[command(1, "echo 1 > made1.txt")], [command(2, "echo 2 > made2.txt")], [text("Done.")]]
    with model(turns) as server:
        client, work = opencode(server)
        expert, agent = house.http(house.token("expert", behind="person")), house.http(house.token("agent"))
        ask = asks_in(expert, work)[0]
        call_ = ask["typed"]["calls"][0]
        assert (call_["name"], call_["arguments"]["command"]) == ("bash", "echo 1 > made1.txt")
        decide(expert, ask, "approve", call_["arguments"])
        until((work / "made1.txt").exists, 60)
        ask = asks_in(expert, work)[0]
        decide(expert, ask, "reject", ask["typed"]["calls"][0]["arguments"], reason="Not that file.")
        until(lambda: len(server.bodies) == 3, 60)
        path = f"/episodes/{ask['episode']}"
        until(lambda: agent.get(f"{path}/steps").json()["steps"][-1].get("content") == "Done.", 60)
        steps = agent.get(f"{path}/steps").json()["steps"]
        verdicts = [step["approval"]["verdict"] for step in steps if step["kind"] == "tool_call"]
        assert client.post("/instance/dispose").is_success
        until(lambda: agent.get(path).json()["state"] == "finished", 60)
    assert "Not that file." in json.dumps(server.bodies[-1]["messages"])
    assert not (work / "made2.txt").exists() and verdicts == ["approve", "reject"]
    assert agent.get(path).json()["task"] == "Go on"


def test_silence_and_the_terminal_approve_nothing_at_the_desk(house, opencode):
    turns = [[command(1, "echo 1 > made1.txt")], [command(2, "echo 2 > made2.txt")], [text("Thanks.")]]
    with model(turns) as server:
        client, work = opencode(server, "--deadline", "10")
        expert = house.http(house.token("expert", behind="person"))
        ask = asks_in(expert, work)[0]
        until(lambda: expert.get(f"/asks/{ask['id']}").json()["status"] == "fell_back", 60)
        [prompt] = client.get("/permission").json()
        assert not (work / "made1.txt").exists()
        client.post(f"/permission/{prompt['id']}/reply", json={"reply": "once"})
        until((work / "made1.txt").exists, 60)
        ask = asks_in(expert, work)[0]
        [prompt] = client.get("/permission").json()
        client.post(f"/permission/{prompt['id']}/reply", json={"reply": "once"})
        until(lambda: expert.get(f"/asks/{ask['id']}").json()["status"] == "cancelled", 60)
        until((work / "made2.txt").exists, 60)
