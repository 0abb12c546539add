"""Scenario databases as the server sees them: files of bytes, which untrusted code writes.

Owns the cheap questions about such a file: has it changed, how much disk does it use, a copy of it. The server never
opens one as a database; `seeding` does, in sandboxed children. Copying and removing, whose time grows with the file,
run beside the event loop.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from awmenv.errors import DatabaseBroken

FILE = "world.db"
LOADED = "loaded.db"  # as the app's import left it, before its reads are rehearsed
SIDECARS = ("-wal", "-journal", "-shm")
SMALL = 1 << 20  # bytes whose copy is faster than the switch to a thread
MAX_FILES = 256  # in a session's folder: looking at it takes a millisecond then
TOO_MUCH = 1 << 62
_COUNTER = slice(24, 28)  # SQLite's file change counter, in the header
_FICLONE = 0x40049409
_copying = ThreadPoolExecutor(2, thread_name_prefix="copying")
_removing = ThreadPoolExecutor(1, thread_name_prefix="removing")
_WAL = 18  # where the header says 2 if changes go to a write-ahead log
# `struct flock` of 64-bit Linux: type, whence, start, length, pid.
_LOCK = struct.Struct("hhqqi4x")
_SHARED_BYTES = (0x40000002, 510)  # which SQLite locks for writing while it changes the file itself

Fingerprint = tuple[object, ...]


def fingerprint(path: Path) -> Fingerprint:
    """Return a value that changes with every committed transaction: a header read and two stats, no database opened."""
    try:
        # An app can put a pipe in the place of its file, and opening one would wait.
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
class FileVersion:
    """The state of a database file that shows writes, and whether they were committed."""

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
            header, status = os.pread(fd, 28, 0), os.fstat(fd)
        finally:
            os.close(fd)
        return cls(header[_COUNTER], (status.st_size, status.st_mtime_ns), header[_WAL : _WAL + 1] == b"\2")

    def was_left_for(self, later: "FileVersion") -> bool:
        """Return whether the file was written to since, without a commit. A log counts its commits elsewhere."""
        return self.written != later.written and self.counter == later.counter and not later.logged


def is_being_changed(path: Path) -> bool:
    """Return whether a living process has SQLite's write lock on the file, as the kernel reports it."""
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
        status = os.lstat(path)
    except OSError:
        return ()
    return (status.st_size, status.st_mtime_ns)


def has_sidecars(path: Path) -> bool:
    """Return whether the file has a journal or log: then the file alone is not the committed state."""
    return any(os.path.lexists(f"{path}{suffix}") for suffix in SIDECARS)


async def copy_aside(source: Path, target: Path, mode: int = 0o444) -> None:
    """Run `copy`, for a large file in a thread."""
    with contextlib.suppress(OSError):  # `copy` raises a better error
        if source.lstat().st_size > SMALL:
            await asyncio.get_running_loop().run_in_executor(_copying, copy, source, target, mode)
            return
    copy(source, target, mode)


def copy(source: Path, target: Path, mode: int = 0o444) -> None:
    """Copy the bytes of a regular file into a new one; links are not followed, and no pipe or device is read."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DatabaseBroken(f"the database is missing: {error.strerror}") from error
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise DatabaseBroken("the database is no longer a file")
        try:
            with target.open("xb") as out:
                if not _cloned(fd, out.fileno()):
                    shutil.copyfileobj(stream, out, 1 << 20)
            target.chmod(mode)
        except OSError as error:  # no space, or its session has ended meanwhile
            raise DatabaseBroken(f"the database cannot be copied: {error.strerror}") from error


def _cloned(source: int, target: int) -> bool:
    """Return whether the file system shares the blocks of the two until a write, which costs nothing."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


async def digest_aside(path: Path) -> str:
    """Run `digest`, for a large file in a thread."""
    with contextlib.suppress(OSError):  # `digest` raises a better error
        if path.lstat().st_size > SMALL:
            return await asyncio.get_running_loop().run_in_executor(_copying, digest, path)
    return digest(path)


def digest(path: Path) -> str:
    """Return the BLAKE2b of a copy that the server made, without the counters and versions in SQLite's header."""
    with path.open("rb") as stream:
        return _digest(stream)


def digest_of_bytes(data: bytes) -> str:
    """Return the `digest` of a whole file in memory."""
    return _digest(io.BytesIO(data))


def _digest(stream: BinaryIO) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for block in _blocks(stream):
        hasher.update(block)
    return hasher.hexdigest()


def _blocks(stream: BinaryIO) -> Iterator[bytes | bytearray]:
    """Yield the bytes of a database without the counters and versions in its header, which change with no row."""
    header = bytearray(stream.read(100))
    header[_COUNTER] = bytes(4)
    # The version-valid-for number, and the version of the SQLite that wrote last.
    header[92:100] = bytes(len(header[92:100]))
    yield header
    while block := stream.read(1 << 20):
        yield block


async def same_aside(first: Path, other: Path) -> bool:
    """Run `same`, for a large file in a thread."""
    with contextlib.suppress(OSError):  # `same` raises a better error
        if first.lstat().st_size > SMALL:
            return await asyncio.get_running_loop().run_in_executor(_copying, same, first, other)
    return same(first, other)


def same(first: Path, other: Path) -> bool:
    """Return whether two copies that the server made hold the same bytes, and so the same rows."""
    with first.open("rb") as mine, other.open("rb") as its:
        if os.fstat(mine.fileno()).st_size != os.fstat(its.fileno()).st_size:
            return False
        return all(a == b for a, b in zip(_blocks(mine), _blocks(its), strict=True))


REMOVALS, REMOVED_AGAIN_S = 120, 0.5
"""How often a folder is removed until it no longer exists, and the seconds between two tries."""


def remove(path: Path) -> None:
    """Remove a file or a folder with its contents soon, in the background."""
    _removing.submit(_remove, path)


def before_removing(function: Callable[[], None]) -> None:
    """Run something in the background, before later removals."""
    _removing.submit(function)


def _remove(path: Path, tries: int = REMOVALS) -> None:
    """Remove a path. A process that is being ended can still write into its folder, which is then removed again."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if tries > 1 and path.exists():
        again = threading.Timer(REMOVED_AGAIN_S, _remove, (path, tries - 1))
        again.daemon = True
        again.start()


def disk_use(folder: Path) -> int:
    """Return the bytes of all files directly in a session's folder, where nothing else can be created.

    Each counts as one page at least, and more than `MAX_FILES` of them as more than any limit.
    """
    total = 0
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FILES:
                return TOO_MUCH
            with contextlib.suppress(FileNotFoundError):  # it can be removed during the scan
                total += max(4096, entry.stat(follow_symlinks=False).st_size)
    return total


def held_open(pid: int) -> int:
    """Return the bytes of deleted or unnamed files that a process still has open; no folder shows them.

    0 if the kernel does not allow the check: that requires root with CAP_SYS_PTRACE.
    """
    sizes: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())
