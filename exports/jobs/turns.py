"""Turns of builds and of pushes: two of a kind at a time, at most one of them of a project.

Owns who is next. A job's row is its place in the queue, and a worker that finds no room leaves it there.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import QuerySet

from exports.models import Export, Push
from people.errors import Busy
from people.models import Project
from people.record import jobs

TOGETHER, WAITING_MAX, LOOKED_AT = 2, 20, 100
"""Jobs of a kind at the same time, so that the worker's other threads stay free; jobs of a project that are not done;
and waiting ones that are looked at for the next turn."""
CLAIMS = 0x65787074
"""The number of the database's lock under which jobs are claimed, one after the other."""
J = TypeVar("J", Export, Push)


def refuse_more(kind: type[Export] | type[Push], project: Project, noun: str) -> None:
    """Raise `Busy` if a project has too many jobs that are not done. The caller stores its job in this transaction."""
    # requests of one moment take turns, or each would count without the others
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    waiting = kind._default_manager.filter(state__in=kind.WORKING, project=project).count()
    if waiting >= WAITING_MAX:
        raise Busy(f"{waiting} {noun} of this project are not done yet: wait for one of them.")


def claim(kind: type[J], job_id: str, **fields: Any) -> J | None:
    """Claim a job; None if it is done, cancelled or claimed, or if others have their turn now."""
    with transaction.atomic():
        hold()
        return jobs.claim(kind, job_id, **fields) if has_room(kind, job_id) else None


def begin(job: Export | Push) -> bool:
    """Store a job as claimed, for a command that does it itself; false if others have their turn now."""
    with transaction.atomic():
        hold()
        if not _is_free(jobs.is_heard(type(job)), job.project_id):
            return False
        jobs.begin(job)
    return True


def hold() -> None:
    """Keep others from claiming a job until the end of the caller's transaction."""
    with connection.cursor() as cursor:
        # held to the end of the transaction, so the room is still there at the claim
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMS])


def has_room(kind: type[Export] | type[Push], job_id: str) -> bool:
    """Return whether it is a job's turn. A later call finds its row otherwise."""
    waits = kind._default_manager.filter(pk=job_id, state__in=kind.WORKING)
    project = waits.values_list("project_id", flat=True).first()
    return project is not None and _is_free(jobs.is_heard(kind).exclude(pk=job_id), project)


def _is_free(others: QuerySet[Any], project: str) -> bool:
    busy = list(others.values_list("project_id", flat=True)[:TOGETHER])
    return len(busy) < TOGETHER and project not in busy


def next_one(kind: type[Export] | type[Push]) -> str | None:
    """Return the oldest job that waits and whose turn it is."""
    queued = kind._default_manager.filter(state=kind.WORKING[0]).order_by("created_at").values_list("pk", flat=True)
    return next((pk for pk in queued[:LOOKED_AT] if has_room(kind, pk)), None)
