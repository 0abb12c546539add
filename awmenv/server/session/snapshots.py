"""Databases of recorded worlds that ended before their outcome, by owner and digest.

A replay is reset to one if its results are the recorded ones and its rows are not. Owns the store with its bounds, and
writing such bytes over a session's file between two calls. They stay bytes: no database is opened here. Called by
`sessions`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import stat
import tempfile
import time
import zlib
from pathlib import Path

from awmenv.server import database

log = logging.getLogger("awmenv.snapshots")
MAX_DATABASE = 64 << 20
MAX_STORE = 256 << 20
KEPT_S = 30 * 86_400
"""Seconds after its last use that a snapshot is removed; above the size limit the oldest goes first."""
_DIGEST = re.compile(r"[0-9a-f]{32}")
_COUNTER, _VALID_FOR = slice(24, 28), slice(92, 96)
_LOCK_AT, _LOCK_SIZE = 0x40000000, 512
"""The bytes that SQLite locks: pending, reserved and shared."""


class Snapshots:
    """The store of one server; without a folder it keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def keep(self, owner: str, source: Path, digest: str) -> None:
        """Store a copy that the server made; a failure only costs the snapshot. Idempotent."""
        target = self._place(owner, digest)
        if self.folder is None or target is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if target.exists():
                os.utime(target)
            elif source.stat().st_size <= MAX_DATABASE:
                with tempfile.NamedTemporaryFile(dir=self.folder, prefix="new-", delete=False) as new:
                    new.write(zlib.compress(source.read_bytes(), 1))
                Path(new.name).rename(target)
            self._tidy()
        except OSError as error:
            log.warning("a world's database is not kept: %s", error)

    def _tidy(self) -> None:
        assert self.folder is not None
        files = [(path.stat(), path) for path in self.folder.iterdir()]
        left, oldest = sum(info.st_size for info, _ in files), time.time() - KEPT_S
        for info, path in sorted(files, key=lambda pair: pair[0].st_mtime):
            if info.st_mtime > oldest and left <= MAX_STORE:
                return
            path.unlink(missing_ok=True)
            left -= info.st_size

    def put_back(self, owner: str, digest: str, target: Path) -> bool:
        """Write the stored bytes over a session's database, whose process waits for its next call.

        False if there are none, or if the file is in use.
        """
        data = self._read(owner, digest)
        if data is None or database.has_sidecars(target):
            return False
        try:
            fd = os.open(target, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return stat.S_ISREG(os.fstat(fd).st_mode) and _overwrite(fd, bytearray(data))
        except OSError as error:  # locked by the app, or no space
            log.warning("a snapshot is not put back: %s", error)
            return False
        finally:
            os.close(fd)

    def _place(self, owner: str, digest: str) -> Path | None:
        """Return the file of a snapshot. No session reads another owner's, whose bytes are other work."""
        if self.folder is None or not (_DIGEST.fullmatch(owner) and _DIGEST.fullmatch(digest)):
            return None
        return self.folder / f"{owner}-{digest}"

    def _read(self, owner: str, digest: str) -> bytes | None:
        """Return the bytes with this digest."""
        kept = self._place(owner, digest)
        if kept is None:
            return None
        with contextlib.suppress(OSError, zlib.error):
            unpacked = zlib.decompressobj()
            # One byte more than the limit shows that a snapshot is too large, without unpacking all of it.
            data = unpacked.decompress(kept.read_bytes(), MAX_DATABASE + 1)
            if unpacked.eof and len(data) >= 100 and database.digest_of_bytes(data) == digest:
                os.utime(kept)
                return data
        return None


def _overwrite(fd: int, data: bytearray) -> bool:
    """Write under SQLite's own lock, with a change counter that is new to open connections: they drop their caches."""
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_SIZE, _LOCK_AT)
    counter = (int.from_bytes(os.pread(fd, 4, 24), "big") + 1) % (1 << 32)
    # SQLite trusts the size in the header only if these two numbers are equal.
    data[_COUNTER] = data[_VALID_FOR] = counter.to_bytes(4, "big")
    written = os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
    return written == len(data)
