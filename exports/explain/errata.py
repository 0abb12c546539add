"""Reads: the rows of finished exports that a repaired verifier changes, and the errata of an export.

The rows of one task are built as the export's recipe makes them now, before and after the change. What differs is what
the change did to the dataset, without edits for other reasons since. A curriculum is a snapshot of what a run knew at a
moment, and tasks have no outcomes: neither is changed.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db.models import QuerySet

from episodes.models import Episode, Erratum
from episodes.stored import repairs
from exports.assembly import datasets
from exports.assembly.parts import whole
from exports.models import Export, ExportState
from exports.recipe import Recipe
from exports.select.selecting import entries_of, matching
from people.errors import AppError
from people.models import Project
from people.text.in_words import count

log = logging.getLogger(__name__)
SHOWN, FILE = 50, "ERRATA.md"


@dataclass(frozen=True)
class ExportErratum:
    """What a repaired verifier changed in the rows of an export: the keys of rows that it would lose, gain, or hold
    with other contents."""

    at: datetime
    task: str
    verifier: str
    author: str
    why: str
    removed: list[str]
    added: list[str]
    changed: list[str]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The first of these rows, each with whether it is there before and after."""
        kinds = ((self.removed, "a row", "none"), (self.added, "none", "a row"), (self.changed, "a row", "another row"))
        return [(key, before, after) for keys, before, after in kinds for key in keys][:SHOWN]

    @property
    def more(self) -> int:
        """The number of rows that are not among the first."""
        return max(0, len(self.removed) + len(self.added) + len(self.changed) - SHOWN)

    @property
    def sentence(self) -> str:
        parts = [(self.removed, "to remove"), (self.added, "to add"), (self.changed, "with another outcome")]
        return ", ".join(f"{count(len(keys), 'row')} {words}" for keys, words in parts if keys)


def rows_of_exports(project: Project, episodes: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the rows of the task of these episodes in each finished export, by key, as they would be built now."""
    tasks = set(Episode.every.filter(pk__in=list(episodes)).values_list("scenario", "task_idx"))
    by_export: dict[str, dict[str, Any]] = {}
    built: dict[str, dict[str, Any]] = {}
    for export in Export.objects.filter(project=project, state=ExportState.DONE).order_by("pk"):
        if export.started_at is None:
            continue
        try:
            by_export[export.pk] = _rows_of(project, export, tasks, built)
        except AppError as unreadable:
            # its filter names a run that was deleted, or its tokenizer is missing: nothing can say how it would read
            log.warning("export %s has no erratum: %s", export.pk, unreadable.message)
    return by_export


def _rows_of(
    project: Project, export: Export, tasks: Collection[tuple[str, int | None]], built: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the rows of these tasks that an export would have now; `built` has what another one has built."""
    recipe, by_key = Recipe.read(export.recipe), dict[str, Any]()
    if recipe.kind.is_curriculum or recipe.kind.needs == "tasks":
        return by_key
    for scenario, task_idx in tasks:
        rows = matching(project, recipe).filter(scenario=scenario, task_idx=task_idx)
        # what ended later is in no file of this export
        rows = rows.filter(ended_at__lte=export.started_at)
        if not (keys := sorted(rows.values_list("pk", flat=True))):
            continue
        about = json.dumps([recipe.canonical, keys, scenario, task_idx])
        if about not in built:
            built[about] = _built(project, recipe, rows)
        by_key |= built[about]
    return by_key


def _built(project: Project, recipe: Recipe, rows: QuerySet[Episode]) -> dict[str, Any]:
    """Return digest and outcome of each row that a recipe makes of these episodes now, with tasks ruled at fault: a
    court rules before it repairs, and the files have rows from before."""
    lines = recipe.model_copy(update={"parquet": False, "include": (*recipe.include, "ruled")})
    with tempfile.TemporaryDirectory(prefix="awmweb-errata-") as name:
        folder = Path(name)
        with whole(folder / datasets.SNAPSHOT) as out:
            for entry in entries_of(project, lines, rows):
                out.write(entry.line().encode())
        datasets.build(project, datasets.take_snapshot(project, lines, folder), folder, lambda *_counts: True)
        with (folder / datasets.INDEX).open("rb") as index:
            built = [json.loads(line) for line in index]
    return {row["key"]: [row["sha256"], row.get("outcome", "")] for row in built}


def with_errata(exports: Collection[str]) -> set[str]:
    """Return those of these exports that have an erratum."""
    return set(repairs.errata_of_exports(exports).values_list("export", flat=True))


def of_exports(exports: Collection[str]) -> dict[str, list[ExportErratum]]:
    """Return the errata of these exports, the newest first."""
    by_export: dict[str, list[ExportErratum]] = {pk: [] for pk in exports}
    for erratum in repairs.errata_of_exports(exports):
        by_export[erratum.export].append(_readable(erratum))
    return by_export


def _readable(erratum: Erratum) -> ExportErratum:
    by, before, after = erratum.rejudging, erratum.before, erratum.after
    return ExportErratum(
        erratum.at,
        f"{by.scenario}/{by.task_idx}",
        str(by.version or "the verifier of the pack"),
        by.created_by,
        str(by.version.reason) if by.version is not None else "",
        removed=sorted(before.keys() - after.keys()),
        added=sorted(after.keys() - before.keys()),
        changed=sorted(key for key in before.keys() & after.keys() if before[key] != after[key]),
    )


def text(errata: Collection[ExportErratum]) -> str:
    """Return the errata of a dataset as a file for its readers; "" if there are none. Reasons are the project's own."""
    lines = [line for one in errata for line in _lines(one)]
    head = ["# Errata", "", "Verifiers were repaired after this dataset was made. Its files are unchanged.", ""]
    return "\n".join([*head, *lines]) if lines else ""


def _lines(note: ExportErratum) -> list[str]:
    kinds = (("remove", note.removed), ("add", note.added), ("other outcome", note.changed))
    rows = [f"| `{key}` | {what} |" for what, keys in kinds for key in keys]
    about = f"Task `{note.task}`, {note.at.date().isoformat()}, by {note.verifier} of its verifier: {note.sentence}."
    return [about, "", "| row | change |", "|---|---|", *rows, ""]
