"""Withdraws a gate that the run itself says is worse: its statement while running, which may be read at any time.

The arm goes on with the plan's reminders, so that no episode is lost and the comparison stays one of the arms as they
were planned: a gate with this rule against the control. Once said, the statement stays. Called by a task.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from awmclient.asking.rules import FORMAT
from people.access import system
from people.record.audit import record
from runs.models import Arm, Plan, PlanState
from runs.show.comparison import evaluate_plan


def gated() -> list[str]:
    """Return the running runs with a gate that was not withdrawn."""
    # a gate is the only rule of an arm that is an object
    has_gate = {"document__arms__contains": [{"ask": {"format": FORMAT}}]}
    running = Plan.objects.filter(state=PlanState.RUNNING, **has_gate)
    return [plan.pk for plan in running.prefetch_related("arms") if _gates_of(plan)]


def _gates_of(plan: Plan) -> set[str]:
    """Return the arms of a run whose gate was not withdrawn."""
    named = {arm["name"] for arm in plan.document["arms"] if isinstance(arm.get("ask"), dict)}
    return named & {arm.name for arm in plan.arms.all() if arm.withdrawn_at is None}


def withdraw_if_worse(run_id: str) -> list[str]:
    """Withdraw each gate of a run that its running statement calls worse than the control, and return their arms."""
    plan = Plan.objects.select_related("run__project").get(pk=run_id)
    names = _gates_of(plan)
    contrasts, _ = evaluate_plan(plan)
    withdrawn = []
    for contrast in contrasts:
        if (
            contrast.arm in names
            and contrast.verdict == "worse"
            and _withdraw(plan, contrast.arm, contrast.running.sentence)
        ):
            withdrawn.append(contrast.arm)
    return withdrawn


@transaction.atomic
def _withdraw(plan: Plan, name: str, why: str) -> bool:
    rows = Arm.objects.filter(plan=plan, name=name, withdrawn_at__isnull=True)
    if not rows.update(withdrawn_at=timezone.now(), withdrawn=why):
        return False
    record(system(plan.run.project), "run.gate_withdrawn", plan.pk, f"{name}: {why}"[:2000])
    return True
