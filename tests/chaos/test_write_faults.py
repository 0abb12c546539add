"""Faults at every write of the built-in loop, fifty times: other plans, two faults an episode, drawn by number."""

from __future__ import annotations

import random

import pytest

from tests.runs.faulty import KINDS, PLACES, plan, walked

pytest.importorskip("time_machine")
ROUNDS = 50


@pytest.mark.chaos
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_every_write_with_faults_in_another_plan(desk, number):
    chance = random.Random(number)

    def fault(at):
        return at, chance.choice(PLACES), chance.choice(KINDS)

    def two(commits):
        """At each write, before and after, and one more at a later write."""
        first = [(at, place, chance.choice(KINDS)) for at in range(1, commits + 1) for place in PLACES]
        return [[one, fault(one[0] + chance.randint(1, commits))] for one in first]

    played, attempts = walked(desk, plan(number), two)
    print(f"round {number}: {played} episodes, {attempts} attempts, one record and final database", flush=True)
