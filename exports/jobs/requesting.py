"""Writes: request, claim, progress, finish, cancel, delete an export.

Owns every change of an export's row. A worker claims a row by raising its attempt in one conditional update; what an
older attempt writes afterwards reaches no row. Leaves making the files to `datasets.py`.
"""

from __future__ import annotations

import functools
import logging
from datetime import timedelta
from typing import Any

from celery import current_app
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from exports.build import storing
from exports.models import WORKING, Export, ExportState
from exports.recipe import Recipe
from exports.select.ground import tokenizer_of
from exports.select.selecting import may_open, selected
from people.access import Actor, may_export, scoped, visible_or_404
from people.members import record

log = logging.getLogger(__name__)
SILENT_AFTER = timedelta(seconds=30)
"""A worker without a heartbeat for this long counts as lost, and another one continues with its parts."""
ATTEMPTS_MAX = 5
NOT_MEASURED: dict[str, Any] = {"measured_at": None, "measured_episodes": 0}


def request(actor: Actor, recipe: Recipe) -> Export:
    """Ask for an export: 1. check right, filters and tokenizer, 2. the row, 3. wake a worker once it is committed."""
    may_open(actor)
    selected(actor, recipe)
    tokenizer_of(recipe)
    with transaction.atomic():
        export = Export.objects.create(
            project=actor.project,
            recipe=recipe.model_dump(mode="json"),
            format=recipe.format,
            requested_by=actor.name,
        )
        record(actor, "export.requested", export.pk, recipe.format)
        transaction.on_commit(functools.partial(wake, export.pk))
    return export


def wake(export_id: str) -> None:
    """Call a worker. A call that is lost costs the time until the next sweep."""
    try:
        current_app.send_task("exports.tasks.build", [export_id], queue="default", retry=False)
    except BrokerError as error:
        log.warning("no worker could be called for export %s, the sweep will: %s", export_id, error)


def wake_forgotten() -> None:
    """Call a worker for exports that none works at."""
    forgotten = Export.objects.silent_since(timezone.now() - SILENT_AFTER).values_list("pk", flat=True)
    for export_id in forgotten[:20]:
        wake(export_id)


def claim(export_id: str) -> Export | None:
    """Claim an export that no worker builds; None if it is done, cancelled or claimed."""
    now = timezone.now()
    free = Export.objects.silent_since(now - SILENT_AFTER).filter(pk=export_id)
    taken = free.update(
        state=ExportState.BUILDING,
        attempt=F("attempt") + 1,
        heartbeat_at=now,
        started_at=now,
        problem="",
        **NOT_MEASURED,
    )
    if not taken:
        return None
    export = Export.objects.select_related("project").get(pk=export_id)
    if export.attempt > ATTEMPTS_MAX:
        fail(export, f"Stopped after {ATTEMPTS_MAX} attempts: the build process keeps failing.")
        return None
    return export


def _mine(export: Export) -> Any:
    return Export.objects.filter(pk=export.pk, attempt=export.attempt, state=ExportState.BUILDING)


def progress(export: Export, **fields: Any) -> bool:
    """Write how far it is; false if this attempt was overtaken or the export cancelled."""
    return bool(_mine(export).update(heartbeat_at=timezone.now(), **fields))


def finish(export: Export, manifest: dict[str, Any]) -> bool:
    done = {"episodes": manifest["episodes"], "episodes_done": manifest["episodes"], "rows": manifest["rows"]}
    ended = {"state": ExportState.DONE, "ended_at": timezone.now(), "dataset": manifest["dataset"]}
    return bool(_mine(export).update(manifest=manifest, **done, **ended))


def fail(export: Export, problem: str) -> None:
    _mine(export).update(state=ExportState.FAILED, problem=problem[:4000], ended_at=timezone.now())


def cancel(actor: Actor, export_id: str) -> Export:
    """Stop an export that is not done; what was built of it goes."""
    may_export(actor)
    export = visible_or_404(Export.objects.all(), actor, export_id)
    running = Export.objects.filter(pk=export.pk, state__in=WORKING)
    if running.update(state=ExportState.CANCELLED, ended_at=timezone.now()):
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
    storing.forget_work(export_id)
    if export.dataset and not Export.objects.filter(dataset=export.dataset, project=export.project_id).exists():
        storing.delete(export.project_id, export.dataset)


def exports_of(actor: Actor) -> Any:
    may_export(actor)
    return scoped(Export.objects.all(), actor.project).order_by("-created_at")
