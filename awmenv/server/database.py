"""Databases of scenarios as the server sees them: files of bytes, which hostile code writes.

Owns the cheap questions about such a file: has it changed, how much disk does it take, a copy of it. The server never
opens one as a database; `seeding` does, in sandboxed children.
"""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from awmenv.errors import DatabaseBroken

FILE = "world.db"
SIDECARS = ("-wal", "-journal", "-shm")
_COUNTER = slice(24, 28)  # SQLite's file change counter, in the header

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


def _stat(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return (found.st_size, found.st_mtime_ns)


def has_sidecars(path: Path) -> bool:
    return any(Path(f"{path}{suffix}").exists() for suffix in SIDECARS)


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
