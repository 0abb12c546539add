"""Databases of scenarios as the server sees them: files of bytes, which hostile code writes.

Owns the cheap questions about such a file: has it changed, how much disk does it take, a copy of it. The server never
opens one as a database; `seeding` does, in sandboxed children.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from awmenv.errors import DatabaseBroken

FILE = "world.db"
LOADED = "loaded.db"  # as the app's import left it, before its reads are rehearsed
SIDECARS = ("-wal", "-journal", "-shm")
_COUNTER = slice(24, 28)  # SQLite's file change counter, in the header
_WAL = 18  # where the header says 2 if changes go to a write-ahead log
_LOCK = struct.Struct("hhqqi4x")
_SHARED_BYTES = (0x40000002, 510)  # which SQLite locks for writing while it changes the file itself

Fingerprint = tuple[object, ...]


def fingerprint(path: Path) -> Fingerprint:
    """Changes whenever a transaction was committed: a header read and two stats, no database opened."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ("missing",)
    try:
        header = os.pread(fd, 28, 0)
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    return (header[_COUNTER], size, *_stat(f"{path}-wal"))


@dataclass(frozen=True)
class Mark:
    """What tells that a database file was written to, and whether by a commit."""

    counter: bytes = b""
    written: tuple[int, int] = (0, 0)
    logged: bool = False

    @classmethod
    def of(cls, path: Path) -> Self:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return cls()
        try:
            header, found = os.pread(fd, 28, 0), os.fstat(fd)
        finally:
            os.close(fd)
        return cls(header[_COUNTER], (found.st_size, found.st_mtime_ns), header[_WAL : _WAL + 1] == b"\2")

    def was_left_for(self, later: "Mark") -> bool:
        """Return whether the file was written to since, and nothing committed. A log counts its commits elsewhere."""
        return self.written != later.written and self.counter == later.counter and not later.logged


def is_being_changed(path: Path) -> bool:
    """Return whether a living process holds the lock under which SQLite writes to the file; the kernel knows."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        asked = _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, *_SHARED_BYTES, 0)
        return bool(_LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0] == fcntl.F_WRLCK)
    finally:
        os.close(fd)


def _stat(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return (found.st_size, found.st_mtime_ns)


def has_sidecars(path: Path) -> bool:
    """Return whether a journal or log lies beside the file: then the file alone is not what was committed."""
    return any(os.path.lexists(f"{path}{suffix}") for suffix in SIDECARS)


def copy(source: Path, target: Path, mode: int = 0o444) -> None:
    """Bytes of a regular file into a new one; links are not followed."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DatabaseBroken(f"the database is gone: {error.strerror}") from error
    with os.fdopen(fd, "rb") as stream, target.open("xb") as out:
        shutil.copyfileobj(stream, out, 1 << 20)
    target.chmod(mode)


def disk_use(folder: Path) -> int:
    """Bytes of all files directly in a session's folder, where nothing else can be made.

    Each counts for a page at least.
    """
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it may go while we look
                total += max(4096, entry.stat(follow_symlinks=False).st_size)
    return total


def held_open(pid: int) -> int:
    """Bytes of files that a process has removed, or never named, and still holds open; no folder shows them.

    0 where the kernel does not let us look: that takes root with CAP_SYS_PTRACE.
    """
    sizes: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())
