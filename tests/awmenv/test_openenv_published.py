"""The commands of the docs that publish the environment server, with the real `openenv`: checked, pushed, cataloged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.awmenv.conftest import ROOT, Server
from tests.documented import Block, proves, starting
from tests.exports.hub_server import TOKEN, hub

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@t.example"]


def checkout(folder: Path) -> Path:
    """A repository with what is published, as someone who clones it has it."""
    for name in ("LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("awmenv", "packs/starter"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "commit.txt"))
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True)
    return folder


@proves("docs/environment.md", "cp -r awmenv")
def test_documented_commands_publish_the_server(block: Block, server: Server, tmp_path: Path) -> None:
    folder, openenv = checkout(tmp_path), str(Path(sys.executable).with_name("openenv"))
    printed = ""
    with hub() as there:
        at_hub = {"HF_ENDPOINT": there.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}
        environment = {**os.environ, **at_hub, "NO_COLOR": "1", "COLUMNS": "200"}
        for line in block.shell():
            line = re.sub(r"^openenv ", f"{openenv} ", line.replace("http://127.0.0.1:8100", server.url))
            done = subprocess.run(
                line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            printed += done.stdout + done.stderr
    [shown] = starting("docs/environment.md", "  PASS  openapi")
    same = re.compile(r"sha256:(\w+|…)|\(\d\.\d+s\)")
    lines = [same.sub("", one) for one in printed.splitlines()]
    assert [one for one in shown.text.splitlines() if same.sub("", one) not in lines] == []
    assert "FAIL" not in printed
    assert there.commits == 1 and there.made["NAME/awmenv"]["sdk"] == "docker"
    arrived = tmp_path / "arrived"
    for name, content in there.files.items():
        (arrived / name).parent.mkdir(parents=True, exist_ok=True)
        (arrived / name).write_bytes(content)
    done = subprocess.run([openenv, "validate", "--level", "static"], cwd=arrived, capture_output=True, text=True)
    assert done.returncode == 0 and "Verdict: PASS" in done.stdout
    assert {"packs/gen_tasks.jsonl", "server/app.py", "Dockerfile"} <= set(there.files)


def test_project_of_the_server_names_the_versions_of_its_lock() -> None:
    project = tomllib.loads((ROOT / "awmenv" / "pyproject.toml").read_text())["project"]
    pinned = [one for one in (ROOT / "awmenv" / "requirements.txt").read_text().splitlines() if not one.startswith("#")]
    assert project["dependencies"] == pinned
    assert f"version: {project['version']}\n" in (ROOT / "awmenv" / "openenv.yaml").read_text()
