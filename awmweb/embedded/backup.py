"""Backup and restore: the database, the data folder's files and the key that signs sessions in one file.

Owns the file's layout. Uses PostgreSQL's programs, so it needs no Django and works with the embedded database and with
an external one. Called by `manage.py backup` and `restore`, and by `upgrades`.

A backup is a plain tar: `database.dump` (pg_dump's custom format), `var/...`, and last `manifest.json` with versions,
the applied migrations, the size and SHA-256 of every other member, and the rows of each table. Older versions, which
restore it to go back, refuse a manifest with other fields: what is new goes into its `files`.
"""

import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from awmweb.embedded import postgres, reading_back
from awmweb.embedded.client_programs import Database
from awmweb.embedded.paths import EmbeddedError, Paths, make_var, replace_file
from awmweb.embedded.reading_back import DUMP, DigestingReader

FORMAT = 1
LAST = "last_backup"
# What belongs to this machine or this minute: server data, sockets, passwords of the embedded servers, logs.
LEFT_OUT = {"postgres", "postgres.new", "sockets", "programs", "logs", "backups", "lock", "children.json", "elsewhere"}
LEFT_OUT |= {"credentials.json", "settings.json", "beat", "cache", "version", LAST}
LEFT_OUT_PREFIXES = ("valkey", "beat-schedule", "tmp", ".", "restore-")

# Without the limit a session that holds a table would make the restore wait forever.
EMPTY_SCHEMA = """
SET lock_timeout = '30s';
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
"""
# Sessions of the product hold locks that the restore would wait for.
OTHERS_OUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid();
"""
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"


@dataclass(frozen=True)
class Manifest:
    """The description of a backup file."""

    format: int
    version: str
    created_at: str
    python: str
    postgres: str
    migrations: list[str]
    files: dict[str, dict[str, Any]]

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table; empty in a file of a version up to 0.2.0."""
        return dict(self.files[DUMP].get("rows", {}))


def save(file: Path, source: Database, here: Paths, version: str) -> Manifest:
    """Write a backup while everything runs. The file gets its name once it is complete and was read back.

    The database is copied first: files are written before the rows that name them, so each named file exists. A
    database without migrations is refused, since it belongs to no product.
    """
    if not migrations_of(source):
        raise EmbeddedError("The database has no migrations, so there is nothing to back up. Is AWMWEB_VAR set?")
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        # it holds the key and password hashes
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        # Into a file first: a tar needs the size of a member before its bytes.
        with os.fdopen(handle, "wb") as out, tempfile.TemporaryFile(dir=file.parent) as dump:
            rows = _dump(source, dump)
            manifest = _write(out, dump, rows, source, here, version)
            out.flush()
            # Before the rename, or a power cut could leave the final name on an incomplete file.
            os.fsync(out.fileno())
        reading_back.check(unfinished, manifest.files, source)
        unfinished.replace(file)
    except OSError as error:
        raise EmbeddedError(f"{file} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return manifest


def note_last(here: Paths, file: Path) -> None:
    """Note when and where a backup was written, for the metric of its age."""
    replace_file(here.var / LAST, json.dumps({"at": time.time(), "file": str(file)}))


def last_at(var: Path) -> float:
    """Return when a backup was last written; 0 if none is known, also after a clock that was ahead."""
    try:
        at = float(json.loads((var / LAST).read_text())["at"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0.0
    return at if at <= time.time() else 0.0


def restore(file: Path, target: Database, here: Paths, known_migrations: set[str], force: bool = False) -> Manifest:
    """Replace the contents of the database by a backup, all or nothing.

    1. Refuse a server that cannot load it. 2. Unpack, check every checksum. 3. Refuse a backup of an empty database or
    of a newer version. 4. Refuse to overwrite unless forced. 5. Restore the database in one transaction. 6. Restore the
    files.
    """
    make_var(here.var)
    postgres.refuse_older(target.server_version())
    with tempfile.TemporaryDirectory(dir=here.var, prefix="restore-") as name:
        unpacked = Path(name)
        manifest = _unpack(file, unpacked)
        if not manifest.migrations:
            raise EmbeddedError(f"{file} is a backup of a database without migrations. Nothing was changed.")
        newer = sorted(set(manifest.migrations) - known_migrations)
        if newer:
            raise EmbeddedError(
                f"The backup was made by a newer awmweb ({manifest.version}): unknown here is {newer[0]}."
            )
        _refuse_to_overwrite(target, here, unpacked, force)
        # The database first, as it can fail as a whole: files would be left beside the old rows.
        _load(unpacked, target)
        _place(unpacked / "var", here.var)
    return manifest


def _dump(source: Database, out: IO[bytes]) -> dict[str, int]:
    """Write the database, and return the number of rows of each table at that moment."""
    arguments = ("--format=custom", "--no-owner", "--no-privileges")
    with source.snapshot() as moment:
        source.run("pg_dump", *arguments, f"--snapshot={moment.name}", stdout=out)
        return moment.row_counts()


def _write(
    out: IO[bytes], dump: IO[bytes], rows: dict[str, int], source: Database, here: Paths, version: str
) -> Manifest:
    files: dict[str, dict[str, Any]] = {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, DUMP, dump, files)
        files[DUMP]["rows"] = rows
        for path in _files(here.var):
            # what is erased or imported meanwhile no longer exists
            with contextlib.suppress(FileNotFoundError), path.open("rb") as content:
                _add(archive, f"var/{path.relative_to(here.var)}", content, files)
        manifest = Manifest(
            format=FORMAT,
            version=version,
            created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            python=platform.python_version(),
            postgres=source.server_version(),
            migrations=migrations_of(source),
            files=files,
        )
        text = json.dumps(manifest.__dict__, indent=1).encode()
        # Last: it has the digests of all others, and a file that was cut off lacks it.
        _add(archive, "manifest.json", io.BytesIO(text), {})
    return manifest


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], files: dict[str, dict[str, Any]]) -> None:
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    member.mtime = int(time.time())
    member.mode = 0o600
    content.seek(0)
    # of the very bytes that are written: a file can grow meanwhile, and a restore would refuse it
    copied = DigestingReader(content)
    archive.addfile(member, copied)
    files[name] = {"size": member.size, "sha256": copied.digest.hexdigest()}


def _files(var: Path) -> Iterator[Path]:
    for top in sorted(var.iterdir()):
        if top.name in LEFT_OUT or top.name.startswith(LEFT_OUT_PREFIXES):
            continue
        below = _below(top) if top.is_dir() else [top]
        # a loaded pack is a link to the folder of its version: it is saved as a folder of its own
        links = {path: path.resolve() for path in below if path.is_symlink() and path.is_dir()}
        links = {path: folder for path, folder in links.items() if folder.is_relative_to(top.resolve())}
        if links:
            below = [path for path in below if not any(path.resolve().is_relative_to(one) for one in links.values())]
        below += [path for link in links for path in sorted(link.iterdir())]
        yield from (
            path
            for path in below
            # a build in work writes there, and is made again
            if path.is_file() and not path.is_symlink() and not path.is_relative_to(var / "exports" / "work")
        )


def _below(top: Path) -> list[Path]:
    """Return all paths below a folder; one that is removed meanwhile is none."""
    return sorted(Path(where) / name for where, folders, names in os.walk(top) for name in (*folders, *names))


def migrations_of(source: Database) -> list[str]:
    if not source.rows("SELECT to_regclass('public.django_migrations')"):
        return []
    return source.rows("SELECT app || '.' || name FROM django_migrations ORDER BY 1")


def _unpack(file: Path, target: Path) -> Manifest:
    """Extract what the manifest lists and nothing else, checking every byte. Paths outside the folder are refused."""
    try:
        # Without compression: a compressed archive could unpack to any size.
        with tarfile.open(file, "r:") as archive:
            manifest = _manifest(archive)
            for name, listed in manifest.files.items():
                if _take_out(archive, name, target) != listed["sha256"]:
                    raise EmbeddedError(f"{file} is damaged: {name} is not what was saved. Nothing was changed.")
    except (tarfile.TarError, KeyError, ValueError, OSError) as error:
        raise EmbeddedError(f"{file} is not a complete backup: {error}. Nothing was changed.") from error
    return manifest


def _manifest(archive: tarfile.TarFile) -> Manifest:
    source = archive.extractfile("manifest.json")
    fields = json.load(source) if source else {}
    if set(fields) != set(Manifest.__dataclass_fields__):
        raise ValueError("its manifest is not from awmweb")
    manifest = Manifest(**fields)
    if manifest.format != FORMAT:
        raise ValueError(f"it has format {manifest.format}, and this version reads {FORMAT}")
    return manifest


def _take_out(archive: tarfile.TarFile, name: str, target: Path) -> str:
    parts = PurePosixPath(name).parts
    source = archive.extractfile(name)
    if source is None or ".." in parts or (name != DUMP and parts[:1] != ("var",)):
        raise ValueError(f"it holds {name!r}")
    place = target.joinpath(*parts)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    # `x`: a name that is listed twice must not overwrite what was checked before.
    with open(place, "xb", opener=_private) as out:
        while block := source.read(1 << 20):
            digest.update(block)
            out.write(block)
    return digest.hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _refuse_to_overwrite(target: Database, here: Paths, unpacked: Path, force: bool) -> None:
    if force:
        return
    if target.rows(TABLES) != ["0"]:
        is_ours = target.environment.get("PGHOST") == str(here.sockets)
        empty = "an empty folder (AWMWEB_VAR)" if is_ours else "an empty database (DATABASE_URL)"
        raise EmbeddedError(f"The database is not empty. Restore into {empty}, or replace what is in it with --force.")
    folders = [path.name for path in (unpacked / "var").glob("*/") if any((here.var / path.name).glob("*"))]
    if folders:
        raise EmbeddedError(f"{here.var / folders[0]} is not empty. Choose an empty AWMWEB_VAR, or pass --force.")


def _load(unpacked: Path, target: Database) -> None:
    """Load in one transaction: readers see the old state or the new one, and a failure keeps the old one."""
    script = unpacked / "database.sql"
    with script.open("wb") as out:
        out.write(EMPTY_SCHEMA.encode())
        arguments = ("--no-owner", "--no-privileges", "--file=-", str(unpacked / DUMP))
        with target.piped("pg_restore", *arguments) as restoring:
            assert restoring.stdout
            out.writelines(reading_back.loadable(restoring.stdout))
    target.rows(OTHERS_OUT)
    target.run("psql", "-Xq", "-1", "-v", "ON_ERROR_STOP=1", "-f", str(script), stdout=subprocess.DEVNULL)


def _place(source: Path, var: Path) -> None:
    for path in sorted(source.rglob("*")):
        place = var / path.relative_to(source)
        if path.is_dir():
            # A loaded pack is a link to the folder of its version; writing through it would change that version.
            if place.is_symlink():
                place.unlink()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.move(path, place)
