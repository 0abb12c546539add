"""Planted worlds with rows in a database: a fast form of each, what they leave, and the database that they run on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

import pytest
from django.apps import apps

from bench.planted import beside, rows
from bench.planted.case import ROOT
from episodes.models import Episode

STORED = [case for case in beside.cases() if case.stored]


@pytest.mark.django_db
@pytest.mark.parametrize("case", STORED, ids=lambda case: f"{case.subject}, {case.world}")
def test_worlds_with_rows_hold_their_limit(case):
    part, said = case.counts(repeats := round(6 / case.share))
    assert case.holds(part, said if case.covers else case.worlds(repeats)), f"{part} of {said}"


def stored_rows():
    return Counter({model: model._base_manager.count() for model in apps.get_models()})


@pytest.mark.django_db
def test_a_world_leaves_no_row_and_takes_none():
    first = {case.play for case in STORED}
    for play in first:
        play(random.Random(1))
    before = stored_rows()
    for play in first:
        play(random.Random(2))
    assert stored_rows() == before and before[Episode] > 100


@pytest.mark.django_db
def test_rows_are_made_once_in_each_database():
    made = rows.fork_rows(8)
    assert rows.fork_rows(8) is made and rows.fork_rows(4) is not made
    Episode.every.all().delete()
    made.project.delete()
    assert rows.fork_rows(8).project != made.project


def test_worlds_run_in_processes_with_a_database_of_their_own():
    words = ("-m", "bench.planted.beside", "--only", "List", "--stored", "--repeats", "15")
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "| covers | 3 | 3 | 100.0 | 0.0 |" in ended.stdout
