"""The official MCP SDK 2.x as a client of `/mcp`, beside the 1.x that the product pins (`make test-frameworks`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frameworks.pausing import a_name, deciding, verdicts
from tests.frameworks.story import PATIENCE_S

pytestmark = pytest.mark.frameworks
PYTHON = Path(sys.prefix).parent / ".venv-mcp2" / "bin" / "python"
CLIENT = Path(__file__).with_name("mcp2_client.py")
ANSWERS = {"Into which one?": "Into the oldest.", "The one in Rome.": "Merge it."}


def answered(ask):
    if ask["kind"] == "approval":
        return verdicts(ask, "approve")
    if ask["question"] == "With which one?":
        return {"text": "Which store?", "asks_back": True}
    return {"text": ANSWERS[ask["question"]]}


def test_mcp_client_2_asks_and_runs_a_task(house, agent_token, expert_token):
    url = f"{house.url}/mcp?task={a_name('mcp2')}"
    with deciding(house, expert_token, answered):
        done = subprocess.run(
            [PYTHON, CLIENT, url, agent_token], capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stderr
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    decision = said.pop("decision")
    assert (decision["status"], decision["decision"]["calls"][0]["verdict"]) == ("decided", "approve")
    assert said == {
        "version": "2025-11-25",
        "tools": ["ask_expert", "request_approval", "answer_elicitation"],
        "advice": {"status": "advice", "advice": "Into the oldest."},
        "asked": "Which store?",
        "result": {"status": "advice", "advice": "Merge it."},
        "status": "completed",
        "listed": True,
    }
