"""The parts of a dataset: whole tasks each, written by the first process that claims them.

Owns which process writes which part, and that no row repeats one of an earlier part. A part is complete once its report
exists. After a crash, the next process writes the missing ones. A process knows only the rows of its own parts. When
several processes wrote parts, all parts are therefore checked in order at the end, and one that repeats an earlier row
is written again. Rows and their order do not depend on which process wrote them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

import orjson
from django.db import connections

from exports.assembly.building import BuildCounts, Walk
from exports.formats import ExportFormat
from exports.formats.columns import provenance
from exports.recipe import Recipe
from exports.rules.redaction import Redactor
from exports.select import curricula
from exports.select.ground import ground_for
from exports.select.reading import batches, bytes_of
from exports.select.selecting import SnapshotEntry
from people.models import Project

if TYPE_CHECKING:
    from django.db.backends.postgresql.base import DatabaseWrapper

    from exports.writers.parquet import Writer

# what a crash costs at most, and what a process claims at a time
PART_STEPS = 50_000
LOOK_S = 0.5


class BuildProgress(Protocol):
    """Called after each batch, and for each file beside the rows; false stops the build."""

    def __call__(self, episodes: int, rows: int, files: int = 0, /) -> bool: ...


# A forked child inherits the rules and packs that are loaded here. Forking is safe: a process that builds an export has
# no other threads.
_FORK = multiprocessing.get_context("fork")


class Stopped(Exception):
    """The build was stopped; finished parts stay, and a later build continues from them."""


class Parts:
    """The parts of one snapshot, written into `folder` as `00000.jsonl` and so on, with index, report and the skipped
    episodes. `entries` reads the snapshot from its beginning each time."""

    def __init__(
        self,
        project: Project,
        recipe: Recipe,
        format_: ExportFormat,
        entries: Callable[[], Iterator[SnapshotEntry]],
        folder: Path,
    ) -> None:
        self.recipe, self.format, self.entries, self.folder = recipe, format_, entries, folder
        self.project = project
        self.redactor = Redactor(recipe, salt=project.pk)
        self.reader = curricula.reader_for(project, recipe, self.redactor)
        self.walk = Walk(format_, ground_for(project, recipe))
        # in shared memory, because the other processes are forked from this one
        self._next = _FORK.Value("q", 0)
        # episodes and rows of all processes
        self._done = _FORK.Array("q", [0, 0])

    def write(self, progress: BuildProgress, processes: int) -> list[dict[str, Any]]:
        """Write all missing parts and return the reports of all parts. Raises `Stopped`."""
        self.folder.mkdir(exist_ok=True)
        self._recount()
        if processes > 1:
            self._together(progress, processes)
            self._recount()  # a killed process had counted rows of a part that it never finished
        self._in_order(progress)
        return self._reports()

    def _reports(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted(self.folder.glob("*.json"))]

    def _recount(self) -> None:
        reports = self._reports()
        self._done[:] = [sum(report[name] for report in reports) for name in ("episodes", "rows")]

    def _together(self, progress: BuildProgress, processes: int) -> None:
        """Write parts in several processes; each part is written by the first process that claims it."""
        database = cast("DatabaseWrapper", connections["default"])
        database.close()
        database.close_pool()  # a child must not share the parent's threads and sockets
        # one fewer, because this process writes parts as well
        others = [_FORK.Process(target=self._beside, args=(os.getpid(),)) for _ in range(processes - 1)]
        for other in others:
            other.start()
        try:
            self._open_ones(progress)
            for other in others:
                self._wait(other, progress)
        finally:
            # killed in the middle of a part: without its report, the part is written again
            for other in others:
                other.kill()
                other.join()

    def _beside(self, parent: int) -> None:
        with contextlib.suppress(Stopped):
            # a child whose parent was killed gets another parent
            self._open_ones(lambda *_counts: os.getppid() == parent)

    def _wait(self, other: BaseProcess, progress: BuildProgress) -> None:
        while other.is_alive():
            other.join(LOOK_S)
            self._tell(progress)

    def _open_ones(self, progress: BuildProgress) -> None:
        for number, part in enumerate(self._parts()):
            if not self._file(number, "json").exists() and self._is_mine(number):
                self._write(number, part, progress)

    def _parts(self) -> Iterator[list[SnapshotEntry]]:
        """Yield the snapshot in parts of whole tasks and enough steps."""
        part: list[SnapshotEntry] = []
        steps = 0
        for entry in self.entries():
            # a task stays in one part, because its episodes are compared
            if steps >= PART_STEPS and entry.task != part[-1].task:
                yield part
                part, steps = [], 0
            part.append(entry)
            steps += entry.last_seq
        if part:
            yield part

    def _is_mine(self, number: int) -> bool:
        with self._next.get_lock():
            # parts are claimed in ascending order, so one number is enough
            if self._next.value > number:
                return False
            self._next.value = number + 1
            return True

    def _in_order(self, progress: BuildProgress) -> None:
        """Write parts that are still missing, for example those of a killed process, and rewrite parts that repeat an
        earlier row."""
        # from the first part on: only here are all rows in order
        seen = self.walk.seen = set()
        for number, part in enumerate(self._parts()):
            file = self._file(number, "json")
            if file.exists():
                marks = self._marks(number)
                if seen.isdisjoint(marks):
                    seen |= marks
                    continue
                # the report first, so that a crash here leaves the part unfinished
                file.unlink()
                self._recount()
            self._write(number, part, progress)

    def _marks(self, number: int) -> set[int]:
        with self._file(number, "index").open("rb") as lines:
            return {int(orjson.loads(line)["sha256"][:16], 16) for line in lines}

    def _write(self, number: int, part: list[SnapshotEntry], progress: BuildProgress) -> None:
        counts = self.walk.counts = BuildCounts()
        self.redactor.counts, redacted = Counter(), Counter[str]()
        table = self._table(number)
        # plain files: a part counts only with its report, which is written last
        with (
            self._file(number, "jsonl").open("wb") as lines,
            self._file(number, "index").open("wb") as keys,
            self._file(number, "pictures").open("wb") as pictures,
        ):
            for row in self.walk.rows(self._records(part, progress)):
                about = {"key": row.key, "episode": row.episode, "sha256": row.digest, "bytes": len(row.line)}
                keys.write(orjson.dumps(about | provenance(row.value)) + b"\n")
                lines.write(row.line)
                pictures.writelines(b"%d %s\n" % (one.size, one.path.encode()) for one in row.pictures)
                redacted += self.walk.marks_of(row)
                if table is not None:
                    table.write(row.value)
        if table is not None:
            table.close()
        with whole(self._file(number, "left_out")) as out:
            for episode, reason in counts.excluded:
                out.write(json.dumps([episode, reason]).encode() + b"\n")
        with whole(self._file(number, "json")) as out:
            out.write(json.dumps(_report(counts, _known(redacted, self.redactor.counts))).encode())

    def _records(self, part: list[SnapshotEntry], progress: BuildProgress) -> Iterator[Any]:
        counted = 0
        for batch in batches(part):
            yield from self.reader.read(batch)
            rows = self.walk.counts.rows
            self._count(len(batch), rows - counted)
            counted = rows
            self._tell(progress)

    def _tell(self, progress: BuildProgress) -> None:
        if not progress(self._done[0], self._done[1]):
            raise Stopped

    def _count(self, episodes: int, rows: int) -> None:
        with self._done.get_lock():
            self._done[0] += episodes
            self._done[1] += rows

    def _table(self, number: int) -> Writer | None:
        if not self.recipe.parquet or self.format.features is None:
            return None
        from exports.writers import parquet  # pyarrow and numpy: 40 MB in processes that mostly write no table

        file, fetch = self._file(number, "parquet"), functools.partial(bytes_of, self.project)
        return parquet.Writer(file, self.format.features, fetch)

    def _file(self, number: int, suffix: str) -> Path:
        return self.folder / f"{number:05}.{suffix}"


def _known(marks: Counter[str], redacted: Counter[str]) -> dict[str, int]:
    """Return the counts of the marks that the redactor made: an agent can write the text of another one."""
    return {kind: count for kind, count in marks.items() if redacted[kind]}


def _report(counts: BuildCounts, redacted: dict[str, int]) -> dict[str, Any]:
    return {
        "episodes": counts.episodes,
        "used": counts.used,
        "rows": counts.rows,
        "left_out": counts.left_out,
        "rows_left_out": counts.rows_left_out,
        "redacted": redacted,
    }


@contextlib.contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Provide a file that appears under its name only when it is complete."""
    # the process is in the name, so that two attempts never share a draft
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as out:
        yield out
    # within one folder, where a rename is atomic
    os.replace(draft, path)
