"""Reads: the snapshots of a run's curriculum that were taken, and the inputs of a new one.

A snapshot never changes: the same snapshot and seed give the same tasks. Leaves taking one, and drawing tasks from it,
to `taking.py`. Called by pages and exports, which show the newest snapshot and never take one: the first reader must
not decide how many outcomes count.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max

from curriculum import next_tasks
from curriculum.errors import NoRun
from curriculum.models import Decision, Snapshot, TrainingStep
from episodes.models import Run, Split
from people.access import Actor, may_read, scoped, visible_or_404
from reviews.models import Ruling
from runs.models import Probe


@dataclass(frozen=True)
class CurriculumView:
    """A curriculum as a page shows it: its content and its snapshot.

    `snapshot` is empty before the first one was taken. `is_behind` is true if a step, decision, split, ruling or probe
    is newer than the snapshot; the trainer's next request takes a new one.

    """

    snapshot: str
    content: dict[str, Any]
    is_behind: bool


def run_of(actor: Actor, pk: str = "") -> Run:
    """Return the run with this ID or name, or the one that trained last. Raises `NotFound` or `NoRun`."""
    may_read(actor)
    rows = Run.objects.select_related("project")
    if pk:
        named = [] if "\x00" in pk else list(rows.filter(project=actor.project, name=pk)[:2])
        # of several runs of a name only the ID says which
        return named[0] if len(named) == 1 else visible_or_404(rows, actor, pk)
    steps = scoped(TrainingStep.objects.all(), actor.project, "run__project").order_by("-at", "-pk")
    last = steps.values_list("run", flat=True).first()
    if last is None:
        raise NoRun
    return rows.get(pk=last)


def frozen(run: Run) -> str | None:
    """Return the snapshot that a person froze the run at, if any."""
    held = Decision.objects.filter(run=run, kind=Decision.Kind.FREEZE, undone_at=None)
    return held.order_by("-made_at", "-pk").values_list("subject", flat=True).first()


def newest(run: Run) -> str:
    """Return the ID of the snapshot that counts: the frozen one, or the last one; empty before the first."""
    taken = Snapshot.objects.filter(run=run).order_by("-made_at", "-pk").values_list("pk", flat=True)
    return frozen(run) or taken.first() or ""


def look(run: Run) -> CurriculumView:
    """Return the newest snapshot; before the first one, its content as of now, which is not stored."""
    pk = newest(run)
    if not pk:
        return CurriculumView("", next_tasks.content(run)[0], is_behind=False)
    is_behind = frozen(run) is None and not Snapshot.objects.filter(pk=pk, basis=basis(run)).exists()
    return CurriculumView(pk, content_of(pk), is_behind)


def basis(run: Run) -> str:
    """Return a text that identifies the inputs of a snapshot: the last step, the decisions made and undone, the
    project's splits and rulings, and the probes."""
    # Counts, not times: rows are only added, and two changes in one moment still count as two.
    step = TrainingStep.objects.filter(run=run).aggregate(last=Max("training_step"), count=Count("pk"))
    decisions = Decision.objects.filter(run=run).aggregate(made=Count("pk"), undone=Count("undone_at"))
    pinned = scoped(Split.objects.all(), run.project).count()
    ruled = scoped(Ruling.objects.all(), run.project, "case__project").count()
    made = f"{step['last'] or 0}.{step['count']} decisions {decisions['made']}.{decisions['undone']} splits {pinned}"
    probed = Probe.objects.aggregate(last=Max("pk"))["last"]
    # Left out while there are none: the basis of a snapshot from before these inputs stays the same.
    return made + (f" rulings {ruled}" if ruled else "") + (f" probes {probed}" if probed else "")


@functools.lru_cache(maxsize=16)
def content_of(pk: str) -> dict[str, Any]:
    """Return the content of a snapshot; it never changes, so each process reads it once."""
    return dict(Snapshot.objects.only("content").get(pk=pk).content)
