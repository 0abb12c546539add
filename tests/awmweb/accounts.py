"""Whoever runs the embedded runtime in these tests: their folder, their account, their processes."""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from awmweb.embedded.paths import reachable

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).parent / "stand_in"

# For what does not depend on the account: the other half of the cases would only cost time
as_self = pytest.mark.parametrize("person", ["self"], indirect=True)


FIRST_START = """
import os
from pathlib import Path
from awmweb.embedded.servers import running
with running(Path(os.environ["AWMWEB_VAR"])):
    pass
"""
_started: dict[int, Path] = {}
"""By account, the data folder that its first start and a stop left."""


@dataclass
class Person:
    """Somebody who runs programs in a folder of their own."""

    folder: Path
    python: str
    identity: dict = field(default_factory=dict)
    source: Path = ROOT

    @property
    def var(self) -> Path:
        return self.folder / "var"

    def environment(self, **more: str) -> dict[str, str]:
        known = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "AWMWEB_VAR": str(self.var)}
        return known | {"PYTHONPATH": os.pathsep.join([str(self.source), *site_packages()])} | more

    def start(self, *command: str, **more: str) -> subprocess.Popen:
        return subprocess.Popen(
            [self.python, *command],
            cwd=self.folder,
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self.identity,
        )

    def run(self, code: str) -> str:
        """Run a program and return what it printed; fails with what it said."""
        process = self.start("-c", code)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    def have_started_before(self, name: str = "var") -> None:
        """Fill a data folder as a start and a stop of the servers leave it. For tests that are not about the first
        start: to make a database takes a second of a core, a copy of it a twentieth."""
        user = self.identity.get("user", os.geteuid())
        if user not in _started:
            home = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
            home.chmod(0o755)
            os.chown(home, user, self.identity.get("group", os.getegid()))
            atexit.register(shutil.rmtree, home, ignore_errors=True)
            first = replace(self, folder=home)
            first.run(FIRST_START)
            _started[user] = first.var
        subprocess.run(["cp", "-a", _started[user], self.folder / name], check=True)


def site_packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


def wait_until(true, seconds: float = 90.0, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every live process whose command line, title or working folder names this folder or its data."""
    found = []
    data = folder / "var" / "postgres"
    title = f"awmweb-{data.stat().st_ino}:" if data.exists() else None
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            line = " ".join(process.cmdline())
            if str(folder) in line or (title and title in line) or process.cwd() == str(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def interpreter_for(uid: int) -> str | None:
    """An interpreter that this user may run: the tests' own often lies below a closed home."""
    for name in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        path = Path(name)
        if not path.exists() or not reachable(path.resolve(), uid):
            continue
        version = subprocess.run(
            [name, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
        )
        if tuple(map(int, version.stdout.split())) >= (3, 11):
            return name
    return None
