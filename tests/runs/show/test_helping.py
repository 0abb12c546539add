"""A run says whom it waits for, how its asks ended, and first of all that no expert ever answered."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.schema import AskOpen
from episodes.record import recording
from experts.models import Ask, Tier
from experts.record import advising, closing, opening, queue
from people.access import system
from runs.models import Plan
from runs.show import helping, overview, report
from runs.show.comparison import compare_run
from runs.statistics.compare import contrasts
from runs.statistics.deciding import statements
from runs.statistics.offers import effects
from tests.browsing import as_person, html
from tests.runs.planned import ended_rows, rows_of_run
from tests.runs.statistics.test_compare import AGAINST, many, tries


@pytest.fixture
def run(ada, monkeypatch):
    """A running run of two arms; each of four episodes of the arm with an expert has asked."""
    monkeypatch.setattr(overview, "ENDS", 1)
    plan = rows_of_run(system(ada.project), tasks=4)
    Plan.objects.update(changed_at=timezone.now() - timedelta(minutes=5))
    for one in plan.tries.filter(arm__name="expert"):
        assert recording.begin(one.episode_id, "w")
        opening.open_ask(system(ada.project), AskOpen(key="q", episode=one.episode_id, seq=1, question="Which?"))
    ended_rows(dict.fromkeys(plan.tries.filter(arm__name="baseline").values_list("episode", flat=True), True))
    return plan


def fall_back(asks):
    asks.update(deadline_at=timezone.now() - timedelta(seconds=1))
    for one in asks:
        closing.close_if_due(one.pk)


def answer(edo, ask):
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "The first.", "n", [])


def end_all(plan):
    ended_rows(dict.fromkeys(plan.tries.filter(arm__name="expert").values_list("episode", flat=True), True))


@pytest.mark.django_db
def test_run_says_how_many_wait_and_gives_no_estimate(ada, run):
    nearest = Ask.objects.first()
    Ask.objects.filter(pk=nearest.pk).update(deadline_at=timezone.now() + timedelta(seconds=49))
    for path in (f"/runs/{run.pk}/", "/runs/"):
        page = re.sub(r"\s+", " ", html(as_person(ada).get(path)))
        assert "4 agents wait for a person, due in" in page and f"/queue/?run={run.pk}" in page
        assert re.search(r'data-deadline="[^"]+">0:4\d<', page) and "about" not in page, path
    fall_back(Ask.objects.all())
    page = html(as_person(ada).get(f"/runs/{run.pk}/"))
    assert "wait for a person" not in page and re.search(r"about \d+:\d\d left", page)


@pytest.mark.django_db
def test_asks_of_models_are_not_waited_for_by_people(ada, run):
    Ask.objects.update(tier=Tier.LLM)
    assert helping.waiting_in([run]) == {}


@pytest.mark.django_db
def test_run_whose_expert_never_answered_says_so_first(ada, run, tmp_path):
    fall_back(Ask.objects.all())
    end_all(run)
    compared = compare_run(ada, run.pk)
    assert compared.sentence.startswith("No expert answered: all 4 asks of expert fell back. No difference shown")
    page = html(as_person(ada).get(f"/runs/{run.pk}/"))
    assert "<h1>No expert answered: all 4 asks of expert fell back. " in page
    assert "4 asks: 0 answered, 4 fell back." in page
    report.write(compared, tmp_path)
    assert "- expert, 4 asks: 0 answered, 4 fell back." in (tmp_path / "report.md").read_text()


@pytest.mark.django_db
def test_arm_says_who_answered_its_asks(ada, edo, run):
    first, second, third, _ = Ask.objects.order_by("pk")
    answer(edo, first)
    answer(edo, second)
    second.refresh_from_db()
    type(second.accepted).objects.filter(pk=second.accepted_id).update(behind="script")
    fall_back(Ask.objects.filter(pk=third.pk))
    assert [one.words for one in helping.of_arms(run, ["baseline", "expert"])] == [
        "4 asks: 1 answered by people, 1 answered by scripts, 1 fell back, 1 open."
    ]
    assert "No expert answered" not in compare_run(ada, run.pk).sentence


def test_finding_names_only_arms_that_nobody_helped():
    played = [replace(one, unanswered=2 * (one.arm == "expert")) for one in tries(many(both=1, neither=32))]
    [found] = contrasts(played, AGAINST)
    assert found.sentence.startswith(
        "No expert answered: all 66 asks of expert fell back. No difference shown on these"
    )
    some = [replace(one, answered=int(one.task.endswith("/7"))) for one in played]
    assert contrasts(some, AGAINST)[0].sentence.startswith("No difference shown on these 33 tasks")


def test_offers_of_help_that_never_came_say_so():
    drawn = [
        replace(one, chance=0.5, offered=one.position % 2 == 0, unanswered=int(one.position == 0))
        for one in tries(many(both=3))
        if one.arm == "expert"
    ]
    [effect] = effects(drawn, statements(["expert"], "expert", drawing=["expert"]))
    assert effect.sentence.startswith("No expert answered: the only ask of expert fell back. ")
