"""Writes: request, claim, progress, finish, cancel, delete an export.

Owns every change of an export's row. Leaves what all jobs do alike to `people/jobs.py`, making the files to
`datasets.py`.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from exports.build import storing
from exports.models import Export, ExportState
from exports.recipe import Recipe
from exports.select.ground import tokenizer_of
from exports.select.selecting import may_open, selected
from people import jobs
from people.access import Actor, may_export, scoped, visible_or_404
from people.audit import record
from people.errors import Busy
from people.models import Project

BUILT_TOGETHER, WAITING_MAX, LOOKED_AT = 2, 20, 100
"""Builds at the same time, at most one of them of a project, so that the worker's other threads stay free; exports of
a project that are not done; and waiting ones that are looked at for the next build."""
CLAIMS = 0x65787074
"""The number of the database's lock under which builds are claimed, one after the other."""
NOT_MEASURED: dict[str, Any] = {"measured_at": None, "measured_episodes": 0}


def request(actor: Actor, recipe: Recipe) -> Export:
    """Ask for an export: 1. check right, filters and tokenizer, 2. the row, 3. wake a worker once it is committed."""
    may_open(actor)
    # an unknown filter value is refused here, not by the worker
    selected(actor, recipe)
    tokenizer_of(recipe)
    export = Export(
        project=actor.project, recipe=recipe.model_dump(mode="json"), format=recipe.format, requested_by=actor.name
    )
    with transaction.atomic():
        # requests of one moment take turns, or each would count without the others
        Project.objects.select_for_update(no_key=True).get(pk=actor.project.pk)
        waiting = scoped(Export.objects.filter(state__in=Export.WORKING), actor.project).count()
        if waiting >= WAITING_MAX:
            raise Busy(f"{waiting} exports of this project are not done yet: cancel one, or wait.")
        jobs.request(export, actor, "export.requested", export.pk, recipe.format)
    return export


def claim(export_id: str) -> Export | None:
    """Claim an export that no worker builds; None if it is done, cancelled or claimed, or if others are built now."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # held to the end of the transaction, so the room is still there at the claim
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMS])
        if not has_room(export_id):
            return None
        # each attempt measures its own speed
        export = jobs.claim(Export, export_id, started_at=timezone.now(), problem="", **NOT_MEASURED)
    if export is not None and export.is_worn_out:
        fail(export, f"Stopped after {export.ATTEMPTS_MAX} attempts: the build process keeps failing.")
        return None
    return export


def has_room(export_id: str) -> bool:
    """Return whether an export can be built now. Its row is its place in the queue: a later call finds it there."""
    export = Export.objects.filter(pk=export_id, state__in=Export.WORKING).only("pk", "project_id").first()
    if export is None:
        return False
    others = jobs.is_heard(Export).exclude(pk=export_id).values_list("project_id", flat=True)
    building = list(others[:BUILT_TOGETHER])
    return len(building) < BUILT_TOGETHER and export.project_id not in building


def next_one() -> str | None:
    """Return the oldest export that waits and can be built now."""
    queued = Export.objects.filter(state=ExportState.QUEUED).order_by("created_at").values_list("pk", flat=True)
    return next((pk for pk in queued[:LOOKED_AT] if has_room(pk)), None)


def finish(export: Export, manifest: dict[str, Any]) -> bool:
    done = {"episodes": manifest["episodes"], "episodes_done": manifest["episodes"], "rows": manifest["rows"]}
    return jobs.end(export, ExportState.DONE, manifest=manifest, dataset=manifest["dataset"], **done)


def fail(export: Export, problem: str) -> None:
    jobs.end(export, ExportState.FAILED, problem)


def cancel(actor: Actor, export_id: str) -> Export:
    """Stop an export that is not done; what was built of it goes."""
    may_export(actor)
    export = visible_or_404(Export.objects.all(), actor, export_id)
    if jobs.cancel(export, ExportState.CANCELLED):
        record(actor, "export.cancelled", export.pk, export.format)
        export.refresh_from_db()
    return export


def delete(actor: Actor, export_id: str) -> None:
    """Remove an export; its files go unless another export of its project holds the same dataset."""
    may_export(actor)
    export = visible_or_404(Export.objects.all(), actor, export_id)
    with transaction.atomic():
        record(actor, "export.deleted", export.pk, export.dataset or export.format)
        export.delete()
    # after the commit: a deletion that was rolled back needs its files
    storing.forget_work(export_id)
    # equal recipes on equal episodes share one dataset
    if export.dataset and not Export.objects.filter(dataset=export.dataset, project=export.project_id).exists():
        storing.delete(export.project_id, export.dataset)


def exports_of(actor: Actor) -> Any:
    may_export(actor)
    return scoped(Export.objects.all(), actor.project).order_by("-created_at")
