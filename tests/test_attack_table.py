"""The summary of `make attack` counts what really happened, also between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import ROOT

SUITE = """
import pytest
pytestmark = pytest.mark.attack("rows")

@pytest.fixture
def broken():
    yield
    raise RuntimeError

@pytest.mark.parametrize("number", range(3))
def test_holds(number): pass
def test_breaks(): assert False
def test_leaves_a_mess(broken): pass
def test_cannot_run(): pytest.skip("no kernel")
@pytest.mark.attack("doors")
def test_door(): pass
def test_costs(record_property):
    record_property("place", {
        "name": "YAML", "bytes": 999_900, "memory": 4.51, "most": 16, "quarter": 0.1, "whole": 0.4,
        "hold": 0.02, "unit": 0.01,
    })
"""

COST = "| YAML | 1,000 | 4.5 of 16 | 0.100, 0.400 | 2.0 |"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_table_counts_held_broken_and_skipped(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_other.py").write_text("def test_not_chosen(): assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = attack\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.attack_table", "-p", "no:django", "-p", "no:cacheprovider"]
    command += ["-n", workers, "-m", "attack", "--attack-table", "out/table.md"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stdout + done.stderr
    for line in ("| doors | 1 | 1 | 0 | 0 |", "| rows | 7 | 4 | 2 | 1 |", "| all | 8 | 5 | 2 | 1 |", COST):
        assert line in done.stdout and line in (tmp_path / "out" / "table.md").read_text()
