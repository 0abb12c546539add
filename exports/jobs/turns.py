"""Turns of builds and of pushes: two of a kind at a time, at most one of them of a project.

Owns that a claim looks at it. A job's row is its place in the queue, and a worker that finds no room leaves it there.
Whose turn it is says `people/record/jobs.py`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import connection, transaction

from exports.models import Export, Push
from people.errors import Busy
from people.models import Project
from people.record import jobs

WAITING_MAX = 20
"""Jobs of a project that are not done."""
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
        return jobs.claim(kind, job_id, **fields) if jobs.has_room(kind, job_id) else None


def begin(job: Export | Push) -> bool:
    """Store a job as claimed, for a command that does it itself; false if others have their turn now."""
    with transaction.atomic():
        hold()
        if not jobs.is_free(jobs.is_heard(type(job)), job.project_id):
            return False
        jobs.begin(job)
    return True


def hold() -> None:
    """Keep others from claiming a job until the end of the caller's transaction."""
    with connection.cursor() as cursor:
        # held to the end of the transaction, so the room is still there at the claim
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMS])
