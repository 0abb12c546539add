"""A running environment server for the tests of its behaviour, on a free port and in a folder of its own."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import nursery
from tests.warm import CAN_FORK, Fork, Warm

ROOT = Path(__file__).resolve().parents[2]
START_S = 90
TINY = ROOT / "tests" / "packs" / "tiny"
PROGRAM = ("-m", "awmenv.server")
WARM = Warm("awmenv.server")


@dataclass
class Server:
    """One environment server process."""

    process: subprocess.Popen[str] | Fork
    port: int
    run_dir: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def start_server(
    run_dir: Path,
    packs: Path = TINY,
    user: int | None = None,
    python: str = sys.executable,
    program: tuple[str, ...] = PROGRAM,
    own_zygotes: bool = True,
    **environment: str,
) -> Server:
    """Start a server and wait for it. Without `own_zygotes` no test may look at its processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWMENV_", "AWMWEB_"))}
    env |= {"AWMENV_RUN_DIR": str(run_dir), "AWMENV_CACHE_DIR": str(run_dir / "cache"), **environment}
    arguments = ["--packs", str(packs), "--port", str(port)]
    if (user, python, program) == (None, sys.executable, PROGRAM) and _tell_no_interpreter(environment):
        process = launch(*arguments, environment=env, own_zygotes=own_zygotes)
    else:
        process = subprocess.Popen(
            [python, *program, *arguments], cwd=ROOT, env=env, user=user, group=user,
            extra_groups=[] if user else None, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    server = Server(process, port, run_dir)
    _wait_until_up(server)
    return server


def launch(*arguments: str, environment: Mapping[str, str], own_zygotes: bool = True) -> subprocess.Popen[str] | Fork:
    """Start the server's program, as a fork where the system has what tests need of one."""
    if CAN_FORK:
        return WARM.start(*arguments, environment=environment, nursery=[] if own_zygotes else [nursery.line()])
    return subprocess.Popen(
        [sys.executable, *PROGRAM, *arguments],
        cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _tell_no_interpreter(settings: Iterable[str]) -> bool:
    """Tell whether these are settings of the server alone, and none is a secret that someone may look for."""
    return all(name.startswith("AWMENV_") and not name.startswith("AWMENV_JUDGE_") for name in settings)


def _wait_until_up(server: Server) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if server.process.poll() is not None:
            raise AssertionError(f"the server ended: {server.process.stdout.read() if server.process.stdout else ''}")
        with contextlib.suppress(OSError):
            server.get("/health")
            return
        time.sleep(0.05)
    server.process.kill()
    raise AssertionError("the server did not answer in time")


class OpenFolders:
    """Temporary folders that sandbox users may pass through.

    pytest's own lie below one that every starting pytest makes private again, so they close while a test runs.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tests-awmenv-"))
        self.root.chmod(0o711)

    def mktemp(self, name: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.root))
        folder.chmod(0o711)
        return folder

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="session")
def tmp_path_factory() -> Iterator[OpenFolders]:
    folders = OpenFolders()
    yield folders
    folders.remove()


@pytest.fixture
def tmp_path(tmp_path_factory: OpenFolders) -> Path:
    return tmp_path_factory.mktemp("test")


@pytest.fixture(scope="session")
def server(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    """One server over the tiny pack, shared by all tests that leave it as they found it."""
    running = start_server(tmp_path_factory.mktemp("awmenv"))
    yield running
    running.stop()


OF_PROCESSES = (
    "hostile_scenarios", "lifetimes", "lost_worlds", "ordinary_user", "pacing", "restoring", "sharing", "spans",
    "strays", "threads", "tier_probes", "turns", "worlds",
)  # fmt: skip
"""Files whose tests look at a server's processes, or at what its sandboxes can reach."""


@pytest.fixture
def make_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Servers of a test's own, ended with the test."""
    made: list[Server] = []
    own_zygotes = request.path.stem.removeprefix("test_") in OF_PROCESSES

    def make(packs: Path = TINY, user: int | None = None, python: str = sys.executable, **environment: str) -> Server:
        made.append(start_server(tmp_path, packs, user, python, own_zygotes=own_zygotes, **environment))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.stop()


EVER_S = 90
"""Nobody waits so long but for what never comes; with all cores busy, a second's work may take ten."""


def eventually(check: Callable[[], bool], seconds: float = EVER_S) -> bool:
    ends = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < ends:
        time.sleep(0.02)
    return found
