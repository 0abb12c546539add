"""Backups from before upgrades: made once for an upgrade, however often it is started, and kept until it succeeds.

Owns the names of these files and which of them are kept, the note of an upgrade that has not succeeded, and the stamp
of the version that last did. Needs no Django. Called by `manage.py prepare`.
"""

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from awmweb.embedded import backup
from awmweb.embedded.client_programs import Database
from awmweb.embedded.paths import Paths, replace_file

KEPT = 5
STAMP = "version"
UNKNOWN = "unknown"
"""The version before: versions up to 0.2.0 left no stamp."""


@dataclass(frozen=True)
class Stamp:
    """The version that last had the database as it needs it, and when it said so."""

    version: str = UNKNOWN
    at: str = ""


@dataclass(frozen=True)
class Unfinished:
    """An upgrade that was begun: its first backup, and what shows if the database was used since the last one."""

    first: str
    migrations: list[str]
    rows: dict[str, int]
    stamp: str


@dataclass(frozen=True)
class UpgradeBackup:
    """The backup to which an upgrade can go back."""

    file: Path
    is_new: bool


def save_before(source: Database, here: Paths, version: str) -> UpgradeBackup:
    """Return a backup from before this upgrade below `var/backups`, written now unless an earlier try wrote it.

    The first file of an upgrade is never removed before `succeeded`: later ones can hold a database that is changed in
    part. Of finished upgrades the newest few are kept.
    """
    folder = here.var / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.glob("before-*.unfinished"):  # of a start that was killed
        left.unlink()
    earlier = _unfinished(here)
    if earlier and _is_as_left(earlier, source, here):
        return UpgradeBackup(folder / earlier.first, False)
    stamp = stamp_of(here)
    file = folder / f"before-{stamp.version}-to-{version}-{time.strftime('%Y%m%dT%H%M%S')}.tar"
    manifest = backup.save(file, source, here, version)
    first = earlier.first if earlier else file.name
    noted = Unfinished(first, manifest.migrations, manifest.rows, stamp.at)
    replace_file(_note(here), json.dumps(asdict(noted)))
    _forget_older(folder, {file.name, first})
    return UpgradeBackup(file, True)


def succeeded(here: Paths, version: str) -> None:
    """Note that the database is as this version needs it: what was saved before is the past."""
    _note(here).unlink(missing_ok=True)
    _put_stamp(here, version)


def restored(here: Paths, version: str) -> None:
    """Note of which version a restored database is. The one to which an upgrade went back has its stamp already."""
    if stamp_of(here).version != version:
        _put_stamp(here, version)


def _put_stamp(here: Paths, version: str) -> None:
    replace_file(here.var / STAMP, json.dumps(asdict(Stamp(version, datetime.now(UTC).isoformat()))))


def stamp_of(here: Paths) -> Stamp:
    """Return which version last had the database as it needs it."""
    try:
        return Stamp(**json.loads((here.var / STAMP).read_text()))
    except (OSError, ValueError, TypeError):
        return Stamp()


def _note(here: Paths) -> Path:
    return here.var / "backups" / "upgrade.json"


def _unfinished(here: Paths) -> Unfinished | None:
    """Return the upgrade that was begun, as long as its first backup is there: without it another one is made."""
    try:
        noted = Unfinished(**json.loads(_note(here).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return noted if (here.var / "backups" / noted.first).exists() else None


def _is_as_left(earlier: Unfinished, source: Database, here: Paths) -> bool:
    """Return whether the database is as a failed try left it: changed in part, or as it was saved.

    It is not if people worked with the older version in between: going back again must keep that work.
    """
    if backup.migrations_of(source) != earlier.migrations:
        return True
    return stamp_of(here).at == earlier.stamp and source.row_counts() == earlier.rows


def _forget_older(folder: Path, needed: set[str]) -> None:
    others = [path for path in folder.glob("before-*.tar") if path.name not in needed]
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[: -(KEPT - 1)]:
        path.unlink()
