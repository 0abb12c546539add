"""Writes: request, claim, progress, finish, cancel, delete an export.

Owns every change of an export's row. Leaves what all jobs do alike to `people/record/jobs.py`, making the files to
`datasets.py`, whose turn it is to `turns.py`.
"""

from __future__ import annotations

import functools
from typing import Any

from django.db import transaction
from django.utils import timezone

from episodes.find.held import held_among
from exports.assembly import storing
from exports.assembly.lines import rows_by_episode
from exports.jobs import removing, turns
from exports.models import Export, ExportState, Removal
from exports.recipe import Recipe
from exports.select.ground import tokenizer_of
from exports.select.selecting import may_open, selected
from people.access import Actor, may_export, scoped, visible_or_404
from people.errors import OnHold
from people.record import holding, jobs
from people.record.audit import record

ASKED_MAX = 500
"""Episodes of a dataset that are looked up together."""
NOT_MEASURED: dict[str, Any] = {"measured_at": None, "measured_episodes": 0}


def request(actor: Actor, recipe: Recipe) -> Export:
    """Ask for an export: 1. check right, filters and tokenizer, 2. the row, 3. wake a worker once it is committed."""
    may_open(actor)
    # an unknown filter value is refused here, not by the worker
    selected(actor, recipe)
    tokenizer_of(recipe)
    # only what it says: a worker of the version before refuses a field that it does not know
    fields = recipe.model_dump(mode="json", exclude_defaults=True)
    export = Export(project=actor.project, recipe=fields, format=recipe.format, requested_by=actor.name)
    with transaction.atomic():
        turns.refuse_more(Export, actor.project, "exports")
        jobs.request(export, actor, "export.requested", export.pk, recipe.format)
    return export


def claim(export_id: str) -> Export | None:
    """Claim an export that no worker builds; None if it is done, cancelled or claimed, or if others are built now."""
    # each attempt measures its own speed
    export = turns.claim(Export, export_id, started_at=timezone.now(), problem="", **NOT_MEASURED)
    if export is not None and export.is_worn_out:
        fail(export, f"Stopped after {export.ATTEMPTS_MAX} attempts: the build process keeps failing.")
        return None
    return export


def finish(export: Export, manifest: dict[str, Any]) -> bool:
    done = {"episodes": manifest["episodes"], "episodes_done": manifest["episodes"], "rows": manifest["rows"]}
    with transaction.atomic():
        ended = jobs.end(export, ExportState.DONE, manifest=manifest, dataset=manifest["dataset"], **done)
        if ended:
            Removal.objects.filter(project=export.project_id, dataset=manifest["dataset"]).delete()
    return ended


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
        refuse_on_hold(export)
        record(actor, "export.deleted", export.pk, export.dataset or export.format)
        export.delete()
        # after the commit: a deletion that was rolled back needs its files
        transaction.on_commit(functools.partial(storing.forget_work, export_id))
        if export.dataset:
            removing.after_commit(export.project_id, export.dataset)


def refuse_on_hold(export: Export) -> None:
    """Raise `OnHold` if its project is held, or an episode of which it has rows; the caller erases in this
    transaction."""
    holding.refuse_on_hold(export.project)
    if not export.dataset or not holding.in_force(export.project).exists():
        return
    try:
        rows, _ = rows_by_episode(export.project_id, export.dataset)
    except FileNotFoundError:
        return  # its files were deleted before
    ids = list(rows)
    for start in range(0, len(ids), ASKED_MAX):
        for hold in held_among(export.project, ids[start : start + ASKED_MAX]).values():
            raise OnHold(f"The dataset has rows of episodes on hold. {holding.words_of(hold)}")


def exports_of(actor: Actor) -> Any:
    may_export(actor)
    return scoped(Export.objects.all(), actor.project).order_by("-created_at")
