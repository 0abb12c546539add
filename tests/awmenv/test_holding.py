"""No client and no world holds the server's loop for long, whatever it does: everybody else waits for it meanwhile."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.worlds.neighbor import KINDS, write_pack
from tests.awmenv.conftest import ROOT, OpenFolders, Server, start_server

pytestmark = [pytest.mark.attack("frames"), pytest.mark.long]

LIMIT_MS = 40
"""Several times what is measured, for machines that are slower; without the bounds it is 100 to 11,000."""
BUSY_S = 2.0


@pytest.fixture(scope="module")
def noting(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("holding")
    program = (str(Path(__file__).with_name("holding.py")),)
    running = start_server(folder, write_pack(folder / "pack"), program=program, AWMENV_VERIFIER_TIMEOUT="3")
    yield running
    running.stop()


def longest_hold(server: Server) -> tuple[float, str]:
    """Milliseconds since it was asked last, and what took them."""
    assert server.process.stdout is not None
    server.process.send_signal(signal.SIGUSR1)
    server.get("/health")  # a sleeping loop hears no signal
    for line in server.process.stdout:
        if line.startswith("held "):
            _, held, culprit = line.split(" ", 2)
            return float(held), culprit
    raise AssertionError("the server ended")


@contextlib.contextmanager
def neighbor(kind: str, port: int) -> Iterator[list[int]]:
    """A hostile one at work; afterwards the list holds how many acts it got through."""
    command = [sys.executable, str(ROOT / "bench" / "worlds" / "neighbor.py"), kind, str(port)]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    acts: list[int] = []
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield acts
    said, _ = process.communicate("end\n", timeout=60)
    acts.append(json.loads(said.splitlines()[-1])["acts"])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_neighbor_does_holds_the_loop(noting: Server, kind: str) -> None:
    with neighbor(kind, noting.port):  # whatever is done once, such as loading its scenario, is another test's
        longest_hold(noting)
    with neighbor(kind, noting.port) as acts:
        time.sleep(BUSY_S)
    held_ms, culprit = longest_hold(noting)
    assert held_ms < LIMIT_MS, culprit
    assert acts[0] > 0, "it did nothing"


def test_longest_tool_list_does_not_block_other_sessions(noting: Server, tmp_path: Path) -> None:
    longest_hold(noting)
    with neighbor("longest_tool_list", noting.port):
        held_ms, culprit = longest_hold(noting)
    assert held_ms < LIMIT_MS, culprit
