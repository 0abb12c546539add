"""Folders and accounts for tests of the embedded runtime.

Servers and supervisor run in processes of their own, as whoever runs the tests and, where that is root, as a normal
user too.
"""

import os
import pwd
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from awmweb.embedded.paths import reachable
from tests.awmweb.accounts import ROOT, Person, interpreter_for, processes_of, site_packages
from tests.examples import some_of

NORMAL_USER = "nobody"


@pytest.fixture(params=some_of(["self", "normal user"]))
def person(request):
    """Whoever runs the tests, then a normal user where that is root."""
    folder = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
    folder.chmod(0o755)
    runner = Person(folder, sys.executable)
    if request.param == "normal user":
        if os.geteuid() != 0:
            pytest.skip("the tests run as a normal user already")
        entry = pwd.getpwnam(NORMAL_USER)
        python = interpreter_for(entry.pw_uid)
        if python is None:
            pytest.skip("no Python that a normal user may run")
        identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        runner = Person(folder, python, identity)
        if not all(reachable(Path(one).resolve(), entry.pw_uid) for one in site_packages()):
            pytest.skip("the installed packages lie where a normal user may not go")
        # the checkout itself may be closed to others, so they get a copy of what they run
        shutil.copytree(ROOT / "awmweb", folder / "source" / "awmweb", ignore=shutil.ignore_patterns("__pycache__"))
        runner.source = folder / "source"
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    yield runner
    left = processes_of(folder)
    for process in left:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(left, timeout=60)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"left running: {[process.cmdline() for process in left]}"


@pytest.fixture
def own_folder():
    """A folder that every account may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
