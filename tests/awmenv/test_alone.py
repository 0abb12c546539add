"""The environment's folder by itself, as its README says: nothing else of the repository is on the path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.awmenv.conftest import ROOT, start_server

README = (ROOT / "awmenv" / "README.md").read_text(encoding="utf-8")
WITHOUT_PATH = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_program_of_the_readme_runs_with_the_folder_alone(tmp_path: Path) -> None:
    """The server is started with the README's pack, on a port of its own."""
    (tmp_path / "awmenv").symlink_to(ROOT / "awmenv")
    (command,) = re.findall(r"^python (-m awmenv\.server --packs (\S+)) ", README, re.MULTILINE)
    server = start_server(tmp_path, ROOT / command[1])
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    program = program.replace("http://127.0.0.1:8000", server.url)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path, env=WITHOUT_PATH, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    found, reward_type = done.stdout.strip().rsplit("\n", 1)
    assert "Dockside" in found and reward_type in ("complete", "others", "incomplete")


def test_every_module_outside_the_server_imports_alone(tmp_path: Path) -> None:
    """Each in a process of its own, so that none needs another to be imported before it."""
    (tmp_path / "awmenv").symlink_to(ROOT / "awmenv")
    paths = [path for path in (ROOT / "awmenv").rglob("*.py") if "server" not in path.parts]
    modules = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths)
    program = f"""
import importlib, os, sys
for name in {modules}:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    importlib.import_module(name)
    unwanted = {{"awmweb", "awmclient", "django"}} & set(sys.modules)
    os._exit(bool(unwanted))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=WITHOUT_PATH, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
