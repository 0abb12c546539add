"""What reward profiles pay is stored once a run has ended, component by component, and never changes."""

from __future__ import annotations

import csv
import io

import pytest

from episodes.models import VerifierOutcome
from runs import tasks
from runs.launch import feeding, paying, planning
from runs.models import Plan, PlanState, ShapedReward
from runs.rewards import PROFILES, Reward, RewardProfile
from runs.show import rewarding
from runs.show.comparison import compare_run
from runs.show.tables import in_csv
from tests.runs.planned import end, launched

pytestmark = pytest.mark.django_db


def ended_run(actor, **said):
    plan = launched(actor, tasks={"limit": 2}, **said)
    for one in plan.tries.all():
        end(one.episode_id, complete=one.position == 0)
    assert feeding.feed(plan.pk) == 0
    plan.refresh_from_db()
    return plan


def test_ended_run_is_paid_once_with_every_component(ada, monkeypatch):
    plan = ended_run(ada)
    assert plan.state == PlanState.FINISHED
    before = rewarding.rows(plan)
    assert paying.pay(plan.pk) == 4 and paying.pay(plan.pk) == 0
    assert ShapedReward.objects.count() == 8 and Plan.objects.get().paid_at > plan.ended_at
    for row in ShapedReward.objects.filter(profile="bundle.v1"):
        assert set(row.components) == {"primary", "process", "format", "efficiency"}
    monkeypatch.setitem(PROFILES, "pr428", RewardProfile(lambda played: Reward("pr428", 99.0), ()))
    assert rewarding.rows(plan) == before, "what was paid stays"
    later = RewardProfile(lambda played: Reward("later", 7.0, {"style": 7.0}), ("style", "format"))
    monkeypatch.setitem(PROFILES, "later", later)
    added = [row["total"] for row in rewarding.rows(plan) if row["profile"] == "later"]
    assert added == [7.0] * 4, "a profile that is added later pays by the record"
    assert [row for row in rewarding.rows(plan) if row["profile"] != "later"] == before, "and changes no other"
    table = list(csv.DictReader(io.StringIO(in_csv("rewards", compare_run(ada, plan.pk)))))
    assert [row["style"] for row in table if row["profile"] == "later"] == ["7.0"] * 4
    assert list(table[0])[7:] == ["primary", "process", "format", "efficiency", "outcome", "asks", "style"]
    monkeypatch.setitem(PROFILES, "bundle.v1", RewardProfile(lambda played: Reward("bundle.v1", 1.0), ()))
    stored_only = ["outcome", "asks", "style", "format", "primary", "process", "efficiency"]
    assert in_csv("rewards", compare_run(ada, plan.pk)).splitlines()[0].split(",")[7:] == stored_only


def test_run_is_paid_after_its_last_outcome(ada):
    plan = launched(ada, tasks={"limit": 1})
    assert paying.pay(plan.pk) == 0 and not ShapedReward.objects.exists()
    first, second = plan.tries.all()
    end(first.episode_id)
    end(second.episode_id)
    VerifierOutcome.objects.filter(episode=second.episode_id).delete()
    feeding.feed(plan.pk)
    assert Plan.objects.get().ended_at and paying.pay(plan.pk) == 0, "the verifier of one has not run yet"


def test_more_seeds_pay_again_where_the_reference_changed(ada):
    plan = ended_run(ada, seeds=2, arms=[{"name": "only"}])
    paying.pay(plan.pk)
    assert set(ShapedReward.objects.values_list("reference", flat=True)) == {None}, "2 complete ones are too few"
    planning.add_seeds(ada, plan.pk, 1)
    for one in plan.tries.filter(seed=2):
        end(one.episode_id, complete=True)
    feeding.feed(plan.pk)
    assert paying.pay(plan.pk) == 4, "2 new ones, and again the 2 of the task that has a reference now"
    of_first = ShapedReward.objects.filter(episode__planned__seed=0, episode__planned__position=0)
    assert {(row.profile, row.reference) for row in of_first} == {
        ("pr428", None), ("bundle.v1", None), ("pr428", 0.0), ("bundle.v1", 0.0),
    }  # fmt: skip
    assert len(rewarding.rows(plan)) == 12


def test_stated_price_of_an_ask_is_paid_in_its_arm_alone(ada):
    arms = [{"name": "free", "expert": "plain"}, {"name": "priced", "expert": "plain", "ask_price": 0.25}]
    plan = ended_run(ada, arms=arms)
    assert paying.pay(plan.pk) > 0 and paying.pay(plan.pk) == 0
    rows = [row for row in rewarding.rows(plan) if row["profile"] == "priced"]
    assert rows and {row["arm"] for row in rows} == {"priced"}
    assert all(row["total"] == row["outcome"] and row["asks"] == 0 for row in rows)


def test_large_runs_are_paid_a_part_at_a_time(ada, monkeypatch):
    monkeypatch.setattr(paying, "AT_A_TIME", 3)
    plan = ended_run(ada)
    assert [paying.pay(plan.pk) for _ in range(3)] == [3, 1, 0]
    plan.refresh_from_db()
    assert plan.paid_at is not None and ShapedReward.objects.count() == 8


def test_run_that_cannot_be_paid_holds_up_no_other(ada, monkeypatch):
    runs = [ended_run(ada, name=name).pk for name in ("odd", "plain")]
    called = []
    monkeypatch.setattr(tasks.pay, "apply_async", lambda args, **how: called.append((*args, how["expires"])))
    tasks.pay_ended()
    assert called == [(pk, 15) for pk in runs], "each by a task of its own"
    tasks.pay(runs[1])
    tasks.pay_ended()
    assert called[2:] == [(runs[0], 15)]
