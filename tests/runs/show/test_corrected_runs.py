"""The line without the verifier's errors on page, API and report: only from a sample of all, drawn blind."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from awmclient.check import differences
from episodes.models import Episode, VerifierOutcome
from people.access import system
from reviews.models import Verdict
from reviews.record import assigning
from runs.models import Plan, PlanState
from runs.show import report
from runs.show.comparison import compare_run
from tests.browsing import as_person, html
from tests.runs.planned import ended_rows, rows_of_run

pytestmark = pytest.mark.django_db
TASKS = 24


@pytest.fixture
def plan(ada) -> Plan:
    """A run that has ended: people accept every second task, the verifier fails the arm on all."""
    plan = rows_of_run(system(ada.project), tasks=TASKS, seeds=2)
    rows = plan.tries.values_list("episode_id", "arm__name", "task_idx")
    ended_rows({pk: arm == "baseline" and idx % 2 == 0 for pk, arm, idx in rows})
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.FINISHED)
    return Plan.objects.get(pk=plan.pk)


def sampled(ada, rita, plan, episodes, size, judged=True):
    queue = assigning.create_queue(ada, "Sample")
    assigning.fill(ada, queue.pk, episodes, sample=size)
    for review in queue.reviews.select_related("episode") if judged else ():
        decision = "accept" if (review.episode.task_idx or 0) % 2 == 0 else "reject"
        about = {"author": rita.name, "author_key": rita.key, "author_kind": "human"}
        Verdict.objects.create(review=review, episode=review.episode, decision=decision, **about)
    # what is withheld from a reader until the verdicts are there is another test's subject
    assigning.close_queue(ada, queue.pk)
    return queue


def test_sample_of_all_takes_back_what_the_verifier_made(ada, rita, plan, tmp_path):
    assert compare_run(ada, plan.pk).contrasts[0].corrected is None
    sampled(ada, rita, plan, Episode.objects.filter(run=plan.run), 90)
    seen = compare_run(ada, plan.pk)
    (contrast,) = seen.contrasts
    assert contrast.verdict == "worse" and contrast.corrected.value == pytest.approx(0, abs=0.15)
    assert contrast.corrected.interval[0] < 0 < contrast.corrected.interval[1] and contrast.corrected.drawn == 90
    rates = [arm.corrected.value for arm in seen.arms]
    assert rates == pytest.approx([0.5, 0.5], abs=0.15)
    browser = as_person(ada)
    page = html(browser.get(f"/runs/{plan.pk}/"))
    assert "Corrected for the verifier" in page and "A negative control, two random halves" in page
    assert "no look is recorded" in page
    stored = json.loads(browser.get(f"/api/v1/runs/{plan.pk}/comparison").content)
    assert stored["contrasts"][0]["corrected"]["drawn"] == 90 and stored["arms"][1]["corrected"]["wrong"]["expert"] > 10
    assert {"corrected", "against_itself"} <= set(stored["exploratory"])
    report.write(seen, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert text.count("Corrected for the verifier's own errors") == 3 and "A negative control" in text
    assert "no look is recorded" in text
    written = json.loads((tmp_path / "report.json").read_text())
    assert differences(written) == [] and sum("accepted" in each for each in written["tries"]) == 90
    assert written["contrasts"][0]["corrected"]["drawn"] == 90


def test_sample_of_failures_or_beside_chosen_ones_says_nothing(ada, rita, plan):
    every = Episode.objects.filter(run=plan.run)
    failed = VerifierOutcome.objects.filter(reward_type="others").values("episode")
    sampled(ada, rita, plan, every.filter(pk__in=failed), 60)
    assert compare_run(ada, plan.pk).contrasts[0].corrected is None
    chosen = assigning.create_queue(ada, "Chosen")
    assigning.fill(ada, chosen.pk, every)
    assigning.close_queue(ada, chosen.pk)
    assert [arm.corrected for arm in compare_run(ada, plan.pk).arms] == [None, None]


def test_verdicts_with_the_outcome_in_sight_do_not_count(ada, rita, plan):
    queue = sampled(ada, rita, plan, Episode.objects.filter(run=plan.run), 90)
    Verdict.objects.filter(review__queue=queue).update(is_blind=False)
    assert compare_run(ada, plan.pk).contrasts[0].corrected is None


def test_command_prints_each_arm_against_itself(ada, plan, capsys):
    call_command("controls", plan.pk, project=ada.project.slug)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0].rpartition(" ")[2] for line in lines[:2]] == ["baseline", "expert"]
    assert all("No difference shown on these 24 tasks" in line for line in lines[:2])
