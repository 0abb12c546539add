"""The JSON API of training steps and of the curriculum."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import P, QueryEx, Router

from awmclient import schema
from curriculum.record import taking, training
from curriculum.show import rounds
from people.http import REFUSALS, actor_of

router = Router(tags=["curriculum"])
TASKS_MAX = 1000
SEED_MAX = 2**63 - 1
"""As of an episode's seed."""


@router.post("/runs/{run_id}/steps", response={200: schema.TrainingStepView, **REFUSALS})
def report_step(request: HttpRequest, run_id: str, payload: schema.TrainingStepReport) -> schema.TrainingStepView:
    """Report a training step once its rollouts have finished. The same report again changes nothing."""
    return training.report(actor_of(request), run_id, payload)


@router.get("/runs/{run_id}/steps", response={200: schema.TrainingStepPage, **REFUSALS})
def list_steps(request: HttpRequest, run_id: str) -> schema.TrainingStepPage:
    """List the reported training steps of a run, the first one first."""
    return training.steps_of(actor_of(request), run_id)


@router.get("/curriculum/rounds", response={200: schema.LearnerRounds, **REFUSALS})
def list_rounds(
    request: HttpRequest,
    run: QueryEx[str, P(max_length=40, description="The run that trained last, if not named.")] = "",
) -> schema.LearnerRounds:
    """List the checkpoints of a learner, what each learned from, and how it did on held-out tasks. Not for agents."""
    return rounds.listed(actor_of(request), run)


# `exclude_none`: an agent's answer has no levels and rates at all, not even as null.
@router.get("/curriculum/next", response={200: schema.CurriculumNext, **REFUSALS}, exclude_none=True)
def next_tasks(
    request: HttpRequest,
    n: QueryEx[int, P(ge=1, le=TASKS_MAX)] = 1,
    run: QueryEx[str, P(max_length=40, description="The run that trained last, if not named.")] = "",
    seed: QueryEx[int, P(ge=0, le=SEED_MAX)] = 0,
    snapshot: QueryEx[str, P(max_length=40, description="An earlier snapshot of the run.")] = "",
) -> schema.CurriculumNext:
    """Return the next tasks to run, and how much help they get. The same snapshot and seed give the same tasks."""
    return taking.next_of(actor_of(request), run, n, seed, snapshot)
