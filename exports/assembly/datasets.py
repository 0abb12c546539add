"""One dataset on disk: snapshot, parts, data files, manifest and card. Any process can continue after a crash.

Owns the layout of a dataset's folder and the order in which files appear. A dataset is a pure function of snapshot,
recipe and packs, and its ID is their hash.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from awmclient.schema import SCHEMA_VERSION
from exports.assembly import card
from exports.assembly.parts import (
    PART_STEPS,
    BuildProgress,
    Parts,
    Stopped,
    whole,
)
from exports.formats import FORMATS, ExportFormat
from exports.recipe import Pattern, Recipe
from exports.rules.redaction import Redactor
from exports.select import curricula
from exports.select.ground import pack_digests, repaired_verifiers, repairs_digest, scenario_versions, tokenizer_of
from exports.select.measured import PinnedFork
from exports.select.reading import IMAGES, bytes_of
from exports.select.selecting import SnapshotEntry, entries_of, matching
from exports.writers import inspect_log
from people.models import Project
from runs.statistics import worth_before
from runs.statistics.worth import share_wrong

__all__ = ["DatasetPlan", "BuildProgress", "Stopped", "build", "entries", "read_manifest", "take_snapshot"]
VERSION = "awmweb.dataset/3"
_CLASS = re.compile(r"\\[A-Za-z]")
SNAPSHOT, MANIFEST, INDEX, LEFT_OUT, RECIPE, CARD = (
    *("snapshot.jsonl", "manifest.json", "rows.jsonl", "left_out.jsonl", "recipe.yaml", "README.md"),
)


@dataclass(frozen=True)
class DatasetPlan:
    """A snapshot and the recipe that it is built with."""

    recipe: Recipe
    format: ExportFormat
    packs: dict[str, str]
    snapshot_digest: str
    episodes: int
    steps: int
    tokenizer_digest: str = ""
    repairs_digest: str = ""

    @property
    def id(self) -> str:
        parts = [VERSION, self.format.version, self.recipe.canonical, self.snapshot_digest, self.packs]
        # only where there is one, so that other datasets keep their IDs
        parts += [self.tokenizer_digest] if self.tokenizer_digest else []
        parts += [f"repairs {self.repairs_digest}"] if self.repairs_digest else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def take_snapshot(project: Project, recipe: Recipe, folder: Path) -> DatasetPlan:
    """Write the snapshot of the episodes that the recipe selects, unless there is one, and return the plan."""
    file = folder / SNAPSHOT
    # an earlier attempt took it: a second one could select other episodes
    if not file.exists():
        with whole(file) as out:
            for entry in _selected(project, recipe):
                out.write(entry.line().encode())
    # read back, so that the digest is that of the file
    digest, count, steps, scenarios, has_pictures = hashlib.sha256(), 0, 0, set(), False
    with file.open("rb") as lines:
        for line in lines:
            digest.update(line)
            entry = SnapshotEntry.read(line)
            # a text's digest has no slash, and so no scenario
            scenarios.add(entry.task.rpartition("/")[0])
            count += 1
            steps += entry.last_seq
            has_pictures |= entry.has_pictures
    tokenizer = tokenizer_of(recipe)
    tokens = tokenizer.digest if tokenizer is not None else ""
    digests = pack_digests(scenarios), digest.hexdigest(), count, steps, tokens, repairs_digest(project, scenarios)
    return DatasetPlan(recipe, format_of(recipe, has_pictures), *digests)


def format_of(recipe: Recipe, has_pictures: bool) -> ExportFormat:
    """Return the format of a recipe's rows. They have pictures only where an episode of the snapshot has some, so that
    others keep their bytes."""
    return FORMATS[recipe.format].with_pictures() if has_pictures else FORMATS[recipe.format]


def _selected(project: Project, recipe: Recipe) -> Iterator[SnapshotEntry]:
    if recipe.kind.is_curriculum:
        return curricula.entries(project, recipe)
    return entries_of(project, recipe, matching(project, recipe))


def entries(folder: Path) -> Iterator[SnapshotEntry]:
    with (folder / SNAPSHOT).open("rb") as lines:
        for line in lines:
            yield SnapshotEntry.read(line)


def build(
    project: Project, plan: DatasetPlan, folder: Path, progress: BuildProgress, processes: int = 1
) -> dict[str, Any]:
    """Write all files of the dataset into `folder` and return its manifest. Raises `Stopped`.

    1. write the missing parts, by up to `processes` processes, 2. join the parts, 3. write the pictures that rows
       name, 4. write manifest and card last. A folder with a manifest is complete.

    """
    if (folder / MANIFEST).exists():
        return read_manifest(folder)
    with _few_collections():
        parts = Parts(project, plan.recipe, plan.format, lambda: entries(folder), folder / "parts")
        # one part cannot be shared by processes
        reports = parts.write(progress, processes if plan.steps > PART_STEPS else 1)
    files = _join(plan, folder, len(reports))
    redactor = Redactor(plan.recipe, salt=project.pk)
    # a filter can name a run whose name holds a secret, and a pattern can be the secret itself
    hidden = {"filter": redactor.redact_value(plan.recipe.filter), "patterns": _without_secrets(plan.recipe, redactor)}
    shown = plan.recipe.model_copy(update=hidden)
    (folder / RECIPE).write_text(shown.as_yaml(), encoding="utf-8")
    versions = scenario_versions(project, (entry.episode for entry in entries(folder)))
    manifest = _manifest(plan, shown, reports, files, redactor.redact_value(versions))
    repaired = repaired_verifiers(pk for entry in entries(folder) for pk in entry.outcomes)
    # only where there are some, so that a dataset without keeps its manifest
    manifest |= {"repaired_verifiers": redactor.redact_value(repaired)} if repaired else {}
    manifest |= _forks_of(fork for entry in entries(folder) for fork in entry.forks)
    if plan.format.has_pictures:
        goes_on = functools.partial(progress, plan.episodes, manifest["rows"])
        manifest["pictures"] = _pictures(project, plan, folder, len(reports), goes_on)
    # before the manifest, whose presence says that all files are there
    (folder / CARD).write_text(card.text(manifest, plan.format), encoding="utf-8")
    shutil.rmtree(folder / "parts", ignore_errors=True)
    with whole(folder / MANIFEST) as out:
        out.write(json.dumps(manifest, indent=2).encode() + b"\n")
    return manifest


def _forks_of(forks: Iterable[PinnedFork]) -> dict[str, Any]:
    """Return how many forks were asked, how many show a difference, and which share of these is wrong by estimate."""
    shown = [fork for fork in forks if fork.wrong is not None]
    if not shown:
        return {}
    pairs = [(fork.wrong or 0.0, fork.least or 0.0, fork.most) for fork in shown if fork.most is not None]
    estimate = share_wrong(pairs) if pairs else _wrong_before(shown)
    wrong, low, high = (round(share, 4) for share in estimate)
    counts: dict[str, Any] = {"asked": shown[0].asked, "shown": len(shown)}
    counts |= {"asked_in": "project"} if pairs else {}
    return {"forks": counts | {"wrong": wrong, "wrong_low": low, "wrong_high": high}}


def _wrong_before(forks: Sequence[PinnedFork]) -> tuple[float, float, float]:
    """Return the share of wrong pairs of a snapshot of before, as its dataset had it, from both readings."""
    now = [(fork.wins, fork.tries, fork.kept_wins, fork.kept_tries) for fork in forks]
    first = [(*fork.first,) or counts for fork, counts in zip(forks, now, strict=True)]
    return worth_before.share_wrong([fork.wrong or 0.0 for fork in forks], [now, first])


def _without_secrets(recipe: Recipe, redactor: Redactor) -> tuple[Pattern, ...]:
    """Return the recipe's patterns, without the expression of one that finds a secret in itself."""

    def tells(regex: str) -> bool:
        # as it is, and as the text that it means
        forms = (regex, _CLASS.sub(" ", regex).replace("\\", ""))
        return any(redactor.redact(form) != form for form in forms)

    marked = {one.name: rf"\[redacted:{one.name}\]" for one in recipe.patterns if tells(one.regex)}
    return tuple(one.model_copy(update={"regex": marked.get(one.name, one.regex)}) for one in recipe.patterns)


def read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return manifest


def _join(plan: DatasetPlan, folder: Path, count: int) -> list[dict[str, Any]]:
    """Build the data file, the index of rows and the list of skipped episodes from all parts."""
    parts = [folder / "parts" / f"{number:05}" for number in range(count)]
    section = "evaluation" if "evaluation" in plan.recipe.include else "train"
    (folder / "data").mkdir(exist_ok=True)
    _concatenate((part.with_suffix(".left_out") for part in parts), folder / LEFT_OUT)
    # an offset means nothing in Parquet or in a container
    is_lines = not plan.format.container and not (plan.recipe.parquet and plan.format.features is not None)
    _join_index(parts, folder / INDEX, is_lines=is_lines)
    if plan.format.container == "inspect":
        return [
            *_inspect_logs(plan, parts, folder, section),
            _about(folder / INDEX, folder),
            _about(folder / LEFT_OUT, folder),
        ]
    if plan.recipe.parquet and plan.format.features is not None:
        # pyarrow takes 40 MB, so it is imported for Parquet alone
        from exports.writers import parquet

        data = folder / "data" / f"{section}.parquet"
        tables = [part.with_suffix(".parquet") for part in parts]
        parquet.join(tables, data, plan.format.features)
    else:
        data = folder / "data" / (plan.format.file or f"{section}.jsonl")
        _concatenate((part.with_suffix(".jsonl") for part in parts), data)
    return [_about(data, folder), _about(folder / INDEX, folder), _about(folder / LEFT_OUT, folder)]


def _pictures(
    project: Project, plan: DatasetPlan, folder: Path, count: int, goes_on: Callable[[int], bool]
) -> dict[str, int]:
    """Write each picture that rows name into a file beside them, unless an attempt before did; Parquet has them inside.
    Return how many there are. Raises `Stopped`."""
    seen, size = set[int](), 0
    for number in range(count):
        with (folder / "parts" / f"{number:05}.pictures").open("rb") as lines:
            for line in lines:
                stated, path = line.decode().split()
                # 64 bits of its digest, as of rows
                mark = int(PurePosixPath(path).stem[:16], 16)
                if mark in seen:
                    continue
                seen.add(mark)
                if not goes_on(len(seen)):
                    raise Stopped
                size += int(stated)
                is_there = plan.recipe.parquet or (folder / "data" / path).exists()
                data = None if is_there else bytes_of(project, path)
                if data is not None:
                    (folder / "data" / IMAGES).mkdir(exist_ok=True)
                    with whole(folder / "data" / path) as out:
                        out.write(data)
    return {"count": len(seen), "bytes": size}


def _inspect_logs(plan: DatasetPlan, parts: list[Path], folder: Path, section: str) -> list[dict[str, Any]]:
    """Write the log as `.eval`, which viewers open fastest, and as `.json`."""
    lines = [part.with_suffix(".jsonl") for part in parts]
    head = inspect_log.header(plan.id, inspect_log.facts(lines))
    files = []
    for suffix, write in ((".eval", inspect_log.write_eval), (".json", inspect_log.write_json)):
        file = folder / "data" / f"{section}{suffix}"
        with whole(file) as out:
            write(lines, head, out)
        files.append(_about(file, folder))
    return files


def _concatenate(parts: Iterable[Path], target: Path) -> None:
    with whole(target) as out:
        for part in parts:
            with part.open("rb") as source:
                # in blocks of 1 MiB, because a part can be larger than the memory
                shutil.copyfileobj(source, out, 1 << 20)


def _join_index(parts: Iterable[Path], target: Path, *, is_lines: bool) -> None:
    """Write one line per row: its key, episode and digest, and in a file of lines its position."""
    offset = 0
    with whole(target) as out:
        for part in parts:
            with part.with_suffix(".index").open("rb") as lines:
                for line in lines:
                    about = orjson.loads(line)
                    # sizes are of lines, and other files have none
                    size = about.pop("bytes")
                    place = {"offset": offset, "bytes": size} if is_lines else {}
                    out.write(orjson.dumps({**about, **place}) + b"\n")
                    offset += size


def _about(file: Path, folder: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return {"path": str(file.relative_to(folder)), "bytes": file.stat().st_size, "sha256": digest.hexdigest()}


def _manifest(
    plan: DatasetPlan,
    shown: Recipe,
    reports: list[dict[str, Any]],
    files: list[dict[str, Any]],
    versions: dict[str, list[str]],
) -> dict[str, Any]:
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
        "recipe": shown.as_fields(),
        "reasoning": plan.recipe.reasoning_choice,
        "opted_in": list(plan.recipe.include),
        "for_training": plan.recipe.kind.trains and "evaluation" not in plan.recipe.include,
        "snapshot_sha256": plan.snapshot_digest,
        "packs": plan.packs,
        "scenario_versions": versions,
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
    """Collect garbage rarely. Records have hundreds of thousands of values and no cycles, and scanning them takes a
    sixth of an export's time."""
    before = gc.get_threshold()
    # allocations before a collection, then collections before one of an older generation
    gc.set_threshold(20_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
