"""Backup and restore: the database, the data folder's files and the key that signs sessions in one file.

Owns the file's layout. Uses PostgreSQL's programs, so it needs no Django and works with the embedded database and with
an external one. Called by `manage.py backup`, `restore` and `prepare`.

A backup is a plain tar: `database.dump` (pg_dump's custom format), `var/...`, and last `manifest.json` with versions,
the applied migrations, and the size and SHA-256 of every other member.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from awmweb.embedded import postgres
from awmweb.embedded.paths import EmbeddedError, Paths, make_var, postgres_programs

FORMAT = 1
KEPT_BEFORE_UPGRADES = 5
# What belongs to this machine or this minute: server data, sockets, passwords of the embedded servers, logs.
LEFT_OUT = {"postgres", "postgres.new", "sockets", "programs", "logs", "backups", "lock", "children.json", "elsewhere"}
LEFT_OUT |= {"credentials.json", "settings.json", "beat", "cache"}
LEFT_OUT_PREFIXES = ("valkey", "beat-schedule", "tmp", ".", "restore-")
QUERY_VARIABLES = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}

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
class Database:
    """The connection for PostgreSQL's programs. The password is passed in the environment, not in arguments."""

    programs: Path | None
    environment: Mapping[str, str]

    def run(self, program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run one of PostgreSQL's programs against this database."""
        path = str(self.programs / program) if self.programs else program
        environment = {**os.environ, **self.environment}
        try:
            done = subprocess.run([path, *arguments], env=environment, stderr=subprocess.PIPE, check=False, **options)
        except FileNotFoundError as error:
            raise EmbeddedError(
                f"{program} is not installed. A backup requires PostgreSQL's client programs."
            ) from error
        if done.returncode:
            raise EmbeddedError(f"{program}: {done.stderr.decode(errors='replace').strip()}")
        return done

    def rows(self, query: str) -> list[str]:
        """Return the result of one query, a line per row."""
        done = self.run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", query, stdout=subprocess.PIPE)
        return [line for line in done.stdout.decode().splitlines() if line]


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


def database(url: str, here: Paths) -> Database:
    """Return the database of a postgres:// address."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    fields = {
        # the colons in the brackets of an IPv6 address come before that of the port
        "PGHOST": host[1:].partition("]")[0] if host.startswith("[") else unquote(host.partition(":")[0]),
        "PGPORT": str(parts.port or 5432),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": unquote(parts.path.lstrip("/")),
    }
    fields |= {QUERY_VARIABLES[key]: value for key, value in parse_qsl(parts.query) if key in QUERY_VARIABLES}
    try:
        programs: Path | None = postgres_programs(here, postgres.MAJOR)
    except EmbeddedError:
        programs = None  # no wheel on this platform: the operator's own programs, from PATH
    return Database(programs, {key: value for key, value in fields.items() if value})


def save(file: Path, source: Database, here: Paths, version: str) -> Manifest:
    """Write a backup while everything runs. The file gets its name only when it is complete.

    The database is copied first: files are written before the rows that name them, so each named file exists. A
    database without migrations is refused, since it belongs to no product.
    """
    if not _migrations(source):
        raise EmbeddedError("The database has no migrations, so there is nothing to back up. Is AWMWEB_VAR set?")
    unfinished = file.with_name(file.name + ".unfinished")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it holds the key and password hashes
    try:
        # Into a file first: a tar needs the size of a member before its bytes.
        with os.fdopen(handle, "wb") as out, tempfile.TemporaryFile(dir=file.parent) as dump:
            source.run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", stdout=dump)
            dump.seek(0)
            manifest = _write(out, dump, source, here, version)
            out.flush()
            # Before the rename, or a power cut could leave the final name on an incomplete file.
            os.fsync(out.fileno())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return manifest


def save_before_upgrade(source: Database, here: Paths, version: str) -> Path:
    """Write a backup below `var/backups`, keep the newest few, and return its path."""
    folder = here.var / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"before-{version}-{time.strftime('%Y%m%dT%H%M%S')}.tar"
    save(file, source, here, version)
    older = sorted(folder.glob("before-*.tar"), key=lambda path: path.stat().st_mtime)
    for path in older[:-KEPT_BEFORE_UPGRADES]:
        path.unlink()
    return file


def restore(file: Path, target: Database, here: Paths, known_migrations: set[str], force: bool = False) -> Manifest:
    """Replace the contents of the database by a backup, all or nothing.

    1. Unpack, check every checksum. 2. Refuse a backup of an empty database or of a newer version. 3. Refuse to
    overwrite unless forced. 4. Restore the database in one transaction. 5. Restore the files.
    """
    make_var(here.var)
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


def _write(out: IO[bytes], dump: IO[bytes], source: Database, here: Paths, version: str) -> Manifest:
    files: dict[str, dict[str, Any]] = {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "database.dump", dump, files)
        for path in _files(here.var):
            # what is erased or imported meanwhile no longer exists
            with contextlib.suppress(FileNotFoundError), path.open("rb") as content:
                _add(archive, f"var/{path.relative_to(here.var)}", content, files)
        manifest = Manifest(
            format=FORMAT,
            version=version,
            created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            python=platform.python_version(),
            postgres=source.rows("SHOW server_version")[0],
            migrations=_migrations(source),
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
    copied = _Digesting(content)
    archive.addfile(member, copied)
    files[name] = {"size": member.size, "sha256": copied.digest.hexdigest()}


class _Digesting:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content, self.digest = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._content.read(size)
        self.digest.update(block)
        return block


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


def _migrations(source: Database) -> list[str]:
    if not source.rows("SELECT to_regclass('public.django_migrations')"):
        return []
    return source.rows("SELECT app || '.' || name FROM django_migrations ORDER BY 1")


def _unpack(file: Path, target: Path) -> Manifest:
    """Extract what the manifest lists and nothing else, checking every byte. Paths outside the folder are refused."""
    try:
        # Without compression: a compressed archive could unpack to any size.
        with tarfile.open(file, "r:") as archive:
            manifest = _manifest(archive)
            for name, known in manifest.files.items():
                if _take_out(archive, name, target) != known["sha256"]:
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
    if source is None or ".." in parts or (name != "database.dump" and parts[:1] != ("var",)):
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
        raise EmbeddedError("The database is not empty. Restore into an empty folder (AWMWEB_VAR), or pass --force.")
    folders = [path.name for path in (unpacked / "var").glob("*/") if any((here.var / path.name).glob("*"))]
    if folders:
        raise EmbeddedError(f"{here.var / folders[0]} is not empty. Choose an empty AWMWEB_VAR, or pass --force.")


def _load(unpacked: Path, target: Database) -> None:
    """Load in one transaction: readers see the old state or the new one, and a failure keeps the old one."""
    script = unpacked / "database.sql"
    with script.open("wb") as out:
        out.write(EMPTY_SCHEMA.encode())
        out.flush()
        arguments = ("--no-owner", "--no-privileges", "--file=-", str(unpacked / "database.dump"))
        target.run("pg_restore", *arguments, stdout=out)
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
