"""Counts of planted worlds, kept over a stop."""

import random
import subprocess
import sys

import pytest

from bench.planted import case
from bench.planted.case import Kept, PlantedCase


def test_counts_are_kept_over_a_stop(tmp_path):
    plays = []
    kept = Kept("x", tmp_path)
    assert kept.counted(("a", 1), lambda: plays.append("a") or [1, 2]) == [1, 2]
    with kept.path.open("a") as file:
        file.write('["[\\"b')  # the stop
    again = Kept("x", tmp_path)
    assert ("b", 1) not in again and again.counted(("a", 1), lambda: plays.append("a")) == [1, 2] and plays == ["a"]
    again.keep(("b", 1), [3, 4])
    last = Kept("x", tmp_path)
    assert last["a", 1] == [1, 2] and last["b", 1] == [3, 4]
    last.forget()
    assert ("a", 1) not in Kept("x", tmp_path)


def test_counts_of_other_code_are_not_read(tmp_path, monkeypatch):
    Kept("x", tmp_path).keep(("a", 1), [1, 2])
    monkeypatch.setattr(case, "READ", ("bench/planted",))
    assert ("a", 1) not in Kept("x", tmp_path)


def test_counts_depend_on_every_place_of_code(monkeypatch):
    places, digests = case.READ, set()
    for part in [(), *((place,) for place in places)]:
        monkeypatch.setattr(case, "READ", part)
        digests.add(case._digest())
    assert "awmenv/blockers.py" in places and len(digests) == len(places) + 1


def test_processes_of_a_pool_end_with_the_one_that_is_killed():
    """They hold its output, so that ends when all of them have."""
    code = "from bench.planted.case import pool; import os; pool(2).submit(os.getpid).result(); print('up', flush=True)"
    code += "; os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code], cwd=case.ROOT, capture_output=True, text=True)
    assert killed.stdout == "up\n" and killed.returncode == -9


@pytest.mark.parametrize(("rate", "covers", "holds"), [(0.02, False, True), (0.2, False, False), (0.8, True, False)])
def test_case_holds_its_limit_or_not(rate, covers, holds):
    dice = random.Random(1)
    planted = PlantedCase("x", "y", lambda _: dice.random() < rate, covers)
    assert planted.holds(*planted.counted(1000)) is holds
