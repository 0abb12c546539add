"""What all tests of real programs need: the program, the installed hook, and asks of a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from people.models import new_id
from tests.running import ROOT, until

KEY = "sk-ant-local-0123456789"
PROGRAMS = ROOT / ".venv-hooks" / "node_modules" / ".bin"


def program(name):
    """Return the path of a program that `make test-hooks` has installed."""
    path = PROGRAMS / name
    if not path.exists():
        pytest.fail(f"{path} is missing: run make test-hooks")
    return str(path)


def claude_code(server, work, home):
    """Return the settings with which Claude Code begins in a folder at once, with a model endpoint as its own."""
    trust = {str(work): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    first = {"hasCompletedOnboarding": True, "theme": "dark", "projects": trust}
    first["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
    (home / ".claude.json").write_text(json.dumps(first))
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color", "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip


def installed(house, tool, environment, *words):
    """Install the hook of a tool as a person does, with the settings of an environment. Return what it prints."""
    command = [sys.executable, "-m", "awmclient", "hook", "install", tool, "--url", house.url, *words]
    settings = {**environment, "AWMWEB_TOKEN": house.token("agent")}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asks_in(expert, work, seconds=120):
    """Wait for open asks of a folder."""

    def listed():
        asks = expert.get("/asks?status=open").json()["asks"]
        # of a tool whose calls can name another folder it is that of the session
        return [ask for ask in asks if f": {work}\n" in f"{ask['context']}\n"]

    return until(listed, seconds)


def decide(expert, ask, verdict="approve", arguments=None, reason=None, decision=None):
    lease = expert.post(f"/asks/{ask['id']}/claim").json()
    call = {"id": "1", "verdict": verdict, "arguments": arguments, **({"reason": reason} if reason else {})}
    body = {"lease_token": lease["lease_token"], "text": "", "decision": decision or {"calls": [call]}}
    response = expert.post(f"/assignments/{lease['assignment']}/answer", json={**body, "nonce": new_id()})
    assert response.status_code == 200, response.text
