"""Writes: receive a file, claim it, read it, store its episodes.

A file comes in whole or not at all: it is read to its end, what was read waits on disk, and only if no row is refused
one transaction stores all of it. An episode's key is the digest of its row, so that a repeated row makes one
episode. Leaves what all jobs do alike to `people/record/jobs.py`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from episodes.record import admitting
from episodes.stored import arrivals
from imports import readers
from imports.confining import confined
from imports.errors import FileRefused
from imports.models import Import, Imported, ImportState
from imports.readers.found import FURTHER, lost_words
from imports.record.picturing import ImportedPictures
from imports.spooling import Spool, SpooledEpisode, spooling
from people.access import Actor, may_launch, may_see_imports, scoped, system
from people.errors import AppError, Invalid, TooLarge
from people.models import Project
from people.record import jobs
from people.record.audit import record
from people.text.in_words import bytes_in_words

UPLOAD_MAX = 24_000_000
"""The files of one upload by page or API; larger ones come in by command."""
TELL_EVERY_S = 1.0
LEFT_S = 60
"""After so long without a change a file is no upload that is just coming in."""
# A wrong format refuses every row: without this bound the import's own row would grow with the file.
REFUSALS_KEPT = 100
KINDS_MAX = 200
"""Kinds of losses of a file that are listed."""
Tell = Callable[[int, int], object]
"""Called with the number of bytes read and the size of the file."""


@dataclass
class Reading:
    """The result of reading a file to its end."""

    format: str = ""
    rows: int = 0
    steps: int = 0
    refused: int = 0
    refusals: list[list[str]] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    def refuse(self, place: str, why: str) -> None:
        self.refused += 1
        if len(self.refusals) < REFUSALS_KEPT:
            self.refusals.append([_shown(place), why[:1000]])

    def take(self, row: SpooledEpisode) -> None:
        self.steps += row.arrival.episode["last_seq"]
        for what, count in row.lost.items():
            self.lost[what if what in self.lost or len(self.lost) < KINDS_MAX else FURTHER] += count


def _shown(text: str) -> str:
    # PostgreSQL stores neither U+0000 nor half of a surrogate pair, and the columns have 255 characters.
    return re.sub(r"[\x00-\x1f\ud800-\udfff]", "?", text)[:255]


def request(actor: Actor, name: str, format_name: str, blocks: Iterable[bytes]) -> Import:
    """Receive a file: 1. check right and format, 2. store it, 3. insert the row, 4. wake a worker after the commit."""
    may_launch(actor)
    check_format(format_name)
    job = Import(project=actor.project, name=_shown(name) or "file", format=format_name, requested_by=actor.name)
    # Named by its ID: the name that the client gave is untrusted, and could be a path.
    path = path_of(job.pk)
    try:
        job.size = _keep(path, blocks)
        jobs.request(job, actor, "import.requested", job.pk, job.name)
    except BaseException:
        # Without a row that names it, nothing else would ever remove the file.
        path.unlink(missing_ok=True)
        raise
    return job


def check_format(format_name: str) -> None:
    if format_name and format_name not in readers.FORMATS:
        raise Invalid(f"Unknown format: {format_name[:40]}. Use one of {', '.join(readers.FORMATS)}.")


def folder() -> Path:
    """Return the folder of files that are being imported, and create it if it is missing."""
    here: Path = settings.VAR / "imports"
    here.mkdir(parents=True, exist_ok=True)
    return here


def path_of(import_id: str) -> Path:
    return folder() / import_id


def _keep(path: Path, blocks: Iterable[bytes]) -> int:
    size = 0
    with path.open("xb") as file:
        for block in blocks:
            size += len(block)
            if size > UPLOAD_MAX:
                raise TooLarge(
                    f"A file has at most {bytes_in_words(UPLOAD_MAX)} here. Import larger ones with manage.py import."
                )
            file.write(block)
    return size


def carry_out(import_id: str) -> bool:
    """Read an import that no worker reads; return false if there is nothing to do."""
    job = jobs.claim(Import, import_id)
    if job is None:
        return False
    path = path_of(job.pk)
    try:
        # A file whose reading kills its process would otherwise be tried again by every sweep.
        if job.is_worn_out:
            raise FileRefused(f"Stopped after {job.ATTEMPTS_MAX} attempts: the process that reads it keeps failing.")
        _read_file(job, system(job.project), path, _telling(job))
    except (AppError, readers.BadFile) as error:
        jobs.end(job, ImportState.REFUSED, str(error))
    except OSError as error:
        jobs.end(job, ImportState.FAILED, f"{type(error).__name__}: {error}")
    path.unlink(missing_ok=True)
    return True


def sweep_files() -> None:
    """Remove files whose import has ended, or was never stored: a process that was killed could not."""
    before = time.time() - LEFT_S
    old = [path for path in folder().iterdir() if path.is_file() and _changed(path) < before]
    waiting = set(
        Import.objects.filter(pk__in=[path.name for path in old], state__in=Import.WORKING).values_list("pk", flat=True)
    )
    for path in old:
        if path.name not in waiting:
            path.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def take(actor: Actor, path: Path, format_name: str = "", tell: Tell | None = None) -> Import:
    """Import a local file, for the command.

    Raises:
        FileRefused: the file or a row of it is refused; nothing of it was stored.
    """
    may_launch(actor)
    check_format(format_name)
    now = timezone.now()
    # Stored as already claimed: the file is not in the folder of uploads, so no worker could read it.
    job = Import.objects.create(
        project=actor.project,
        name=_shown(path.name),
        format=format_name,
        size=path.stat().st_size,
        state=ImportState.READING,
        attempt=1,
        heartbeat_at=now,
        requested_by=actor.name,
    )
    record(actor, "import.requested", job.pk, job.name)
    beat = _telling(job)
    try:
        _read_file(job, actor, path, lambda behind, size: (beat(behind, size), tell(behind, size) if tell else None))
    except (AppError, readers.BadFile) as error:
        jobs.end(job, ImportState.REFUSED, str(error))
        raise FileRefused(str(error)) from error
    job.refresh_from_db()
    if job.state == ImportState.REFUSED:
        rest = f" {job.refused - 1:,} more rows are refused." if job.refused > 1 else ""
        place, why = job.refusals[0]
        raise FileRefused(f"{place}: {why.rstrip('.')}.{rest} Nothing was imported.")
    return job


def _read_file(job: Import, actor: Actor, path: Path, tell: Tell) -> None:
    """Import one file: 1. read all of it, 2. refuse it if a row is refused, 3. store it in one transaction."""
    with spooling(folder()) as spool:
        with confined():
            reading = _read_through(job, actor, path, spool, tell)
        if not reading.rows:
            raise FileRefused("The file has no rows.")
        facts: dict[str, Any] = {
            "format": reading.format,
            "rows": reading.rows,
            "refused": reading.refused,
            "refusals": reading.refusals,
            "behind": job.size,
        }
        if reading.refused:
            jobs.end(job, ImportState.REFUSED, **facts)
            return
        # With `rows` set the import is storing (`is_storing`), which its page says from now on.
        jobs.progress(job, behind=job.size, rows=reading.rows)
        with transaction.atomic():
            # The lock holds until the commit: `jobs.claim` skips a locked row, so no second attempt starts meanwhile.
            if not jobs.claimed(job).select_for_update().exists():
                return  # another attempt has taken over
            # imports of one project take turns here, so that no two of them store the same episode
            # A plain FOR UPDATE would also block every insert that refers to the project by a foreign key.
            Project.objects.select_for_update(no_key=True).get(pk=job.project_id)
            stored, repeats = _store(job, actor, spool)
            ended: dict[str, Any] = {
                "episodes": stored,
                "known": repeats,
                "steps": reading.steps,
                "lost": dict(reading.lost),
            }
            # Committed with the episodes: an import that has stored them is never found still reading.
            jobs.end(job, ImportState.DONE, **facts, **ended)


def _read_through(job: Import, actor: Actor, path: Path, spool: Spool, tell: Tell) -> Reading:
    """Read a file to its end. After the first refused row the other rows are only checked."""
    reading, behind = Reading(), 0
    pictures = ImportedPictures(actor, spool.pictures, lambda: tell(behind, job.size))
    for file_row in readers.read(path, job.format, pictures):
        pictures.end_row()
        behind = file_row.behind
        reading.rows += 1
        reading.format = reading.format or file_row.format
        try:
            row = _waiting(file_row, job, spool.pictures)
        except AppError as refused:
            reading.refuse(file_row.place, str(refused))
        else:
            reading.take(row)
            if not reading.refused:
                spool.add(row)
        tell(file_row.behind, job.size)
    return reading


def _waiting(file_row: readers.FoundTrajectory, job: Import, came: Container[str]) -> SpooledEpisode:
    """Return a row ready to be stored. Raises `Invalid` if it is refused."""
    if file_row.trajectory is None or file_row.start is None:
        raise Invalid(file_row.refusal)
    place = _shown(file_row.place)
    lost = "; ".join(lost_words(file_row.lost))
    source_id = _shown(file_row.trajectory.episode)
    origin = f"{job.name}, {place}, format {file_row.format}{f', ID {source_id}' if source_id else ''}"
    about = f"{origin}{f'. Not imported: {lost}' if lost else ''}"
    arrival = arrivals.arrival_of(file_row.start, file_row.trajectory, about, came)
    return SpooledEpisode(place, dict(file_row.lost), arrival)


def _store(job: Import, actor: Actor, spool: Spool) -> tuple[int, int]:
    """Store new episodes; return the number of new ones and the number that the project already had."""
    stored = repeats = 0
    for batch in spool.batches():
        by_key: dict[str, SpooledEpisode] = {}
        # A file can have the same row twice, and one insert must not have the same key twice.
        for row in batch:
            by_key.setdefault(row.arrival.key, row)
        there = admitting.known_keys(actor, list(by_key))
        fresh = [row for key, row in by_key.items() if key not in there]
        admitting.admit(actor, [row.arrival for row in fresh], sent=spool.pictures)
        Imported.objects.bulk_create(
            Imported(of=job, episode_id=row.arrival.episode["id"], place=row.place, lost=row.lost) for row in fresh
        )
        stored, repeats = stored + len(fresh), repeats + len(batch) - len(fresh)
    return stored, repeats


def _telling(job: Import) -> Tell:
    """Write progress at most once a second."""
    last = time.monotonic()

    def tell(behind: int, _size: int) -> None:
        nonlocal last
        if time.monotonic() - last > TELL_EVERY_S:
            last = time.monotonic()
            jobs.progress(job, behind=behind)

    return tell


def imports_of(actor: Actor) -> Any:
    may_see_imports(actor)
    return scoped(Import.objects.all(), actor.project).order_by("-created_at")


def episodes_of(job: Import, most: int) -> Sequence[Imported]:
    return list(job.made.select_related("episode").order_by("pk")[:most])
