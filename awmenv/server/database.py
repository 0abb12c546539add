"""Databases of scenarios: built from rows inside the sandbox, and afterwards seen by the server only as files of bytes.

Owns the build (called by `host`, in the confined child) and the cheap questions the server asks of a file that hostile
code writes: has it changed, how much disk does it take, a copy of it. The server never opens such a file as a database.
Whatever takes longer the more is on disk, copying and removing, happens beside the event loop.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from awmenv import seeding
from awmenv.errors import DatabaseBroken

FILE = "world.db"
SIDECARS = ("-wal", "-journal", "-shm")
SMALL = 1 << 20  # bytes that are copied faster than a thread is asked to
MAX_FILES = 256  # in a session's folder: looking at it takes a millisecond then
TOO_MUCH = 1 << 62
_COUNTER = slice(24, 28)  # SQLite's file change counter, in the header
_FICLONE = 0x40049409
_copying = ThreadPoolExecutor(2, thread_name_prefix="copying")
_removing = ThreadPoolExecutor(1, thread_name_prefix="removing")

Fingerprint = tuple[object, ...]


def build(path: str, statements: list[tuple[str, str]]) -> seeding.BuildReport:
    """Build into a new file. The caller refuses a report that is not ok: half a database is no database."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        report = seeding.build(connection, statements)
    finally:
        connection.close()
    return report


def settle(path: str) -> None:
    """Fold a write-ahead log back into the file, so that one file is the whole database.

    Runs in the child that owns it.
    """
    connection = sqlite3.connect(path, timeout=2)
    try:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    finally:
        connection.close()


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


async def copy_aside(source: Path, target: Path, mode: int = 0o444) -> None:
    """`copy`, and a large file in a thread."""
    with contextlib.suppress(OSError):  # `copy` says better what is wrong
        if source.lstat().st_size > SMALL:
            await asyncio.get_running_loop().run_in_executor(_copying, copy, source, target, mode)
            return
    copy(source, target, mode)


def copy(source: Path, target: Path, mode: int = 0o444) -> None:
    """Bytes of a regular file into a new one; links are not followed, and no pipe or device is read."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DatabaseBroken(f"the database is gone: {error.strerror}") from error
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise DatabaseBroken("the database is no file any more")
        try:
            with target.open("xb") as out:
                if not _cloned(fd, out.fileno()):
                    shutil.copyfileobj(stream, out, 1 << 20)
            target.chmod(mode)
        except OSError as error:  # no space, or its session has ended meanwhile
            raise DatabaseBroken(f"the database cannot be copied: {error.strerror}") from error


def _cloned(source: int, target: int) -> bool:
    """Whether the file system shares the blocks of the two until one is written, which costs nothing."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, soon, and beside everything else."""
    _removing.submit(_remove, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def disk_use(folder: Path) -> int:
    """Bytes of all files directly in a session's folder, where nothing else can be made.

    Each counts for a page at least, and more than `MAX_FILES` of them for more than anybody may have.
    """
    total = 0
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FILES:
                return TOO_MUCH
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
