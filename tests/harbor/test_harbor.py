"""Claude Code, driven by Harbor on one task with one flag more: it asks at the desk, and its trial is an episode."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from people.models import new_id
from tests.coding_agents.model_server import call, model, text
from tests.coding_agents.programs import program
from tests.running import ROOT, until

pytestmark = pytest.mark.harbor
HARBOR = ROOT / ".venv-harbor" / "bin" / "harbor"
QUESTION = "Which backup may be removed: old.tar or new.tar?"
TASK = """schema_version = "1.4"
[task]
name = "desk/remove-a-backup"
"""
TEST = """#!/bin/bash
if test -e /app/new.tar && ! test -e /app/old.tar; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.fixture
def task(tmp_path):
    folder = tmp_path / "remove-a-backup"
    for place, words in {
        "task.toml": TASK,
        "instruction.md": "Remove the backup in /app that is not needed. Ask an expert which one it is.\n",
        "environment/old.tar": "old",
        "environment/new.tar": "new",
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": TEST,
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(words)
    return folder


def harbor(house, tmp_path, *words):
    """Start a command of Harbor with the plugin, as a person does."""
    if not HARBOR.exists():
        pytest.fail(f"{HARBOR} is missing: run make test-harbor")
    environment = {
        "PATH": f"{os.path.dirname(program('claude'))}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT), "AWMWEB_URL": house.url, "AWMWEB_TOKEN": house.token("agent"),
        "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }  # fmt: skip
    command = [HARBOR, *words, "--plugin", "awmweb"]
    log = (tmp_path / "harbor.log").open("a")
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT)


def ended(process, tmp_path):
    code = process.wait(240)
    assert code == 0, (tmp_path / "harbor.log").read_text()


def answer(expert, ask, words):
    lease = expert.post(f"/asks/{ask['id']}/claim").json()
    body = {"lease_token": lease["lease_token"], "text": words, "nonce": new_id()}
    response = expert.post(f"/assignments/{lease['assignment']}/answer", json=body)
    assert response.status_code == 200, response.text


def test_harness_asks_and_its_trial_is_an_episode(house, task, tmp_path):
    turns = [
        [text("I look first."), call(1, "Bash", {"command": "ls"})],
        [call(2, "mcp__awmweb__ask_expert", {"question": QUESTION})],
        [call(3, "Bash", {"command": "rm old.tar"})],
        [text("Removed old.tar.")],
    ]
    expert, reader = house.http(house.token("expert", behind="person")), house.http(house.token("export"))
    with model(turns) as server:
        agent = ["--agent", "claude-code", "--model", "claude-sonnet-4-5", "--agent-env", "ANTHROPIC_API_KEY=sk-local"]
        agent += ["--agent-env", f"ANTHROPIC_BASE_URL={server.url}", "--env", "tests.harbor.folder:Folder"]
        place = ["--jobs-dir", tmp_path / "jobs", "--job-name", "backups", "--yes"]
        process = harbor(house, tmp_path, "run", "--path", task, *agent, *place)
        try:
            [ask] = until(lambda: asked(expert), 180)
            before = until(lambda: seen(reader, ask, "tool_call"), 60)
            answer(expert, ask, "old.tar.")
            ended(process, tmp_path)
        finally:
            process.kill()
            process.wait()
    assert "I look first." in json.dumps(before)
    assert "old.tar." in json.dumps(server.bodies[-1]["messages"])
    [item] = reader.get("/episodes?scenario=desk/remove-a-backup").json()["items"]
    assert (item["id"], item["state"], item["stop_reason"]) == (ask["episode"], "finished", "done")
    assert item["outcomes"] == [{"reward_type": "complete", "reward": 1.0, "source": "reported"}]
    steps = reader.get(f"/episodes/{item['id']}/steps").json()["steps"]
    assert [step["name"] for step in steps if step["kind"] == "tool_call"] == ["Bash", "Bash"]
    [question] = [step for step in steps if step["kind"] == "ask"]
    assert (question["question"], question["advice"]["text"]) == (QUESTION, "old.tar.")
    written = [file for file in (tmp_path / "jobs").rglob("*") if file.is_file() and b"episode-" in file.read_bytes()]
    assert written == []  # no file of the job has the token
    ended(harbor(house, tmp_path, "job", "resume", "--job-path", tmp_path / "jobs" / "backups"), tmp_path)
    assert len(reader.get("/episodes?scenario=desk/remove-a-backup").json()["items"]) == 1


def asked(expert):
    return [ask for ask in expert.get("/asks?status=open").json()["asks"] if ask["question"] == QUESTION]


def seen(reader, ask, kind):
    steps = reader.get(f"/episodes/{ask['episode']}/steps").json()["steps"]
    return steps if any(step["kind"] == kind for step in steps) else None
