"""The whole product on a disk that fills: what was acknowledged stays, and everything goes on with the space."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.awmweb.test_full_disk import fill
from tests.product.test_streaming import append, start
from tests.running import product, until


@pytest.fixture
def small_folder():
    """A data folder on a disk of its own, which a first start fills to a half."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = Path(tempfile.mkdtemp(prefix="awmweb-small-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=711", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
    folder.rmdir()


@pytest.mark.long
@pytest.mark.slow
def test_agent_waits_for_a_full_disk_and_loses_nothing(small_folder):
    with product(small_folder / "var") as house, house.http(house.token("agent")) as http:
        episode = start(http)
        assert append(http, episode, 1).json() == {"acknowledged": 1}
        filler = fill(small_folder)
        seqs, answers = iter(range(2, 10_000)), []

        def refused():
            answers.append(append(http, episode, next(seqs)))
            return answers[-1].status_code == 503

        until(refused, 120)
        stored = len(answers)  # some fit into pages that PostgreSQL had already
        assert answers[-1].json()["error"]["code"] == "no_space"
        assert {one.status_code for one in answers[:-1]} <= {200}
        for name in ("rollouts", "beat", "web"):
            with suppress(ProcessLookupError):  # the rollouts worker ends by itself there, and its new pid is not noted
                house.kill(name)
        until(lambda: any("is full" in line for line in house.said), 60)
        for name in ("rollouts", "beat", "web"):
            until(lambda name=name: any(f"{name} exited" in line for line in house.said), 60)
        assert house.process.poll() is None
        threading.Timer(5, filler.unlink).start()
        until(lambda: any("has space again" in line for line in house.said), 60)
        until(house.healthy, 120)
        until(lambda: append(http, episode, stored + 1).status_code == 200, 60)
        steps = http.get(f"/episodes/{episode}/steps").json()["steps"]
        assert [one["seq"] for one in steps] == list(range(1, len(steps) + 1)) and len(steps) >= stored + 1
        until(lambda: {"rollouts", "beat", "web"} <= set(house.children()), 60)
        assert sum("is full" in line for line in house.said) == 1
