"""A benchmark in one command: arms on the tasks of loaded packs, with the packs' own notes as the expert.

Owns the plan and the scripted expert, which knows the notes of a pack's authors (`expert_note`) and no verifier. Leaves
the run to `planning.py` and its results to `report.py`. Called by the command `benchmark`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from episodes.models import Run
from episodes.stored.packs import find_pack
from experts.models import Ask
from experts.record import advising, queue
from people.access import Actor
from people.errors import AppError
from runs.errors import BadPlan
from runs.plan.plans import PlanDocument, plan_of, recipe

ARMS = {"baseline": "off", "expert": "plain", "off": "off", "plain": "plain"}
"""Arms by name, each with its expert mode; the last two are named as their mode. Notes answer for no informed expert,
which reads the verifier."""


def plan_for(
    arms: Sequence[str] = (),
    *,
    named: str = "",
    seeds: int | None = None,
    policy: str | None = None,
    tasks: Sequence[str] | None = None,
    split: str = "",
    scenarios: Sequence[str] = (),
) -> PlanDocument:
    """Return the plan of a benchmark; the first arm is the control. Arguments override the recipe.

    `scenarios` are names with `*`. Raises `BadPlan`, also for an expert mode that notes cannot serve.

    """
    plan: dict[str, Any] = recipe(named).model_dump() if named else {"policy": "script:demo"}
    if arms or not named:
        arms = arms or ("baseline", "expert")
        plan |= {"arms": [{"name": arm, "expert": ARMS.get(arm, arm)} for arm in arms], "control": ""}
        plan["name"] = f"benchmark {' against '.join(reversed(arms))}"
    if tasks is not None or split:
        plan["tasks"] = list(tasks) if tasks is not None else {"split": split}
    if scenarios:
        plan["tasks"] = {"scenarios": list(scenarios)}
    plan |= {name: value for name, value in (("seeds", seeds), ("policy", policy)) if value is not None}
    made = plan_of(plan)
    if unknown := sorted({arm.expert for arm in made.arms} - set(ARMS.values())):
        raise BadPlan(f"The notes of packs cannot be an expert of mode {', '.join(unknown)}.")
    return made


def answer_from_notes(actor: Actor, run: Run) -> int:
    """Answer the run's open asks from their tasks' notes, and decline those without one; return how many it claimed."""
    waiting = Ask.objects.open().filter(episode__run=run).select_related("episode")
    taken = 0
    for ask in waiting.order_by("deadline_at")[:100]:
        note = note_of(ask.episode.scenario, ask.episode.task_idx)
        with contextlib.suppress(AppError):  # another answer was first, or the deadline has passed
            claim = queue.claim(actor, ask.pk)
            if note:
                advising.answer(actor, claim.assignment_id, claim.lease_token, note, f"note-{ask.pk}")
            else:
                queue.decline(actor, claim.assignment_id, claim.lease_token, "the pack has no note for this task")
            taken += 1
    return taken


def note_of(scenario: str, task_idx: int | None) -> str:
    pack = find_pack(scenario) if scenario and task_idx is not None else None
    return str(pack.about(scenario, task_idx).get("expert_note", "")) if pack and task_idx is not None else ""
