"""The training loop of the docs runs as a newcomer runs it: a process of its own, a local model, the real desk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.commands import ROOT


def test_docs_trainer_plays_groups_and_reports_its_steps(house):
    server = OpenAIServer(lambda body: "I looked, and there is nothing to do.")
    with answering(server):
        mine = {
            "AWMWEB_URL": house.url,
            "AWMWEB_TOKEN": house.token("agent"),
            "AWMENV_URL": f"http://127.0.0.1:{house.environment['AWMENV_PORT']}",
            "MODEL_URL": server.base_url,
            "MODEL": "tiny",
            "STEPS": "2",
            "PYTHONPATH": str(ROOT),
        }
        script = [sys.executable, str(ROOT / "examples" / "own_trainer.py")]
        done = subprocess.run(script, env={**os.environ, **mine}, capture_output=True, text=True, timeout=600)
    said = [re.match(r"step (\d): (\w+) next, mean reward", line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [one and one[1] for one in said] == ["1", "2"], done.stderr
    with house.http(house.token("export")) as http:
        [run] = [one["id"] for one in http.get("/runs").json()["items"] if one["name"] == "own trainer"]
        episodes = http.get(f"/episodes?run={run}&limit=100").json()["items"]
    helped = Counter(one["training_step"] for one in episodes if one["expert"] == "plain")
    # a task that is complete without a call is no format error, so the draw of the first step decides about the second
    assert helped == {1: 6, 2: {"scaffold": 6, "balanced": 4, "independence": 2}[said[0][2]]}
    assert Counter(one["training_step"] for one in episodes) == {1: 8, 2: 8}
    assert {one["state"] for one in episodes} == {"finished"}


def test_docs_trainer_is_short():
    assert len((ROOT / "examples" / "own_trainer.py").read_text().splitlines()) < 65
