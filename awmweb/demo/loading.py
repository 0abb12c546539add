"""Writes: load the recorded demo into a new project, whole or not at all.

Called by the command `load_demo`, in a process of its own: the worker keeps none of what this imports.
"""

from __future__ import annotations

from django.db import transaction

from awmweb.demo import rows
from awmweb.demo.due import LOADED, due
from curriculum.record import taking
from episodes.models import Run
from exports.jobs import requesting
from exports.recipe import Recipe
from people.access import system
from people.models import Project
from people.record.audit import record
from reviews.models import Review
from reviews.record import withholding


@transaction.atomic
def load(project_id: str) -> bool:
    """Load the demo; return false if it is not due: 1. lock, 2. insert the rows, 3. what follows from them: the
    curriculum's snapshot, outcomes to withhold, and an export for a worker to build."""
    project = Project.objects.select_for_update(no_key=True).get(pk=project_id)
    if project_id not in due():
        return False
    actor = system(project)
    stored = rows.insert(project)
    runs = {run.key: run for run in Run.objects.filter(project=project, key__in=rows.KEYS)}
    taking.current(runs[rows.TRAINING])
    withholding.from_everyone(Review.objects.filter(queue__name=rows.QUEUE, queue__project=project, verdicts=None))
    requesting.request(actor, Recipe(format="sft", filter={"run": (runs[rows.ARMS].pk,)}))
    record(actor, LOADED, project.slug, f"{stored['episodes.Episode']} episodes")
    return True
