"""The server's folder on disk: made private and traversable by the sandbox user, and swept of what dead servers left
behind.

Owns where session databases and verifier copies live. Called by `verifier` and `sessions`.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "awmenv-"
_LOCK = "owner.lock"


class Workplace:
    """A fresh folder, locked while its owner lives. Others may pass through it by exact name, and not list it."""

    def __init__(self, wanted: str = "") -> None:
        parent = _reachable_parent(wanted)
        sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path.chmod(0o711)

    def folder(self, name: str, uid: int | None = None) -> Path:
        """A new folder in it: open to `uid` alone, or without one passable like this one."""
        path = self.path / name
        path.mkdir(mode=0o711)
        if uid is None:
            path.chmod(0o711)
        else:
            path.chmod(0o700)
            os.chown(path, uid, uid)
        return path

    def fresh(self, prefix: str) -> Path:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.path))
        path.chmod(0o711)
        return path

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(parent: str) -> None:
    """Remove the folders of owners that are gone: ours, and no longer locked."""
    for entry in os.scandir(parent):
        if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        if entry.stat(follow_symlinks=False).st_uid == os.geteuid() and _abandoned(Path(entry.path)):
            shutil.rmtree(entry.path, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _reachable_parent(wanted: str) -> str:
    """The wanted folder, or the first usual one that another user can pass through.

    As a plain user, any that is writable.
    """
    candidates = [wanted] if wanted else []
    candidates += [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]
    for candidate in candidates:
        if candidate and os.path.isdir(candidate) and os.access(candidate, os.W_OK) and _passable(candidate):
            return os.path.realpath(candidate)
    return tempfile.gettempdir()


def _passable(folder: str) -> bool:
    if os.geteuid() != 0:
        return True
    path = Path(os.path.realpath(folder))
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))
