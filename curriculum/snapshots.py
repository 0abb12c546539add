"""Writes: snapshots of a run's curriculum, and the draw of next tasks from one.

A snapshot is made at the first request after a training step, a decision or a new split, and never changes; the same
snapshot and seed give the same tasks. A frozen run keeps the snapshot that it was frozen with.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, Max

from awmclient.schema import CurriculumNext, NextTask, Ratio
from curriculum import next_tasks
from curriculum.errors import NoRun
from curriculum.models import Decision, LevelOpened, Snapshot, TrainingStep
from curriculum.rules.weights import draw
from episodes.models import Run, Split
from episodes.record import splits
from episodes.visible import visibility
from people.access import Actor, may_read, scoped, sees_outcomes, visible_or_404
from reviews.models import Ruling
from runs.models import Probe

RATES = ("solo", "solo_solved", "helped", "helped_solved")


def run_of(actor: Actor, pk: str = "") -> Run:
    """Return the named run, or the one that reported a training step last. Raises `NotFound` or `NoRun`."""
    may_read(actor)
    rows = Run.objects.select_related("project")
    if pk:
        return visible_or_404(rows, actor, pk)
    steps = scoped(TrainingStep.objects.all(), actor.project, "run__project").order_by("-at", "-pk")
    last = steps.values_list("run", flat=True).first()
    if last is None:
        raise NoRun
    return rows.get(pk=last)


def current(run: Run) -> str:
    """Return the id of the snapshot that holds now, made if there is none yet."""
    frozen = Decision.objects.filter(run=run, kind=Decision.Kind.FREEZE, undone_at=None)
    if (kept := frozen.order_by("-made_at", "-pk").values_list("subject", flat=True).first()) is not None:
        return kept
    basis = _basis(run)
    known = Snapshot.objects.filter(run=run, basis=basis).values_list("pk", flat=True).first()
    return known or _take(run, basis)


def _basis(run: Run) -> str:
    """Name what a snapshot is made from: the last step, the decisions made and undone, the project's splits and
    rulings, and the probes."""
    step = TrainingStep.objects.filter(run=run).aggregate(last=Max("training_step"), count=Count("pk"))
    said = Decision.objects.filter(run=run).aggregate(made=Count("pk"), undone=Count("undone_at"))
    pinned = scoped(Split.objects.all(), run.project).count()
    ruled = scoped(Ruling.objects.all(), run.project, "case__project").count()
    made = f"{step['last'] or 0}.{step['count']} decisions {said['made']}.{said['undone']} splits {pinned}"
    probed = Probe.objects.aggregate(last=Max("pk"))["last"]
    return made + (f" rulings {ruled}" if ruled else "") + (f" probes {probed}" if probed else "")


def _take(run: Run, basis: str) -> str:
    """1. read everything, 2. note the levels that open, 3. store; of two at once the first one counts."""
    content, at = next_tasks.content(run)
    text = json.dumps(content, sort_keys=True)
    said = {"training_step": content["training_step"], "digest": hashlib.sha256(text.encode()).hexdigest()}
    try:
        with transaction.atomic():
            opened = [LevelOpened(run=run, level=name, training_step=said["training_step"]) for name in at.open]
            LevelOpened.objects.bulk_create(opened, ignore_conflicts=True)
            return Snapshot.objects.create(run=run, basis=basis, content=content, **said).pk
    except IntegrityError:
        return Snapshot.objects.values_list("pk", flat=True).get(run=run, basis=basis)


@functools.lru_cache(maxsize=16)
def content_of(pk: str) -> dict[str, Any]:
    """Return the content of a snapshot; it never changes, so each process reads it once."""
    return dict(Snapshot.objects.only("content").get(pk=pk).content)


@functools.lru_cache(maxsize=16)
def _served(pk: str) -> tuple[dict[str, dict[str, Any]], list[str], list[tuple[str, float]]]:
    """Return the tasks that a snapshot serves, those of them that are pinned, and the weights of the others."""
    served = {row["task"]: row for row in content_of(pk)["tasks"] if row["weight"] > 0}
    pinned = [task for task, row in served.items() if row["pinned"] is not None]
    return served, pinned, sorted((task, row["weight"]) for task, row in served.items() if row["pinned"] is None)


def next_of(actor: Actor, run_pk: str, count: int, seed: int, snapshot_pk: str = "") -> CurriculumNext:
    """Return what to play next: `count` tasks of the current snapshot, or of a named one, by weight.

    Pinned tasks come first, in the order in which they were pinned. A task that a split has held out since the snapshot
    was made is left out. Solve rates are for those who may see outcomes.
    Raises `BlindReview` while any is withheld from this reviewer.
    """
    visibility.refuse_while_blind(actor)
    run = run_of(actor, run_pk)
    pk = (
        visible_or_404(Snapshot.objects.only("pk").filter(run=run), actor, snapshot_pk, "run__project").pk
        if (snapshot_pk)
        else current(run)
    )
    content, tells = content_of(pk), sees_outcomes(actor)
    served, pinned, weights = _served(pk)
    held_out = splits.held_out(run.project)
    first = [task for task in pinned if task not in held_out][:count]
    drawn = [*first, *draw(weights, count - len(first), snapshot=pk, seed=seed, without=held_out)]
    limits = {one["name"]: one for one in content["levels"]}
    return CurriculumNext(
        snapshot=pk,
        ratio=Ratio(**content["ratio"]),
        recommended=content["recommended"] if tells else None,
        tasks=[_task(served[task], limits.get(served[task]["level"], {}), tells) for task in drawn],
        seed=seed,
        **{
            name: content[name]
            for name in ("run", "training_step", "strategy", "phase", "decided_by", "method", "format_error_rate")
        },
    )


def _task(row: dict[str, Any], level: dict[str, Any], tells: bool) -> NextTask:
    about = {name: row[name] for name in ("task", "scenario", "task_idx", "split", "level", "weight")}
    limits = {name: level.get(name) or None for name in ("max_steps", "tools", "hint")}
    known = {name: row[name] for name in RATES} if tells else {}
    return NextTask(**about, **limits, **known, pinned=row["pinned"] is not None)
