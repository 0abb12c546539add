"""A fault before or after any write of an episode costs another attempt and nothing else."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from runs.play import certifying
from tests.runs.faulty import KINDS, PLACES, Faults, plan, walked

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)


def test_a_fault_at_any_write_costs_no_step_and_no_call(desk):
    def every_write(commits):
        """Before and after each one; a killed worker and a database that is unavailable in turn."""
        both = [(at, number, place) for at in range(1, commits + 1) for number, place in enumerate(PLACES)]
        return [[(at, place, KINDS[(at + number) % 2])] for at, number, place in both]

    played, attempts = walked(desk, plan(), every_write)
    assert played > 30 and attempts > played


def test_certificate_compares_the_final_database(desk):
    episode, _ = desk.played(plan(), Faults())
    certify = async_to_sync(certifying.certify_episode)
    assert certify(episode).grade == "exact"
    episode.world = {**episode.world, "final": "0" * 32}
    differs = certify(episode)
    assert (differs.grade, differs.difference) == ("refused", "The final database differs.")
