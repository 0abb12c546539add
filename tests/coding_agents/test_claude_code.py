"""Claude Code from npm with the installed hook: its prompts are answered at the desk, and its session is an episode."""

from __future__ import annotations

import json

import pytest

from tests.coding_agents.model_server import call, model, text
from tests.coding_agents.programs import asks_in, claude_code, decide, installed, program
from tests.coding_agents.terminal import Terminal
from tests.running import until

pytestmark = pytest.mark.hooks


@pytest.fixture
def claude(house, tmp_path):
    """Start Claude Code in a folder of its own, with the hook installed for the product."""
    started = []

    def start(server):
        work, home = tmp_path / "work", tmp_path / "home"
        work.mkdir()
        home.mkdir()
        environment = claude_code(server, work, home)
        installed(house, "claude-code", environment)
        terminal = Terminal([program("claude"), "--model", "claude-sonnet-4-5", "Go on"], work, environment)
        started.append(terminal)
        return terminal, work

    yield start
    for terminal in started:
        terminal.close()


def test_three_prompts_one_of_them_edited(house, claude):
    commands = [f"echo {number} > made{number}.txt" for number in (1, 2, 3)]
    turns = [[call(number, "Bash", {"command": line})] for number, line in enumerate(commands)]
    with model([*turns, [text("All is made.")]]) as server:
        _, work = claude(server)
        expert = house.http(house.token("expert", behind="person"))
        for number, (verdict, made) in enumerate([("approve", "made1.txt"), ("edit", "other.txt"), ("reject", "")]):
            ask = asks_in(expert, work)[0]
            arguments = ask["typed"]["calls"][0]["arguments"]
            assert arguments["command"] == commands[number]
            if verdict == "edit":
                arguments = {**arguments, "command": f"echo 2 > {made}"}
            decide(expert, ask, verdict, arguments, reason="Not that file." if verdict == "reject" else None)
            if made:
                until((work / made).exists, 60)
        until(lambda: "Not that file." in json.dumps(server.bodies[-1]["messages"]), 60)
        agent = house.http(house.token("agent"))
        verdicts = until(lambda: three_of(agent, ask), 60)
    assert verdicts == ["approve", "edit", "reject"]
    assert not (work / "made2.txt").exists() and not (work / "made3.txt").exists()


def three_of(agent, ask):
    steps = agent.get(f"/episodes/{ask['episode']}/steps").json()["steps"]
    verdicts = [step["approval"]["verdict"] for step in steps if step["kind"] == "tool_call"]
    return verdicts if len(verdicts) == 3 else None


def test_question_is_answered_at_the_desk(house, claude):
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"questions": [{"question": "Which color?", "header": "Color", "options": options, "multiSelect": False}]}
    with model([[call(1, "AskUserQuestion", asked)], [text("Thanks.")]]) as server:
        terminal, work = claude(server)
        expert = house.http(house.token("expert", behind="person"))
        ask = asks_in(expert, work)[0]
        assert ask["kind"] == "choice"
        decide(expert, ask, decision={"chosen": ["2"]})
        terminal.shows("Thanks.")
        result = server.bodies[-1]["messages"][-1]["content"][0]["content"]
    assert '"Which color?"="Blue"' in result


@pytest.mark.parametrize(("key", "is_made"), [("1", True), ("3", False)])
def test_terminal_answers_first(house, claude, key, is_made):
    with model([[call(1, "Bash", {"command": "echo 1 > made.txt"})], [text("Thanks.")]]) as server:
        terminal, work = claude(server)
        expert = house.http(house.token("expert", behind="person"))
        ask = asks_in(expert, work)[0]
        terminal.shows("Do you want to proceed?")
        terminal.press(key)
        view = until(lambda: closed(expert, ask), 60)
    assert view["status"] == "cancelled" and (work / "made.txt").exists() is is_made


def closed(expert, ask):
    view = expert.get(f"/asks/{ask['id']}").json()
    return view if view["status"] != "open" else None
