"""One dataset on disk: snapshot, parts, data files, manifest and card; after a crash any process goes on with it.

Owns the layout of a dataset's folder and the order in which files appear. A dataset is a pure function of snapshot,
recipe and packs; its id is their hash. Work is cut into parts of whole tasks; a part is there once its report is, and
whoever goes on starts behind the last one. Rows and their order do not depend on who wrote which part.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from awmclient.schema import SCHEMA_VERSION
from exports import card, curricula
from exports.building import Counts, Walk
from exports.formats import FORMATS, Format
from exports.formats.columns import provenance
from exports.ground import ground_for, pack_digests, tokenizer_of
from exports.reading import batches
from exports.recipe import Recipe
from exports.redaction import Redactor
from exports.selecting import Entry, entries_of, matching
from exports.writers import inspect_log
from people.models import Project

if TYPE_CHECKING:
    from exports.writers.parquet import Writer

PART_STEPS = 50_000
VERSION = "awmweb.dataset/2"
SNAPSHOT, MANIFEST, INDEX, LEFT_OUT, RECIPE, CARD = (
    *("snapshot.jsonl", "manifest.json", "rows.jsonl", "left_out.jsonl", "recipe.yaml", "README.md"),
)
Progress = Callable[[int, int], bool]
"""Called after each batch with (episodes done, rows so far); false stops the build."""


class Stopped(Exception):
    """The build was told to stop; what is done stays and can be gone on with."""


@dataclass(frozen=True)
class Plan:
    """A snapshot with what it is to become."""

    recipe: Recipe
    format: Format
    packs: dict[str, str]
    snapshot_digest: str
    episodes: int
    tokenizer_digest: str = ""

    @property
    def id(self) -> str:
        parts = [VERSION, self.format.version, self.recipe.canonical, self.snapshot_digest, self.packs]
        parts += [self.tokenizer_digest] if self.tokenizer_digest else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def take_snapshot(project: Project, recipe: Recipe, folder: Path) -> Plan:
    """Write the snapshot of the episodes that the recipe selects, unless there is one, and return the plan."""
    file = folder / SNAPSHOT
    if not file.exists():
        with _whole(file) as out:
            for entry in _selected(project, recipe):
                out.write(entry.line().encode())
    digest, count, scenarios = hashlib.sha256(), 0, set()
    for entry in entries(folder):
        digest.update(entry.line().encode())
        scenarios.add(entry.task.rpartition("/")[0])
        count += 1
    tokenizer = tokenizer_of(recipe)
    tokens = tokenizer.digest if tokenizer is not None else ""
    return Plan(recipe, FORMATS[recipe.format], pack_digests(scenarios), digest.hexdigest(), count, tokens)


def _selected(project: Project, recipe: Recipe) -> Iterator[Entry]:
    if recipe.format == "curriculum":
        return curricula.entries(project, recipe)
    return entries_of(project, recipe, matching(project, recipe))


def entries(folder: Path) -> Iterator[Entry]:
    with (folder / SNAPSHOT).open(encoding="ascii") as lines:
        for line in lines:
            yield Entry.read(line)


def build(project: Project, plan: Plan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Make all files of the dataset in `folder` and return its manifest.

    1. go through the snapshot part by part, those that are done only to know their rows, 2. join the parts, 3. write
    manifest and card last: a folder with a manifest is whole.
    """
    if (folder / MANIFEST).exists():
        return read_manifest(folder)
    with _few_collections():
        _Build(project, plan, folder, progress).parts()
    reports = [json.loads(path.read_text()) for path in sorted((folder / "parts").glob("*.json"))]
    files = _join(plan, folder, len(reports))
    (folder / RECIPE).write_text(plan.recipe.as_yaml(), encoding="utf-8")
    manifest = _manifest(plan, reports, files)
    (folder / CARD).write_text(card.text(manifest, plan.format), encoding="utf-8")
    shutil.rmtree(folder / "parts", ignore_errors=True)
    with _whole(folder / MANIFEST) as out:
        out.write(json.dumps(manifest, indent=2).encode() + b"\n")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return manifest


class _Build:
    """The walk through the parts."""

    def __init__(self, project: Project, plan: Plan, folder: Path, progress: Progress) -> None:
        self.plan, self.folder, self.progress = plan, folder / "parts", progress
        self.redactor = Redactor(plan.recipe, salt=project.pk)
        self.reader = curricula.reader_for(project, plan.recipe, self.redactor)
        self.walk = Walk(plan.format, ground_for(project, plan.recipe))
        self.episodes = self.rows = 0

    def parts(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for number, part in enumerate(_parts(entries(self.folder.parent))):
            report = self.folder / f"{number:05}.json"
            if report.exists():
                self._take_up(number, json.loads(report.read_text()))
            else:
                self._write(number, part, report)

    def _take_up(self, number: int, report: dict[str, Any]) -> None:
        """Take up the rows of a part that another process wrote."""
        self.episodes += report["episodes"]
        self.rows += report["rows"]
        with (self.folder / f"{number:05}.index").open() as lines:
            self.walk.seen.update(int(json.loads(line)["sha256"][:16], 16) for line in lines)

    def _write(self, number: int, part: list[Entry], report: Path) -> None:
        counts = self.walk.counts = Counts()
        self.redactor.counts = Counter()
        data, index = self.folder / f"{number:05}.jsonl", self.folder / f"{number:05}.index"
        table = self._table(number)
        with data.open("wb") as lines, index.open("w", encoding="ascii") as keys:
            for row in self.walk.rows(self._records(part)):
                about = {"key": row.key, "episode": row.episode, "sha256": row.digest, "bytes": len(row.line)}
                about |= provenance(row.value)
                keys.write(json.dumps(about) + "\n")
                lines.write(row.line)
                if table is not None:
                    table.write(row.value)
        if table is not None:
            table.close()
        self.rows += counts.rows
        with _whole(self.folder / f"{number:05}.left_out") as out:
            for episode, reason in counts.excluded:
                out.write(json.dumps([episode, reason]).encode() + b"\n")
        with _whole(report) as out:
            out.write(json.dumps(_report(counts, self.redactor.counts)).encode())

    def _table(self, number: int) -> Writer | None:
        if not self.plan.recipe.parquet or self.plan.format.features is None:
            return None
        from exports.writers import parquet  # pyarrow and numpy: 40 MB in processes that mostly write no table

        return parquet.Writer(self.folder / f"{number:05}.parquet", self.plan.format.features)

    def _records(self, part: list[Entry]) -> Iterator[Any]:
        for batch in batches(part):
            yield from self.reader.read(batch)
            self.episodes += len(batch)
            if not self.progress(self.episodes, self.rows + self.walk.counts.rows):
                raise Stopped


def _parts(snapshot_entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield whole tasks, until a part has enough steps."""
    part: list[Entry] = []
    steps = 0
    for _, task in groupby(snapshot_entries, key=lambda entry: entry.task):
        together = list(task)
        part += together
        steps += sum(entry.last_seq for entry in together)
        if steps >= PART_STEPS:
            yield part
            part, steps = [], 0
    if part:
        yield part


def _report(counts: Counts, redacted: Counter[str]) -> dict[str, Any]:
    return {
        "episodes": counts.episodes,
        "used": counts.used,
        "rows": counts.rows,
        "left_out": counts.left_out,
        "rows_left_out": counts.rows_left_out,
        "redacted": redacted,
    }


def _join(plan: Plan, folder: Path, count: int) -> list[dict[str, Any]]:
    """Make the data file, the index of rows and the list of what was left out from all parts."""
    parts = [folder / "parts" / f"{number:05}" for number in range(count)]
    section = "evaluation" if "evaluation" in plan.recipe.include else "train"
    (folder / "data").mkdir(exist_ok=True)
    _concatenate((part.with_suffix(".left_out") for part in parts), folder / LEFT_OUT)
    is_lines = not plan.format.container and not (plan.recipe.parquet and plan.format.features is not None)
    _join_index(parts, folder / INDEX, is_lines=is_lines)
    if plan.format.container == "inspect":
        return [
            *_inspect_logs(plan, parts, folder, section),
            _about(folder / INDEX, folder),
            _about(folder / LEFT_OUT, folder),
        ]
    if plan.recipe.parquet and plan.format.features is not None:
        from exports.writers import parquet

        data = folder / "data" / f"{section}.parquet"
        tables = [part.with_suffix(".parquet") for part in parts]
        parquet.join(tables, data, plan.format.features)
    else:
        data = folder / "data" / (plan.format.file or f"{section}.jsonl")
        _concatenate((part.with_suffix(".jsonl") for part in parts), data)
    return [_about(data, folder), _about(folder / INDEX, folder), _about(folder / LEFT_OUT, folder)]


def _inspect_logs(plan: Plan, parts: list[Path], folder: Path, section: str) -> list[dict[str, Any]]:
    """Return the log as `.eval`, which viewers open quickest, and as `.json`."""
    lines = [part.with_suffix(".jsonl") for part in parts]
    head = inspect_log.header(plan.id, inspect_log.facts(lines))
    found = []
    for suffix, write in ((".eval", inspect_log.write_eval), (".json", inspect_log.write_json)):
        file = folder / "data" / f"{section}{suffix}"
        with _whole(file) as out:
            write(lines, head, out)
        found.append(_about(file, folder))
    return found


def _concatenate(parts: Iterable[Path], target: Path) -> None:
    with _whole(target) as out:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 20)


def _join_index(parts: Iterable[Path], target: Path, *, is_lines: bool) -> None:
    """Write one line per row: its key, episode and digest, and in a file of lines its position."""
    offset = 0
    with _whole(target) as out:
        for part in parts:
            with part.with_suffix(".index").open() as lines:
                for line in lines:
                    about = json.loads(line)
                    size = about.pop("bytes")
                    place = {"offset": offset, "bytes": size} if is_lines else {}
                    out.write(json.dumps({**about, **place}).encode() + b"\n")
                    offset += size


def _about(file: Path, folder: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return {"path": str(file.relative_to(folder)), "bytes": file.stat().st_size, "sha256": digest.hexdigest()}


def _manifest(plan: Plan, reports: list[dict[str, Any]], files: list[dict[str, Any]]) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(report[name] for report in reports)

    def merged(name: str) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for report in reports:
            counts.update(report[name])
        return dict(sorted(counts.items()))

    return {
        "manifest_version": VERSION,
        "dataset": plan.id,
        "format": plan.recipe.format,
        "schema_version": plan.format.version,
        "record_version": SCHEMA_VERSION,
        "recipe": plan.recipe.model_dump(mode="json"),
        "opted_in": list(plan.recipe.include),
        "for_training": plan.format.trains and "evaluation" not in plan.recipe.include,
        "snapshot_sha256": plan.snapshot_digest,
        "packs": plan.packs,
        "tokenizer_sha256": plan.tokenizer_digest or None,
        "license": plan.recipe.license,
        "episodes": total("episodes"),
        "episodes_used": total("used"),
        "rows": total("rows"),
        "left_out": merged("left_out"),
        "rows_left_out": merged("rows_left_out"),
        "redacted": merged("redacted"),
        "files": files,
        "features": plan.format.features,
    }


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage seldom: records have hundreds of thousands of values and no circles; looking through them takes a
    sixth of the time of an export.
    """
    before = gc.get_threshold()
    gc.set_threshold(20_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Provide a file that appears under its name once it is whole."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as out:
        yield out
    os.replace(draft, path)
