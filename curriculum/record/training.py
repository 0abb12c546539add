"""Writes: training steps as trainers report them.

A report closes a step: its format errors are counted from the record and move the ratio of the next one.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction

from awmclient.schema import Ratio, TrainingStepPage, TrainingStepReport, TrainingStepView
from curriculum import counting, next_tasks
from curriculum.errors import StepReported
from curriculum.models import TrainingStep
from curriculum.record import taking
from curriculum.rules import ratio
from curriculum.rules.plan import CurriculumPlan
from episodes import events
from episodes.models import Run
from episodes.record import recording
from people.access import Actor, may_read, may_record, visible_or_404


def report(actor: Actor, run_pk: str, step_report: TrainingStepReport) -> TrainingStepView:
    """Store a report: 1. check the right and the plan, 2. count the record, 3. insert, 4. notify the pages, 5. take a
    snapshot.

    The same report again changes nothing. Raises `StepReported`, which names the fields that differ, if another report
    exists for this step.

    """
    may_record(actor)
    run = visible_or_404(Run.objects.select_related("project"), actor, run_pk)
    # Read for its refusal: under a plan that cannot be read, no step is stored.
    CurriculumPlan.of(run.metadata)
    words = {
        "losses": step_report.losses or {},
        "components": step_report.components or {},
        "checkpoint": step_report.checkpoint or "",
        "dataset": step_report.dataset or "",
    }
    # A repeated report counts again here, but the counts of the first one stay stored.
    count = counting.format_errors(run, step_report.training_step)
    counts = {"rollouts": count.rollouts, "format_errors": count.errors, "not_counted": count.not_counted}
    try:
        with transaction.atomic():
            step = TrainingStep.objects.create(
                run=run,
                training_step=step_report.training_step,
                reported_by=actor.name,
                rule=ratio.CUSUM,
                **words,
                **counts,
            )
            frame = {"type": "curriculum", "run": run.pk, "training_step": step.training_step}
            events.publish(events.queue_topic(run.project_id), frame)
        taking.current(run)
    except IntegrityError:
        # Only the trainer's own values are compared: counts can differ by now, and are not the trainer's.
        step = TrainingStep.objects.get(run=run, training_step=step_report.training_step)
        if others := recording.differing(step, words):
            used = f"Training step {step_report.training_step} was already reported"
            raise StepReported(recording.other_values(used, others)) from None
    return view(step, run)


def view(step: TrainingStep, run: Run) -> TrainingStepView:
    """Return a step for the API, with the help of the step that follows the last one."""
    plan, coming = CurriculumPlan.of(run.metadata), next_tasks.help_of(run)[-1]
    expert, solo = ratio.group(plan.strategy, coming.phase, plan.group_size)
    shares = Ratio(group_size=plan.group_size, expert=expert, solo=solo)
    return TrainingStepView(**_item(step), next_phase=coming.phase.value, next_ratio=shares)


def steps_of(actor: Actor, run_pk: str) -> TrainingStepPage:
    """Return the reported steps of a run, first one first."""
    may_read(actor)
    run = visible_or_404(Run.objects.all(), actor, run_pk)
    rows = TrainingStep.objects.filter(run=run).order_by("training_step")
    return TrainingStepPage(items=[TrainingStepView(**_item(row)) for row in rows])


def _item(step: TrainingStep) -> dict[str, Any]:
    names = ("training_step", "losses", "components", "rollouts", "format_errors", "not_counted", "at")
    return {
        **{name: getattr(step, name) for name in names},
        "checkpoint": step.checkpoint or None,
        "dataset": step.dataset or None,
    }
