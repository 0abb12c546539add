"""The fork server that answers in time, late, or not at all: a process is started once, by it or by the supervisor."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from awmweb.embedded import forking
from tests.commands import ROOT

pytestmark = pytest.mark.skipif(not forking.is_possible(), reason="processes are forked on Linux alone")
MODULE = """
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.01)
"""
# in a process of its own: who has a fork server adopts the orphans below it
SUPERVISOR = """
import contextlib, os, pathlib, subprocess, sys, time
from awmweb.embedded import forking
from tests.commands import ROOT
from awmweb.embedded.processes import Spec

forking.REPLY_S, is_late = float(sys.argv[1]), sys.argv[2] == "late"
here = pathlib.Path.cwd()
environment = {"PYTHONPATH": os.pathsep.join([str(here), *sys.path]), "PATH": os.environ["PATH"]}
server = forking.ForkServer("slow", here, environment, here / "log")
spec = lambda name: Spec(name, [sys.executable, "-c.py", name], here / "log", here, environment)
if not is_late:
    (here / "go").touch()
first = server.start(spec("first"))
(here / "go").touch()
if is_late:
    with contextlib.suppress(subprocess.TimeoutExpired):
        server._process.process.wait(10)
if sys.argv[2] == "other":
    environment = {**environment, "DATABASE_URL": "another"}
second = server.start(spec("second"))
if sys.argv[2] == "closed":
    server.close()
for one in (first, second):
    if one is not None:
        one.process.wait(30)
print(first is not None, second is not None, flush=True)
time.sleep(0.5)
if sys.argv[2] != "closed":
    server.close()
"""


@pytest.fixture
def outcome(tmp_path):
    """Return which of two processes the fork server gave, and which ran."""

    def inner(reply_s, how):
        (tmp_path / "slow.py").write_text(MODULE)
        (tmp_path / "-c.py").write_text("import pathlib, sys\npathlib.Path(f'ran {sys.argv[1]}').touch()\n")
        root = Path(forking.__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", SUPERVISOR, str(reply_s), how],
            cwd=tmp_path,
            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.split(), sorted(path.name for path in tmp_path.glob("ran *"))

    return inner


def test_process_is_forked_by_a_server_that_answers(outcome):
    assert outcome(30, "in time") == (["True", "True"], ["ran first", "ran second"])


def test_process_runs_though_its_server_is_closed(outcome):
    assert outcome(30, "closed") == (["True", "True"], ["ran first", "ran second"])


def test_process_with_settings_of_its_own_is_not_forked(outcome):
    assert outcome(30, "other") == (["True", "False"], ["ran first"])


def test_process_of_a_late_answer_never_runs(outcome):
    began = time.monotonic()
    # the supervisor has started both by itself, so a second one of either would be one too many
    assert outcome(0.3, "late") == (["False", "False"], [])
    assert time.monotonic() - began < 20


def test_shells_of_libraries_stay_out_of_memory():
    """What is imported before the fork is in every service, idle or not."""
    said = (
        "import sys, awmweb.preloaded, httpx, celery.bin.amqp; "
        "print([name for name in ('prompt_toolkit', 'wcwidth', 'rich') if name in sys.modules], httpx.Client)"
    )
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] <class 'httpx.Client'>"
