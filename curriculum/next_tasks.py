"""Reads: the content of a snapshot: phase, ratio, levels and every task with its weight and why it is served or not.

Leaves storing to `taking.py` and the draw to `weights.py`. A held-out task is never served. A task that the court found
at fault, or that a probe passed, is served only if a person pins it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from curriculum.counting import Solo, as_counted, counted, of_other_versions, rates
from curriculum.models import Decision, LevelOpened, TrainingStep
from curriculum.rules import levels, ratio
from curriculum.rules.levels import UNKNOWN, VERSION, Level, LevelGate
from curriculum.rules.plan import CurriculumPlan
from curriculum.rules.ratio import Help, Measured, Override, Phase
from curriculum.rules.weights import METHODS, Rates
from episodes.models import Run, SplitTask
from episodes.stored import packs
from episodes.stored.splits import TRAIN, VAL
from people.access import scoped
from reviews.visible import rulings
from runs.models import Probe
from runs.taskset import probes

SERVED, LOCKED, SKIPPED, HELD_OUT, RULED = "served", "locked", "skipped", "held_out", "ruled"
UNFIT = "unfit"


@dataclass(frozen=True)
class LevelProgress:
    """The state of a run's levels: which are open, the gate of the current one, and the trigger."""

    open: tuple[str, ...]
    current: str
    gates: Mapping[str, LevelGate]
    recommended: bool


def measured_steps(run: Run) -> list[Measured]:
    rows = TrainingStep.objects.filter(run=run).order_by("training_step")
    return [Measured(*row) for row in rows.values_list("training_step", "rollouts", "format_errors", "rule")]


def decisions(run: Run, kind: str) -> list[Decision]:
    """Return the active decisions of a kind, oldest first."""
    return list(Decision.objects.filter(run=run, kind=kind, undone_at=None))


def help_of(run: Run) -> list[Help]:
    """Return the phase of every finished step of a run and of the next one; undone overrides count for the steps they
    covered."""
    rows = Decision.objects.filter(run=run, kind=Decision.Kind.OVERRIDE)
    held = [
        Override(
            Phase(decision.subject),
            decision.after,
            decision.until,
            decision.until_step,
            decision.undone_after,
            decision.made_by,
        )
        for decision in rows
    ]
    return ratio.history(measured_steps(run), held, size=CurriculumPlan.of(run.metadata).group_size)


def sides(run: Run) -> dict[str, str]:
    """Return the tasks that a run can use, with their side: those of packs, without partial scenarios, and those of the
    project's splits."""
    by_task: dict[str, str] = {}
    for pack in packs.packs():
        for scenario in (name for name, known in pack.scenarios.items() if not known.partial):
            by_task |= {f"{scenario}/{number}": TRAIN for number in range(len(pack.tasks(scenario)))}
    rows = scoped(SplitTask.objects.all(), run.project, "split__project").values_list("task", "side")
    for task, side in rows.iterator(chunk_size=5000):
        # A task that one split holds out stays held out, whichever row comes last.
        if by_task.get(task) != VAL:
            by_task[task] = side
    return by_task


def level_names(tasks: Mapping[str, str], task_rates: Mapping[str, Rates], plan: Sequence[Level]) -> dict[str, str]:
    none = Rates()
    return {
        task: levels.level_of(task_rates.get(task, none).solo_solved, task_rates.get(task, none).solo, plan)
        for task in tasks
    }


def standing(
    run: Run,
    plan: CurriculumPlan,
    placed: Mapping[str, str],
    task_rates: Mapping[str, Rates],
    seen: Sequence[Solo],
    step: int,
) -> LevelProgress:
    """Return the state of the levels, including those that open now. `placed` holds the tasks that can be served."""
    names = [one.name for one in plan.levels]
    before = set(LevelOpened.objects.filter(run=run).values_list("level", flat=True))
    counts = as_counted(seen)
    gates = {}
    for name in names:
        held = [task for task, level in placed.items() if level == name]
        learned = all(task_rates[task].solo_solved == task_rates[task].solo for task in held)
        of_level = [one for one in counts if placed.get(one.task) == name]
        gates[name] = levels.gate(of_level, len(held), learned=learned)
    still = tuple(levels.opened(names, gates, before, set(placed.values())))
    return LevelProgress(still, still[-1], gates, levels.is_recommended(step, counts))


def content(run: Run) -> tuple[dict[str, Any], LevelProgress]:
    """Return the content of a new snapshot of a run, and the state of its levels."""
    plan = CurriculumPlan.of(run.metadata)
    helps = help_of(run)
    # The last entry is the step to come, the one before it the last finished step.
    coming, step = helps[-1], helps[-2].step if len(helps) > 1 else 0
    tasks, seen = sides(run), counted(run)
    own = rates(seen)
    reference = _reference(run, plan)
    # A reference run decides the levels alone; the weights follow this run's own rates.
    task_rates = own if reference is None else rates(counted(reference))
    placed = level_names(tasks, task_rates, plan.as_levels())
    kept_out = _kept_out(run, tasks)
    # Only tasks that a level can serve count for its gate: with others it would never open.
    at = standing(run, plan, {task: placed[task] for task in tasks if task not in kept_out}, task_rates, seen, step)
    rows = _rows(run, plan, tasks, placed, own, at, kept_out, of_other_versions(seen))
    expert, solo = ratio.group(plan.strategy, coming.phase, plan.group_size)
    about = {
        "schema_version": VERSION,
        "run": run.pk,
        "training_step": step,
        "strategy": plan.strategy.value,
        "phase": coming.phase.value,
        "rule": ratio.CUSUM,
        "decided_by": "person" if coming.override else "rule",
        "format_error_rate": coming.looked_at.rate if coming.looked_at else None,
        "ratio": {"group_size": plan.group_size, "expert": expert, "solo": solo},
        "method": plan.method,
        "recommended": at.recommended,
        "levels": [_level(one, at) for one in plan.as_levels()],
        "tasks": rows,
        # left out without it: snapshots from before stay what they are
        **({"tools_per_task": plan.tools.per_task} if plan.tools else {}),
    }
    return about, at


def counted_runs(run: Run) -> list[str]:
    """Return the runs whose outcomes a curriculum shows: this one, and the one that its levels refer to."""
    reference = _reference(run, CurriculumPlan.of(run.metadata))
    return [run.pk, *([reference.pk] if reference is not None else [])]


def _reference(run: Run, plan: CurriculumPlan) -> Run | None:
    return scoped(Run.objects.all(), run.project).filter(pk=plan.reference).first() if plan.reference else None


def _level(level: Level, at: LevelProgress) -> dict[str, Any]:
    gate = at.gates[level.name]
    return {**level._asdict(), "tools": list(level.tools), "open": level.name in at.open, **asdict(gate)}


def _rows(
    run: Run,
    plan: CurriculumPlan,
    tasks: Mapping[str, str],
    placed: Mapping[str, str],
    task_rates: Mapping[str, Rates],
    at: LevelProgress,
    kept_out: Mapping[str, str],
    replaced: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Return every task, served ones first, by weight; a person's decision overrides the rules."""
    pinned = {one.subject: place for place, one in enumerate(decisions(run, Decision.Kind.PIN))}
    probed = {one.task: one for one in probes.newest()}
    weigh, none, rows = METHODS[plan.method], Rates(), []
    for task, side in tasks.items():
        level, rate = placed[task], task_rates.get(task, none)
        # A task of unknown level is served, since only more episodes can give it one.
        is_open = level == UNKNOWN or level in at.open or task in pinned
        state = kept_out.get(task) or (SERVED if is_open else LOCKED)
        scenario, _, number = task.rpartition("/")
        rows.append(
            {
                "task": task,
                "scenario": scenario if number.isdecimal() else None,
                "task_idx": int(number) if number.isdecimal() else None,
                "split": side,
                "level": level,
                "state": state,
                "probe": _probe(probed.get(task)),
                **({"other_versions": replaced[task]} if replaced.get(task) else {}),
                "pinned": pinned.get(task) if state == SERVED else None,
                "weight": round(weigh(rate), 6) if state == SERVED else 0.0,
                **asdict(rate),
            }
        )
    return sorted(rows, key=lambda row: (row["state"] != SERVED, row["pinned"] is None, -row["weight"], row["task"]))


def _kept_out(run: Run, tasks: Mapping[str, str]) -> dict[str, str]:
    """Return the tasks that no level can serve, with their state."""
    pinned = {one.subject for one in decisions(run, Decision.Kind.PIN)}
    skipped = {one.subject for one in decisions(run, Decision.Kind.SKIP)}
    ruled, unfit = rulings.at_fault(run.project), probes.unfit(run.project)
    states = {}
    for task, side in tasks.items():
        if side == VAL:
            states[task] = HELD_OUT
        # Before the pins: of two decisions on one task, the one that keeps it out holds.
        elif task in skipped:
            states[task] = SKIPPED
        elif task not in pinned and (task in ruled or task in unfit):
            states[task] = RULED if task in ruled else UNFIT
    return states


def _probe(probe: Probe | None) -> dict[str, Any] | None:
    """Return the part of a task's probe that a snapshot stores."""
    if probe is None:
        return None
    return {"state": probe.state, "attempts": sorted(probe.attempts), "verifier": probe.verifier}
