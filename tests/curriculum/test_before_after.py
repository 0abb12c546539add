"""A run's beginning beside its end: which episodes count, and that an improvement over nothing is undefined."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from curriculum.show import before_after
from people.rates import wilson

pytestmark = pytest.mark.usefixtures("shop")


def test_ends_are_the_first_and_last_episodes_without_expert(train):
    assert before_after.of_run(train.run) is None
    for number in range(50):
        train.play(1, complete=number % 4 == 0 if number < 25 else number % 2 == 0)
    for _ in range(30):
        train.play(1, complete=True, expert="plain")
    found = before_after.of_run(train.run)
    assert (found.before.episodes, found.before.complete) == (20, 5)
    assert (found.after.episodes, found.after.complete) == (20, 10)
    assert found.before.ci95 == wilson(5, 20) and found.difference == 0.25 and found.improvement == 1.0


def test_short_run_is_halved_and_improvement_over_zero_is_null(train, tmp_path):
    for complete in (False, False, True, True, True):
        train.play(1, complete=complete)
    train.report(1, components={"overall": 0.5})
    call_command("curves", run=train.run.name, output=tmp_path, project=train.run.project.slug)
    said = json.loads((tmp_path / "summary.json").read_text())
    assert (said["before"]["episodes"], said["before"]["complete"]) == (2, 0)
    assert (said["after"]["complete"], said["difference"], said["improvement"]) == (2, 1.0, None)
    assert (tmp_path / "before_after.png").read_bytes().startswith(b"\x89PNG")
