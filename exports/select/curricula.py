"""Reads: the tasks of a curriculum snapshot as entries and records, for the format `curriculum`.

A dataset of that format names the snapshot that `GET /curriculum/next` draws from, so both have the same tasks and
weights. The filter `run` names the run; the default is the run that reported a training step last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curriculum import snapshots
from curriculum.errors import NoRun
from episodes.find.selection import runs_named
from episodes.models import Run
from episodes.stored import packs
from episodes.stored.splits import task_key
from exports.errors import BadRecipe
from exports.formats.curriculum import TaskRecord
from exports.recipe import Recipe
from exports.record import Original, Record
from exports.rules.redaction import Redactor
from exports.select.reading import Reader
from exports.select.selecting import SnapshotEntry
from people.access import system
from people.models import Project


def run_of(project: Project, recipe: Recipe) -> Run:
    """Return the run of which a recipe wants the tasks. Raises `BadRecipe`."""
    if set(recipe.filter) - {"run"}:
        raise BadRecipe("format curriculum accepts no filter but run")
    named = recipe.filter.get("run", ())
    runs = runs_named(project, named) if named else [""]
    if len(runs) > 1:
        raise BadRecipe("format curriculum requires one run; name it by its id")
    try:
        return snapshots.run_of(system(project), runs[0])
    except NoRun as refused:
        raise BadRecipe("format curriculum requires a run: no run has trained. Name any with filter run") from refused


def entries(project: Project, recipe: Recipe) -> Iterator[SnapshotEntry]:
    """Yield one entry per task of the newest snapshot. Raises `BadRecipe` if the run has none."""
    pk = snapshots.newest(run_of(project, recipe))
    if not pk:
        raise BadRecipe("format curriculum requires a snapshot. The first export of this run takes one.")
    for task in sorted(row["task"] for row in snapshots.content_of(pk)["tasks"]):
        # `episode` names the snapshot, which has no steps
        yield SnapshotEntry(pk, task, 0, ())


def reader_for(project: Project, recipe: Recipe, redactor: Redactor) -> Reader | TaskReader:
    """Return the reader for the entries of this recipe."""
    if recipe.format == "curriculum":
        return TaskReader(project, redactor)
    return Reader(project, redactor, authors=recipe.authors)


class TaskReader:
    """A reader of tasks with the interface of `reading.Reader`, which reads episodes."""

    def __init__(self, project: Project, redactor: Redactor) -> None:
        self._project, self._redactor = project, redactor
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._about: Mapping[str, Any] | None = None

    def read(self, batch: Sequence[SnapshotEntry]) -> list[Record]:
        """Return a record of each task, in their order."""
        return [self._record(entry) for entry in batch]

    def _record(self, entry: SnapshotEntry) -> Record:
        content = snapshots.content_of(entry.episode)
        if not self._rows:
            self._rows = {row["task"]: row for row in content["tasks"]}
        row = self._rows[entry.task]
        text = _task_text(row)
        hidden = self._redactor.redact_value(dict(row))
        return TaskRecord(
            id=hidden["task"],
            project=self._project.slug,
            task=self._redactor.redact(text),
            task_key=task_key(row["scenario"], row["task_idx"]) if row["scenario"] else entry.task,
            state="finished",
            steps=[],
            scenario=hidden["scenario"] or "",
            task_idx=row["task_idx"],
            split=row["split"],
            row=hidden,
            content=self._content(content),
            original=Original(text, row["scenario"] or "", row["task_idx"]),
            snapshot=entry.episode,
        )

    def _content(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the snapshot says of all tasks, without secrets."""
        if self._about is None:
            self._about = self._redactor.redact_value({k: v for k, v in content.items() if k != "tasks"})
        return self._about


def _task_text(row: Mapping[str, Any]) -> str:
    """Return the text of a task from a loaded pack, which the rule against near-duplicates compares."""
    pack = packs.find_pack(row["scenario"]) if row["scenario"] else None
    tasks = pack.tasks(row["scenario"]) if pack is not None else []
    number = row["task_idx"]
    return tasks[number] if number is not None and number < len(tasks) else ""
