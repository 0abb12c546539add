"""Writes: remove the recorded demo from a project, with everything that people made of it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from awmweb.demo import rows
from episodes.models import Episode, Run
from exports.jobs import requesting
from exports.models import Export
from people.access import Actor, may_manage_projects, scoped
from people.errors import AppError
from people.record import holding
from people.record.audit import record
from reviews.models import ReviewQueue

REMOVED = "removed the demo"


class DemoAtWork(AppError):
    """Episodes of the recorded demo are still running. Cancel its runs first."""

    code = "demo_at_work"
    status = 409


@dataclass(frozen=True)
class Demo:
    """What a project has of the recorded demo."""

    runs: list[Run]
    episodes: int
    queues: list[str]
    exports: list[str]


def demo_of(actor: Actor) -> Demo | None:
    """Return the recorded demo of a project, None if it has none."""
    runs = list(scoped(Run.objects.filter(key__in=rows.KEYS), actor.project).order_by("created_at"))
    if not runs:
        return None
    queues = scoped(ReviewQueue.objects.filter(name=rows.QUEUE), actor.project)
    run_ids = [run.pk for run in runs]
    exports = [
        export.pk
        for export in scoped(Export.objects.all(), actor.project)
        if set(export.recipe.get("filter", {}).get("run", [])) & set(run_ids)
    ]
    count = Episode.objects.filter(run__in=run_ids).count()
    return Demo(runs, count, list(queues.values_list("pk", flat=True)), exports)


def remove(actor: Actor) -> None:
    """Remove the demo. Idempotent. Raises `DemoAtWork` while someone runs its tasks again, and `OnHold` while the
    project or anything in it is held."""
    may_manage_projects(actor)
    with transaction.atomic():
        demo = demo_of(actor)
        if demo is None:
            return
        holding.refuse_any_hold(actor.project)
        # its branches go with it
        if Episode.every.live().filter(Q(run__in=demo.runs) | Q(fork__parent__run__in=demo.runs)).exists():
            raise DemoAtWork
        for export in demo.exports:
            requesting.delete(actor, export)
        rows.erase(ReviewQueue, demo.queues)
        rows.erase(Episode, Episode.objects.filter(run__in=demo.runs).values_list("pk", flat=True))
        rows.erase(Run, [run.pk for run in demo.runs])
        record(actor, REMOVED, actor.project.slug, f"{demo.episodes} episodes")
