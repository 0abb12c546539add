"""Writes: datasets that have rows of erased episodes. Their files go, and each is asked for again without them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from exports.assembly import storing
from exports.assembly.lines import rows_by_episode
from exports.jobs import removing, requesting, turns
from exports.models import Export, ExportState, Push
from exports.recipe import Recipe
from people.access import Actor, scoped
from people.errors import AppError
from people.models import Project
from people.record import jobs

NUMBERS_MAX = 1_000
"""Numbers of rows of a dataset that a tombstone lists."""
MayHave = Callable[[Export], bool]


@dataclass
class FallenDataset:
    """A dataset with rows of erased episodes, and the exports that share it."""

    exports: list[Export]
    rows: list[int] = field(default_factory=list)
    """Numbers of its rows, from 1."""
    of: int = 0

    @property
    def name(self) -> str:
        return self.exports[0].dataset


def affected(
    project: Project, episodes: Collection[str], may_have: MayHave = lambda _export: True
) -> tuple[list[FallenDataset], list[Export]]:
    """Return the complete datasets that have rows of these episodes, and the exports that a worker builds now: they
    can have read what is being erased.

    Until the end of the caller's transaction no export is claimed or ends, so none is missed. Call it last: builds of
    other projects wait, too. Raises `StoreUnavailable`.
    """
    turns.hold()
    # first those in work, whose ends wait for these locks: what ended before is among the complete ones
    rows = scoped(Export.objects.filter(state=ExportState.BUILDING), project).order_by("pk")
    building = list(rows.select_for_update())
    return with_rows_of(project, episodes, may_have), [export for export in building if may_have(export)]


def with_rows_of(
    project: Project, episodes: Collection[str], may_have: MayHave = lambda _export: True
) -> list[FallenDataset]:
    """Return the complete datasets that have rows of these episodes, of those that may have some. Raises
    `StoreUnavailable`."""
    shared: dict[str, list[Export]] = {}
    for export in scoped(Export.objects.filter(state=ExportState.DONE), project).exclude(dataset="").order_by("pk"):
        if not may_have(export):
            continue
        shared.setdefault(export.dataset, []).append(export)
    fallen = []
    for exports in shared.values():
        try:
            rows, of = rows_by_episode(project.pk, exports[0].dataset, episodes)
        except FileNotFoundError:
            continue  # its files were deleted before
        if rows:
            numbers = {number for of_episode in rows.values() for number in of_episode}
            fallen.append(FallenDataset(exports, sorted(numbers), of))
    return fallen


def drop(actor: Actor, fallen: Collection[FallenDataset], building: Collection[Export]) -> list[dict[str, Any]]:
    """Delete datasets and ask for each again, in the caller's transaction, and return what a tombstone says of them.

    Files go after the commit, because a deletion that is rolled back needs them.
    """
    records = []
    for dataset in fallen:
        pushes = Push.objects.filter(export__in=dataset.exports).exclude(address="").values_list("address", flat=True)
        numbers = dataset.rows[:NUMBERS_MAX]
        about = {
            "dataset": dataset.name,
            "format": dataset.exports[0].format,
            "rows": numbers,
            "fallen": len(dataset.rows),
        }
        about |= {
            "of": dataset.of,
            "exports": [export.pk for export in dataset.exports],
            "pushed_to": sorted(set(pushes)),
        }
        project_id, recipe = dataset.exports[0].project_id, dataset.exports[0].recipe
        Export.objects.filter(pk__in=[export.pk for export in dataset.exports]).delete()
        removing.after_commit(project_id, dataset.name)
        records.append({**about, **_again(actor, recipe)})
    for export in building:
        # its worker stops at its next write, and removes what it has
        jobs.cancel(export, ExportState.CANCELLED)
        transaction.on_commit(functools.partial(storing.forget_work, export.pk))
        records.append({"export": export.pk, "format": export.format, "stopped": True, **_again(actor, export.recipe)})
    return records


def _again(actor: Actor, recipe: dict[str, Any]) -> dict[str, str]:
    """Ask for the same recipe again; the answer names the new export, or says why there is none."""
    try:
        with transaction.atomic():
            return {"next": requesting.request(actor, Recipe.read(recipe)).pk}
    except AppError as refused:
        return {"not_built_again": refused.message}
