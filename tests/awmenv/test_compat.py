"""The clients of both distributions of openenv drive our server, each with its own package first on the path of its
own process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.awmenv.conftest import Server

PLAYER = Path(__file__).with_name("compat_play.py")
GENERIC = {
    "reset": "reset_ok",
    "tools": 7,
    "call": ["tool_call_ok", 0.0],
    "verify": ["complete", 1.0, False],
    "sql": "judge_error",
    "done": ["episode_done", True],
    "scenarios": 2,
    "steps": 5,
}
TOOLS = {
    "reset_done": False,
    "tools": ["list_notes", "create_note"],
    "schema": ["title"],
    "step_tools": 7,
    "step_call": "list_labels",
    "counted": True,
}


@pytest.mark.compat
@pytest.mark.parametrize("distribution", ["openenv==0.10.0", "openenv-core==0.3.0"])
def test_the_clients_of_a_distribution_play_a_whole_episode(server: Server, tmp_path: Path, distribution: str) -> None:
    """Both ship the same import package, so each goes into a folder of its own, without what it shares with ours."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), distribution]
    subprocess.run(install, check=True, capture_output=True, timeout=180)
    done = subprocess.run(
        [sys.executable, str(PLAYER), server.url],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["from"]).is_relative_to(tmp_path)
    assert found["generic"] == GENERIC
    assert found["tools"] == TOOLS
