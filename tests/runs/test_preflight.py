"""Before a launch: what would weaken a comparison is named, and rollouts that earn nothing are said to."""

from __future__ import annotations

import pytest

from awmclient.schema import Finish, Outcome
from episodes import recording, splits
from episodes.models import Episode
from people.access import system
from reviews import court
from runs import planning, preflight
from runs.comparison import is_settled
from runs.models import Plan, PlanState
from tests.browsing import as_person, html
from tests.reviews.conftest import ended
from tests.runs.planned import document, end, rows_of_run

pytestmark = pytest.mark.django_db

TASKS = ["helpdesk_1/0", "helpdesk_1/1", "library_1/0"]


def doubts(actor, **said):
    plan = document(tasks=TASKS, **said)
    return preflight.doubts(actor, plan, planning.tasks_of(actor, plan))


def test_healthy_plan_raises_no_doubt(ada):
    assert doubts(ada) == []


def test_arms_of_two_policies_and_experts_are_doubted(ada):
    mixed = [{"name": "a"}, {"name": "b", "expert": "plain", "policy": "script:demo"}]
    assert "policy and in expert" in doubts(ada, arms=mixed)[0]
    assert doubts(ada, arms=[{"name": "a"}, {"name": "b", "policy": "script:demo"}]) == []


def test_ruled_and_training_tasks_are_doubted(ada, max_):
    one = ended(ada, "one", task_idx=1)
    Episode.objects.filter(pk=one.pk).update(scenario="helpdesk_1")
    court.rule(ada, court.doubt(Episode.objects.get(pk=one.pk)).pk, "too_strict", "It wants a comma.")
    splits.pin(ada, "march", unit="task", seed=1, train=TASKS[:2], val=["library_1/1"])
    assert doubts(ada) == [
        "1 task of 3 cannot show a difference: ruled too strict.",
        "2 tasks of 3 are training tasks of the split march.",
    ]
    assert doubts(max_) == []
    form = {
        "name": "x",
        "arm": ["baseline", "expert"],
        "tasks": " ".join(TASKS),
        "policy": "script:oracle",
        "seeds": "1",
    }
    assert "training tasks of the split march" in html(as_person(ada).get("/runs/preview", form))


def test_trial_is_ten_rollouts_of_the_control_arm(ada):
    plan = document(tasks=TASKS, control="expert", seeds=3)
    trial = preflight.trial(plan, planning.tasks_of(ada, plan))
    assert [arm.expert for arm in trial.arms] == ["plain"] and sorted(trial.tasks) == TASKS
    assert trial.seeds == 4 and trial.policy == plan.policy


def test_finding_counts_rewards_and_names_the_rest(ada):
    plan = rows_of_run(system(ada.project), tasks=4, arms=[{"name": "only"}])
    first, second, third, _ = plan.tries.all()
    end(first.episode_id)
    end(second.episode_id, complete=False)
    recording.begin(third.episode_id, "w")
    assert not is_settled(plan)
    found = preflight.finding(plan)
    assert (found.rollouts, found.earned, found.others) == (4, 1, {"others": 1, "running": 1, "queued": 1})
    assert found.words == "1 of 4 rollouts earned a reward; others 1, running 1, queued 1."


def test_run_is_settled_once_every_outcome_is_in(ada):
    plan = rows_of_run(system(ada.project), tasks=2, arms=[{"name": "only"}])
    first, second = plan.tries.all()
    end(first.episode_id)
    recording.begin(second.episode_id, "w")
    recording.finish(system(ada.project), second.episode_id, Finish(stop_reason="done"))
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.FINISHED)
    plan.refresh_from_db()
    assert not is_settled(plan), "its verifier has not answered yet"
    outcome = Outcome(reward_type="others", reward=0.0)
    recording.record_outcome(system(ada.project), second.episode_id, outcome)
    assert is_settled(plan)
