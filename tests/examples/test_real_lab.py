"""What makes `make train-real` go on after a kill: its folder, its lock, what it keeps, and what it prints."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from awmenv.packs import load_pack
from awmweb.embedded import servers
from awmweb.embedded.paths import data_paths
from runs.plan.plans import PlanDocument
from tests.running import ROOT

pytest.importorskip("torch")  # which the desks of `make train-demo` import
from examples.train_real import __main__ as rounds  # noqa: E402
from examples.train_real import desks, lab  # noqa: E402

pytestmark = pytest.mark.train
SIZE = lab.Size(1, 2, 1, 5, 8, 2)
HOLDER = """
import sys, time
from pathlib import Path
from awmweb.embedded import paths, servers
here = paths.data_paths(Path(sys.argv[1]))
with servers.locked(here):
    pid = here.lock.read_text()
    here.lock.write_text("")
    print("runs", flush=True)
    sys.stdin.readline()
    here.lock.write_text(pid)
    print("says", flush=True)
    time.sleep(600)
"""


def test_folder_of_another_size_is_refused(tmp_path):
    lab.of_size(tmp_path, SIZE)
    lab.of_size(tmp_path, SIZE)
    with pytest.raises(SystemExit, match="is of another size"):
        lab.of_size(tmp_path, replace(SIZE, steps=9))
    lab.of_size(tmp_path, replace(SIZE, held=SIZE.held + 3))  # nothing is trained on these


def test_held_out_desks_are_added_to_a_folder(tmp_path):
    calls, at = [], object.__new__(lab.Lab)
    at.state, at.say = tmp_path, lambda _: None
    at.product = SimpleNamespace(manage=lambda *words: calls.append(words) or "done")
    for held in (1, 1, 2):
        at.size = replace(SIZE, desks=1, held=held)
        at.load()
    assert ["--replace" in words for words in calls if words[0] == "loadpack"] == [False, True]
    assert [words[-1] for words in calls if words[0] == "build_split"] == ["held-1", "held-2"]


def test_folder_of_an_older_version_is_refused(tmp_path):
    (tmp_path / "loaded").touch()
    with pytest.raises(SystemExit, match="an older version made it"):
        lab.of_size(tmp_path, SIZE)
    assert not (tmp_path / "size.json").exists()


@contextmanager
def holding(var, *words):
    """A process with the lock of a data folder, which does nothing else. It writes its ID once it reads a line."""
    command = [sys.executable, "-c", HOLDER, str(var), *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    left = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    try:
        assert left.stdout.readline() == "runs\n"
        yield left
    finally:
        left.kill()
        left.communicate()


def tell(left):
    left.stdin.write("\n")
    left.stdin.flush()
    assert left.stdout.readline() == "says\n"


def test_second_call_keeps_off_and_a_left_product_is_stopped(tmp_path):
    var = tmp_path / "product"
    with holding(var, "manage.py", "up") as left:
        tell(left)
        with lab.alone(tmp_path):
            assert left.poll() is not None
            with pytest.raises(SystemExit, match="Another call works"), lab.alone(tmp_path):
                raise AssertionError
        with lab.alone(tmp_path), servers.locked(data_paths(var)):
            pass


def test_product_that_has_not_said_its_number_is_waited_for(tmp_path):
    with holding(tmp_path / "product", "manage.py", "up") as left:
        later = threading.Timer(0.5, tell, [left])
        later.start()
        with lab.alone(tmp_path):
            assert left.poll() is not None
        later.join()


def test_other_process_with_the_lock_is_left_alone(tmp_path):
    with holding(tmp_path / "product") as left:
        tell(left)
        with pytest.raises(SystemExit, match="already runs"), lab.alone(tmp_path):
            raise AssertionError
        assert left.poll() is None


def test_process_that_has_just_ended_is_no_error():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert lab._stopped(ended.pid)


def test_learner_ends_with_the_process_it_is_given(tmp_path):
    """Also one that ended while the learner was importing."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    command = [sys.executable, "-m", "examples.train_real.learner", "base", "--out", str(tmp_path / "base")]
    assert subprocess.run([*command, "--parent", str(ended.pid)], cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "base").exists()


def test_round_has_its_number_whatever_rounds_there_are(monkeypatch):
    reported = []
    at = SimpleNamespace(size=SIZE, learner_run=lambda: "run", load=lambda: None, unpack=lambda: None)
    at.report = lambda _run, number, name, *_: reported.append((number, name))
    for name in ("sft", "alone", "grpo"):
        monkeypatch.setattr(rounds.Rounds, name, lambda _: {"dataset": ""})
    monkeypatch.setattr(rounds, "ROUNDS", ["sft", "alone", "grpo"])
    rounds.Rounds(at).go()
    assert reported == [(1, "sft"), (3, "alone"), (5, "grpo")]


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
    ("names", "is_refused"),
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
def test_rounds_come_in_their_order(names, is_refused):
    with pytest.raises(SystemExit, match="ROUNDS") if is_refused else nullcontext():
        lab.ordered(names.split(","))


def test_desks_of_the_walk_are_a_pack_and_two_plans(tmp_path):
    desks.main(tmp_path / "learned")
    pack = load_pack(tmp_path / "learned" / "pack")
    assert len(pack.scenarios) == desks.DESKS + 1
    shown, compare = (
        PlanDocument.model_validate(yaml.safe_load((tmp_path / "learned" / f"{name}.yaml").read_text()))
        for name in ("demonstrations", "compare")
    )
    assert len(shown.tasks) == desks.DESKS * desks.TASKS and len(compare.tasks) == desks.TASKS
    assert not set(shown.tasks) & set(compare.tasks), "what is tried was not learned from"
