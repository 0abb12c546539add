"""Writes: files of datasets and of builds that no export has any more.

A removal is noted in the transaction that takes the last row, or before a file is stored. It is done after the commit,
and again by the sweep if its process was killed or the store was unavailable.
"""

from __future__ import annotations

import functools
import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from exports.assembly import storing
from exports.errors import StoreUnavailable
from exports.jobs import turns
from exports.models import Export, ExportState, Removal

log = logging.getLogger(__name__)
SWEPT = 100
"""Removals that one sweep looks at, the oldest first."""
ENDED_BEFORE = timedelta(seconds=20)
"""A build that was stopped writes for a moment longer."""


def note(project_id: str, dataset: str) -> Removal:
    """Note that files of a dataset go unless an export has them; the caller decides when."""
    return Removal.objects.create(project_id=project_id, dataset=dataset)


def after_commit(project_id: str, dataset: str) -> None:
    """Remove the files of a dataset once the caller's transaction is committed, which needs them if it is not."""
    transaction.on_commit(functools.partial(attempt, note(project_id, dataset).pk))


def attempt(removal_id: int) -> None:
    """Do a removal. What the store refuses stays noted."""
    try:
        _do(removal_id)
    except (StoreUnavailable, OSError) as error:
        log.warning("files of a dataset stay until the next sweep: %s", error)


@transaction.atomic
def _do(removal_id: int) -> None:
    turns.hold()  # no export begins that would find the files half removed
    removal = Removal.objects.select_for_update(skip_locked=True).filter(pk=removal_id).first()
    if removal is None:
        return
    mine = Export.objects.filter(project=removal.project_id)
    # one that has just begun names its dataset before it looks for files, and waits here
    list(mine.filter(state=ExportState.BUILDING).order_by("pk").select_for_update())
    states = set(mine.filter(dataset=removal.dataset).values_list("state", flat=True))
    if ExportState.BUILDING in states:
        return  # its end decides
    if ExportState.DONE not in states:
        storing.delete(removal.project_id, removal.dataset)
    removal.delete()


def sweep() -> None:
    """Do what was noted and is not done, and remove folders of builds that have ended otherwise than by their end."""
    for removal_id in Removal.objects.order_by("pk").values_list("pk", flat=True)[:SWEPT]:
        attempt(removal_id)
    _sweep_builds()


def _sweep_builds() -> None:
    root = settings.VAR / "exports" / "work"
    # folders of commands and of pushes are theirs
    folders = {path.name for path in root.glob("*") if path.is_dir() and "-" not in path.name} - {storing.PUSHES}
    just_now = Q(state__in=Export.WORKING) | Q(ended_at__gt=timezone.now() - ENDED_BEFORE)
    kept = set(Export.objects.filter(just_now, pk__in=folders).values_list("pk", flat=True))
    for export_id in folders - kept:
        storing.forget_work(export_id)
