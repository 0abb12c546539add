"""Rows of SQL that attack whoever runs them, through the real commands: each becomes a line of the load report, the
process that reports lives, and what it and its children take is bounded.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.awmenv.attacks import ROWS
from tests.awmenv.hostile_packs import pack
from tests.running import ROOT

pytestmark = pytest.mark.attack("pack rows")

BUILD_MB = 512
"""What the process of one database may take, `awmenv.server.session.scenario.BUILD_MEMORY`."""


def manage(var: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a command: (what it said, most megabytes that one process of it held).

    Linux keeps each process's own peak, so that a look now and then is enough: each look reads all processes of the
    machine.
    """
    limits = {"AWMENV_LOAD_TIMEOUT": "3", "AWMENV_VERIFIER_SLOTS": "2", "AWMENV_PARTIAL": "0"}
    environment = {**os.environ, "AWMWEB_VAR": str(var), **limits}
    command = [sys.executable, "manage.py", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        family, peak = psutil.Process(process.pid), 0
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                peak = max(peak, *map(most_held, [family, *family.children(recursive=True)]))
            time.sleep(0.1)
        said = process.stdout.read() if process.stdout else ""
        return subprocess.CompletedProcess(command, process.returncode, said), peak / 1e6


def most_held(process: psutil.Process) -> int:
    """The most bytes of memory that a process has had so far; 0 if it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):  # between the opening and the reading
        return 0
    return int(found[1]) * 1024 if found else 0


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str], float]:
    """A pack with a scenario for each attack and two good ones, taken in by `loadpack`."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "var").mkdir()
    pack(folder / "rows", name="good_1")
    for name, (inserts, _) in ROWS.items():
        pack(folder / "rows", name=name, inserts=inserts)
    pack(folder / "rows", name="good_2", inserts=["INSERT INTO t VALUES (1)"])
    return folder / "var", *manage(folder / "var", "loadpack", str(folder / "rows"))


@pytest.mark.long
def test_loadpack_reports_hostile_rows_and_lives(loaded):
    _var, done, peak_mb = loaded
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    for name, (_, said) in ROWS.items():
        lines = [line for line in done.stdout.splitlines() if f" {name}: " in line and "error" in line]
        assert re.search(said, lines[0]), lines  # a second one says that SQLite gave up the whole database for it
    assert f"2 scenarios in {loaded[0]}/packs/rows, {len(ROWS)} rejected" in done.stdout
    assert 0 < peak_mb < BUILD_MB


@pytest.mark.long
def test_checkpack_reports_hostile_rows_by_scenario(loaded, tmp_path):
    """The same rows in the same process; `test_loading_packs.py` reads a report of it in each run of the tests."""
    report = tmp_path / "report.jsonl"
    done, peak_mb = manage(loaded[0], "checkpack", "rows", "--report", str(report))
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert {row["scenario"] for row in rows if row.get("code") == "sql_failed"} == set(ROWS)
    assert 0 < peak_mb < BUILD_MB
    assert not Path("/tmp/rows-were-here.db").exists()
