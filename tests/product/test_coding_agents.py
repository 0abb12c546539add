"""Hooks of coding agents against the running product: each test sends what a tool sends, and reads what it gets."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from awmclient.hooks import installing, running
from awmclient.hooks.desk import HookSettings
from awmclient.hooks.session import WITHDRAWN
from awmclient.hooks.shown import PLACE
from awmclient.hooks.tools import TOOLS
from people.models import new_id
from tests.running import until

COMMAND = {"command": "rm -r build", "description": "Remove the build"}


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as http:
        yield http


@pytest.fixture(scope="module")
def expert(house):
    with house.http(house.token("expert", behind="person")) as http:
        yield http


@pytest.fixture(scope="module")
def token(house):
    return house.token("agent")


@pytest.fixture
def desk(house, token, tmp_path, monkeypatch):
    """Hooks of this test ask the product, and keep their files in the test's folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    HookSettings(house.url, token, {"claude-code": 300}).save()
    return house


class Tool:
    """A session of a tool: it sends events to hooks."""

    def __init__(self, cwd, name="claude-code"):
        self.cwd, self.name, self.session = str(cwd), name, new_id()

    def sent(self, event, **more):
        return {"session_id": self.session, "cwd": self.cwd, "hook_event_name": event, **more}

    def hook(self, event, **more):
        out = io.StringIO()
        assert running.run(self.name, io.BytesIO(json.dumps(self.sent(event, **more)).encode()), out) == 0
        return json.loads(out.getvalue()) if out.getvalue() else None

    def prompt(self, name="Bash", arguments=None, **more):
        return self.hook("PermissionRequest", tool_name=name, tool_input=arguments or COMMAND, **more)

    def made(self, arguments=None, **more):
        return self.hook(
            "PostToolUse", tool_name="Bash", tool_input=arguments or COMMAND, tool_response={"stdout": ""},
            tool_use_id=new_id(), **more,
        )  # fmt: skip


@pytest.fixture
def tool(desk, tmp_path):
    return Tool(tmp_path)


@contextmanager
def asking(tool, expert, **prompt):
    """A hook that waits in a thread, and its ask as an expert lists it."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tool.prompt, **prompt)
        yield waiting, until(lambda: next(iter(asks_of(tool, expert)), None), 30)


def asks_of(tool, expert, status="open"):
    where = f"Folder: {tool.cwd}\n"
    asks = expert.get(f"/asks?status={status}&limit=200").json()["asks"]
    return [ask for ask in asks if where in (ask["context"] or "") + "\n"]


def answer(expert, ask, decision, text=""):
    lease = expert.post(f"/asks/{ask['id']}/claim").json()
    body = {"lease_token": lease["lease_token"], "text": text, "decision": decision, "nonce": new_id()}
    response = expert.post(f"/assignments/{lease['assignment']}/answer", json=body)
    assert response.status_code == 200, response.text


def decide(expert, ask, verdict, arguments=None, **more):
    call = {"id": "1", "verdict": verdict, "arguments": arguments or ask["typed"]["calls"][0]["arguments"], **more}
    answer(expert, ask, {"calls": [call]})


def steps_of(agent, ask):
    return agent.get(f"/episodes/{ask['episode']}/steps").json()["steps"]


def decision_in(reply):
    return reply["hookSpecificOutput"]["decision"]


def test_session_is_an_episode_with_its_approval(tool, agent, expert):
    tool.hook("UserPromptSubmit", prompt="Build it again")
    with asking(tool, expert) as (waiting, ask):
        assert ask["question"] == "May Claude Code run this command?" and ask["task"] == "Build it again"
        call = ask["typed"]["calls"][0]
        assert (call["name"], call["reason"]) == ("Bash", "Remove the build")
        assert call["arguments"] == {**COMMAND, PLACE: f"{tool.cwd} on {os.uname().nodename}"}
        decide(expert, ask, "approve")
        assert decision_in(waiting.result(30)) == {"behavior": "allow"}
    tool.made()
    tool.hook("Stop", last_assistant_message="Built.")
    tool.hook("SessionEnd", reason="other")
    kinds = [(step["kind"], (step.get("approval") or {}).get("verdict")) for step in steps_of(agent, ask)]
    assert kinds == [("note", None), ("message", None), ("ask", None), ("tool_call", "approve"), ("message", None)]
    view = agent.get(f"/episodes/{ask['episode']}").json()
    assert (view["state"], view["stop_reason"]) == ("finished", "done")


def test_receipt_goes_with_the_next_event(desk, tool, token, agent, expert):
    with asking(tool, expert) as (waiting, ask):
        decide(expert, ask, "approve")
        assert decision_in(waiting.result(30)) == {"behavior": "allow"}
    read = agent.get(f"/asks/{ask['id']}").json()
    assert read["delivered_at"] and "consumed_at" not in read
    HookSettings("http://127.0.0.1:9", token, {}).save()
    tool.made()
    HookSettings(desk.url, token, {"claude-code": 300}).save()
    tool.hook("SessionEnd", reason="other")
    assert agent.get(f"/asks/{ask['id']}").json()["consumed_at"]


def test_edited_call_is_what_runs(tool, agent, expert):
    edited = {**COMMAND, "command": "rm -r build/cache"}
    with asking(tool, expert) as (waiting, ask):
        decide(expert, ask, "edit", {**ask["typed"]["calls"][0]["arguments"], **edited})
        assert decision_in(waiting.result(30)) == {"behavior": "allow", "updatedInput": edited}
    tool.made(edited)
    tool.hook("Stop", last_assistant_message="Done.")
    approval = next(step["approval"] for step in steps_of(agent, ask) if step["kind"] == "tool_call")
    assert (approval["verdict"], approval["by"], approval["proposed"]) == ("edit", "person", COMMAND)


def test_rejected_call_says_why(tool, agent, expert):
    with asking(tool, expert) as (waiting, ask):
        decide(expert, ask, "reject", reason="The build is in use.")
        assert decision_in(waiting.result(30)) == {"behavior": "deny", "message": "The build is in use."}
    tool.hook("Stop", last_assistant_message="I left it.")
    step = next(step for step in steps_of(agent, ask) if step["kind"] == "tool_call")
    assert step["approval"]["verdict"] == "reject" and step["error"] == "This call was not made. The build is in use."


def test_question_of_the_agent_is_a_choice(tool, expert):
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"questions": [{"question": "Which color?", "options": options, "multiSelect": True}]}
    with asking(tool, expert, name="AskUserQuestion", arguments=asked) as (waiting, ask):
        assert (ask["kind"], [option["label"] for option in ask["typed"]["options"]]) == ("choice", ["Red", "Blue"])
        answer(expert, ask, {"chosen": ["2"], "other": "Green"})
        updated = decision_in(waiting.result(30))["updatedInput"]
    assert updated == {**asked, "answers": {"Which color?": "Blue, Green"}}


def test_questions_of_the_agent_are_a_form(tool, expert):
    options = [{"label": "Red"}, {"label": "Blue"}]
    asked = {"questions": [{"question": "Wall?", "options": options}, {"question": "Door?", "options": options}]}
    with asking(tool, expert, name="AskUserQuestion", arguments=asked) as (waiting, ask):
        assert ask["kind"] == "form"
        answer(expert, ask, {"value": {"1": "Red", "2": "Blue"}})
        updated = decision_in(waiting.result(30))["updatedInput"]
    assert updated["answers"] == {"Wall?": "Red", "Door?": "Blue"}


def test_silence_leaves_the_prompt_to_the_terminal(desk, tool, token, expert):
    HookSettings(desk.url, token, {"claude-code": 1}).save()
    assert tool.prompt() is None
    assert [ask["status"] for ask in asks_of(tool, expert, "fell_back")] == ["fell_back"]


def test_unreachable_desk_decides_nothing_and_keeps_steps(desk, tool, token, agent, expert):
    HookSettings("http://127.0.0.1:9", token, {}).save()
    tool.hook("UserPromptSubmit", prompt="Build it again")
    assert tool.prompt() is None
    tool.made()
    HookSettings(desk.url, token, {"claude-code": 300}).save()
    with asking(tool, expert) as (waiting, ask):
        decide(expert, ask, "approve")
        assert decision_in(waiting.result(30)) == {"behavior": "allow"}
    assert [step["kind"] for step in steps_of(agent, ask)] == ["note", "message", "tool_call", "ask"]


def test_terminal_that_answers_first_withdraws_the_ask(tool, agent, expert):
    with asking(tool, expert) as (waiting, ask):
        tool.made()
        assert waiting.result(30) is None
    assert agent.get(f"/asks/{ask['id']}").json()["status"] == "cancelled"
    late = expert.post(f"/asks/{ask['id']}/claim")
    assert late.status_code == 409
    notes = [step["content"] for step in steps_of(agent, ask) if step["kind"] == "note"]
    assert notes[-1] == "The permission prompt was answered in the terminal."


def test_rejection_in_the_terminal_withdraws_the_ask(tool, agent, expert, tmp_path):
    transcript = tmp_path / "transcript.jsonl"
    transcript.touch()
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": COMMAND}
    with asking(tool, expert, transcript_path=str(transcript)) as (waiting, ask):
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": "rejected"}
        lines = [{"message": {"content": [block]}} for block in (call, result)]
        transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert waiting.result(60) is None
    assert agent.get(f"/asks/{ask['id']}").json()["status"] == "cancelled"


def test_standing_answer_approves_in_its_folder(tool, expert, tmp_path):
    arguments = {"command": f"make {tool.session}", "description": "Build"}
    with asking(tool, expert, arguments=arguments) as (waiting, ask):
        equal = {name: value for name, value in ask["typed"]["calls"][0]["arguments"].items() if name != "description"}
        until_ = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        body = {"tool": "Bash", "arguments": equal, "any_value": ["description"], "until": until_}
        assert expert.post("/standing-answers", json=body).status_code == 201
        assert decision_in(waiting.result(30)) == {"behavior": "allow"}
    assert decision_in(tool.prompt(arguments={**arguments, "description": "Again"})) == {"behavior": "allow"}
    other = Tool(tmp_path / "other")
    with asking(other, expert, arguments=arguments) as (waiting, ask):
        decide(expert, ask, "reject", reason="Not here.")
        assert decision_in(waiting.result(30))["behavior"] == "deny"


def test_edit_cannot_change_where_a_call_runs(tool, expert):
    with asking(tool, expert) as (waiting, ask):
        lease = expert.post(f"/asks/{ask['id']}/claim").json()
        call = {"id": "1", "verdict": "edit", "arguments": {**COMMAND, PLACE: "/ on other"}}
        body = {"lease_token": lease["lease_token"], "text": "", "decision": {"calls": [call]}, "nonce": new_id()}
        assert expert.post(f"/assignments/{lease['assignment']}/answer", json=body).status_code == 422
        tool.made()
        assert waiting.result(30) is None


@pytest.mark.parametrize("is_ahead", [False, True])
def test_answer_of_a_program_leaves_it_to_the_terminal(tool, house, expert, is_ahead):
    arguments = {"command": f"make {tool.session}"}
    with house.http(house.token("expert", behind="model")) as bot, ThreadPoolExecutor(1) as pool:
        if is_ahead:
            until_ = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            body = {"tool": "Bash", "arguments": arguments, "any_value": [PLACE], "until": until_}
            assert bot.post("/standing-answers", json=body).status_code == 201
        waiting = pool.submit(tool.prompt, arguments=arguments)
        if not is_ahead:
            decide(bot, until(lambda: next(iter(asks_of(tool, expert)), None), 30), "approve")
        assert waiting.result(30) is None
    assert [ask["status"] for ask in asks_of(tool, expert, "answered")] == ["answered"]


@pytest.mark.parametrize(("number", "heard"), [(signal.SIGTERM, "stopped"), (signal.SIGUSR1, "")])
def test_stopped_hook_withdraws_its_ask(tool, agent, expert, number, heard):
    command = installing._program(TOOLS["claude-code"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sent = tool.sent("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
    assert process.stdin is not None
    process.stdin.write(json.dumps(sent).encode())
    process.stdin.close()
    ask = until(lambda: next(iter(asks_of(tool, expert)), None), 30)
    process.send_signal(number)
    assert process.wait(30) == 0 and process.stdout is not None and process.stdout.read() == b""
    assert agent.get(f"/asks/{ask['id']}").json()["status"] == "cancelled"
    tool.hook("Stop", last_assistant_message="Stopped.")
    assert WITHDRAWN[heard] in [step.get("content") for step in steps_of(agent, ask)]


def test_prompts_at_once_keep_their_order_in_the_episode(tool, agent, expert):
    calls = [{"command": f"make part{number}"} for number in range(4)]
    threads = [threading.Thread(target=tool.prompt, kwargs={"arguments": call}) for call in calls]
    for thread in threads:
        thread.start()
    until(lambda: len(asks_of(tool, expert)) == 4, 60)
    asks = asks_of(tool, expert)
    for ask in asks:
        decide(expert, ask, "approve", ask["typed"]["calls"][0]["arguments"])
    for thread in threads:
        thread.join(60)
    assert len({ask["episode"] for ask in asks}) == 1
    assert sorted(ask["seq"] for ask in asks) == [2, 3, 4, 5]
