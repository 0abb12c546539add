"""Writes: take a snapshot of a run's curriculum, and draw next tasks from one.

A snapshot is taken when its inputs change: with a training step (`training.py`) and with a person's decision
(`steering.py`). Splits, rulings and probes belong to packages below this one; the trainer's next request includes their
changes. No page or preview takes a snapshot. An export takes the first one of a run that has none.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from django.db import IntegrityError, transaction

from awmclient.schema import CurriculumNext, NextTask, OfferedTools, Ratio
from curriculum import next_tasks, snapshots
from curriculum.errors import NoSnapshot
from curriculum.models import LevelOpened, Snapshot
from curriculum.rules.weights import draw
from episodes.models import Run
from episodes.stored import splits
from episodes.visible import visibility
from people.access import Actor, holds, may_record, sees_outcomes, visible_or_404
from runs.taskset import own_tools

RATES = ("level", "weight", "solo", "solo_solved", "helped", "helped_solved")
"""Fields that show how often a task was solved: not for agents."""


def current(run: Run) -> str:
    """Return the ID of the snapshot that counts now; take one if a step, decision, split, ruling or probe is new.

    A frozen run keeps the snapshot that it was frozen with.

    """
    if (kept := snapshots.frozen(run)) is not None:
        return kept
    basis = snapshots.basis(run)
    stored = Snapshot.objects.filter(run=run, basis=basis).values_list("pk", flat=True).first()
    return stored or _take(run, basis)


def _take(run: Run, basis: str) -> str:
    """Take a snapshot: 1. read everything, 2. record the levels that open, 3. store; the first of two concurrent
    requests counts."""
    content, at = next_tasks.content(run)
    text = json.dumps(content, sort_keys=True)
    fields = {"training_step": content["training_step"], "digest": hashlib.sha256(text.encode()).hexdigest()}
    try:
        # Both or neither: of two concurrent requests, only the stored snapshot opens levels.
        with transaction.atomic():
            opened = [LevelOpened(run=run, level=name, training_step=fields["training_step"]) for name in at.open]
            LevelOpened.objects.bulk_create(opened, ignore_conflicts=True)
            return Snapshot.objects.create(run=run, basis=basis, content=content, **fields).pk
    except IntegrityError:
        return Snapshot.objects.values_list("pk", flat=True).get(run=run, basis=basis)


@functools.lru_cache(maxsize=16)
def _served(pk: str) -> tuple[dict[str, dict[str, Any]], list[str], list[tuple[str, float]]]:
    """Return the tasks that a snapshot serves, the pinned ones among them, and the weights of the others."""
    # Weights of served tasks have a floor, so 0 means that a task is not served.
    served = {row["task"]: row for row in snapshots.content_of(pk)["tasks"] if row["weight"] > 0}
    pinned = [task for task, row in served.items() if row["pinned"] is not None]
    return served, pinned, sorted((task, row["weight"]) for task, row in served.items() if row["pinned"] is None)


def next_of(actor: Actor, run_pk: str, count: int, seed: int, snapshot_pk: str = "") -> CurriculumNext:
    """Return the next tasks: `count` tasks of the current snapshot, or of a named one, by weight.

    Pinned tasks come first, in the order in which they were pinned. A task that a split has held out since the snapshot
    was taken is left out. Levels, weights and solve rates are for readers who can see outcomes. Raises `BlindReview`
    while any is withheld from this reviewer.

    """
    # Which tasks come, and in what order, follows from solve rates.
    visibility.refuse_while_blind(actor)
    run = snapshots.run_of(actor, run_pk)
    pk = (
        visible_or_404(Snapshot.objects.only("pk").filter(run=run), actor, snapshot_pk, "run__project").pk
        if (snapshot_pk)
        else _for(actor, run)
    )
    content, tells = snapshots.content_of(pk), sees_outcomes(actor)
    served, pinned, weights = _served(pk)
    # Asked again at the draw: a snapshot never changes, and a split can hold out a task later.
    held_out = splits.held_out(run.project)
    first = [task for task in pinned if task not in held_out][:count]
    drawn = [*first, *draw(weights, count - len(first), snapshot=pk, seed=seed, without=held_out)]
    limits = {one["name"]: one for one in content["levels"]}
    most = content.get("tools_per_task")

    def offered(row: dict[str, Any]) -> OfferedTools | None:
        return _offered(row, most, f"{pk} {seed}") if most else None

    return CurriculumNext(
        snapshot=pk,
        ratio=Ratio(**content["ratio"]),
        recommended=content["recommended"] if tells else None,
        tasks=[
            _task(served[task], limits.get(served[task]["level"], {}), offered(served[task]), tells) for task in drawn
        ],
        seed=seed,
        **{
            name: content[name]
            for name in ("run", "training_step", "strategy", "phase", "decided_by", "method", "format_error_rate")
        },
    )


def _for(actor: Actor, run: Run) -> str:
    """Return the snapshot to draw from: a trainer's request takes a new one if needed, others read the newest."""
    pk = current(run) if holds(actor, may_record) else snapshots.newest(run)
    if not pk:
        raise NoSnapshot
    return pk


def _offered(row: dict[str, Any], most: int, draw: str) -> OfferedTools | None:
    """Return the tools that a task offers; None, which is all of them, where its own ones are unknown. They are sorted:
    the order in which a script calls them is part of its solution."""
    own = own_tools.needed_by(row["scenario"], row["task_idx"]) if row["scenario"] is not None else []
    return OfferedTools(per_task=most, own=sorted(own), draw=f"{draw} {row['task']}") if own else None


def _task(row: dict[str, Any], level: dict[str, Any], offered: OfferedTools | None, tells: bool) -> NextTask:
    about = {name: row[name] for name in ("task", "scenario", "task_idx", "split")}
    limits = {name: level.get(name) or None for name in ("max_steps", "tools", "hint")}
    task_rates = {name: row[name] for name in RATES} if tells else {}
    return NextTask(**about, **limits, **task_rates, offered=offered, pinned=row["pinned"] is not None)
