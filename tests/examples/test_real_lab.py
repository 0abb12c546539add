"""What makes `make train-real` go on after a kill: its folder, its lock, what it keeps, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from awmweb.embedded import servers
from awmweb.embedded.paths import data_paths
from tests.running import ROOT

pytest.importorskip("torch")  # which the desks of `make train-demo` import
from examples.train_real import lab  # noqa: E402

pytestmark = pytest.mark.train


def test_folder_of_another_size_is_refused(tmp_path):
    size = lab.Size(1, 2, 1, 5, 8, 2)
    lab.of_size(tmp_path, size)
    lab.of_size(tmp_path, size)
    with pytest.raises(SystemExit, match="is of another size"):
        lab.of_size(tmp_path, replace(size, steps=9))


def test_second_call_keeps_off_and_a_left_product_is_stopped(tmp_path):
    """What a killed call left is a process with the lock of the data folder; here it is one that does nothing else."""
    var = tmp_path / "product"
    command = "import sys, time; from pathlib import Path; from awmweb.embedded import paths, servers\n"
    command += "with servers.locked(paths.data_paths(Path(sys.argv[1]))): print('runs', flush=True); time.sleep(600)"
    left = subprocess.Popen([sys.executable, "-c", command, str(var)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert left.stdout.readline() == "runs\n"
        with lab.alone(tmp_path):
            assert left.poll() is not None
            with pytest.raises(SystemExit, match="Another call works"), lab.alone(tmp_path):
                raise AssertionError
        with lab.alone(tmp_path), servers.locked(data_paths(var)):
            pass
    finally:
        left.kill()
        left.wait()
        left.stdout.close()


def test_what_was_made_is_not_made_again(tmp_path):
    at = SimpleNamespace(state=tmp_path)
    assert lab.Lab.once(at, "rollouts", lambda: [1]) == [1]
    assert lab.Lab.once(at, "rollouts", lambda: 1 / 0) == [1]
    with pytest.raises(ZeroDivisionError):
        lab.Lab.once(at, "other", lambda: 1 / 0)
    assert lab.Lab.once(at, "other", lambda: [2]) == [2]


def test_progress_says_how_long_the_rest_takes():
    arms = [{"name": "sft", "complete": 1, "ended": 4, "planned": 10}, {"name": "ask", "complete": 0, "ended": 0}]
    arms[1]["planned"] = 10
    words = "sft 1 complete of 4, ask 0 complete of 0; 4 of 20 episodes"
    assert lab.progress(arms, 120) == f"{words}, about 8 minutes left"
    arms[0]["ended"] = 0
    assert lab.progress(arms, 120).endswith("0 of 20 episodes")


@pytest.mark.parametrize(
    ("rounds", "is_refused"),
    [
        ("sft", False),
        ("sft,ask,alone,dpo,grpo", False),
        ("sft,grpo", False),
        ("ask", True),
        ("dpo,sft", True),
        ("sft,dpo", True),
        ("sft,sft", True),
        ("sft,rest", True),
    ],
)
def test_rounds_come_in_their_order(rounds, is_refused):
    with pytest.raises(SystemExit, match="ROUNDS") if is_refused else nullcontext():
        lab.ordered(rounds.split(","))
