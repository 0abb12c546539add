"""Codex from npm with the installed hook: its prompts are answered at the desk, and its session is an episode."""

from __future__ import annotations

import json
import os

import pytest

from tests.coding_agents.model_server import call, model, text
from tests.coding_agents.programs import asks_in, decide, installed, program
from tests.coding_agents.terminal import Terminal
from tests.running import until

pytestmark = pytest.mark.hooks
CONFIG = """
model = "local"
model_provider = "local"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
[projects."{work}"]
trust_level = "trusted"
"""


@pytest.fixture
def codex(house, tmp_path):
    """Start Codex in a folder of its own, with the hook installed for the product and trusted."""
    started = []

    def start(server, *words):
        work, home = tmp_path / "work", tmp_path / "home"
        work.mkdir()
        home.mkdir()
        (home / "config.toml").write_text(CONFIG.format(url=server.url, work=work))
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home), "TERM": "xterm-256color"}
        installed(house, "codex", environment, *words)
        terminal = Terminal([program("codex"), "--dangerously-bypass-hook-trust", "Go on"], work, environment)
        started.append(terminal)
        return terminal, work

    yield start
    for terminal in started:
        terminal.close()


def command(number, line):
    escalated = {"sandbox_permissions": "require_escalated", "justification": "Make a file"}
    return call(number, "exec_command", {"cmd": line, **escalated})


def test_prompts_are_approved_and_rejected_at_the_desk(house, codex):
    turns = [[command(1, "echo 1 > made1.txt")], [command(2, "echo 2 > made2.txt")], [text("Done.")]]
    with model(turns) as server:
        terminal, work = codex(server)
        expert, agent = house.http(house.token("expert", behind="person")), house.http(house.token("agent"))
        ask = asks_in(expert, work)[0]
        call_ = ask["typed"]["calls"][0]
        assert (call_["arguments"]["command"], call_["reason"]) == ("echo 1 > made1.txt", "Make a file")
        decide(expert, ask, "approve", call_["arguments"])
        until((work / "made1.txt").exists, 60)
        ask = asks_in(expert, work)[0]
        decide(expert, ask, "reject", ask["typed"]["calls"][0]["arguments"], reason="Not that file.")
        terminal.shows("Done.")
        steps = agent.get(f"/episodes/{ask['episode']}/steps").json()["steps"]
        verdicts = [step["approval"]["verdict"] for step in steps if step["kind"] == "tool_call"]
    assert "Not that file." in json.dumps(server.bodies[-1]["input"])
    assert not (work / "made2.txt").exists() and verdicts[:1] == ["approve"]


def test_silence_leaves_the_prompt_to_the_terminal(house, codex):
    with model([[command(1, "echo 1 > made.txt")], [text("Thanks.")]]) as server:
        terminal, work = codex(server, "--deadline", "10")
        asks_in(house.http(house.token("expert", behind="person")), work)
        terminal.shows("Would you like to run the following command?")
        # a dialog that was drawn just now can drop a key, and draws nothing when it takes one
        until(lambda: (work / "made.txt").exists() or terminal.press("y"), 60, 1)
