"""The server's folder on disk: private, traversable by the sandbox user, and cleaned of the remains of ended servers.

Owns where session databases and verifier copies are. Called by `verifier` and `sessions`.
"""

import fcntl
import os
import secrets
import shutil
import socket
import stat
import tempfile
from pathlib import Path

PREFIX = "awmenv-"
UIDS = 4096  # users in a block: the first runs verifiers, each of the others one scenario at a time
FIRST_UID = 1_900_000_000  # far above the IDs that systems assign
LAST_UID = 2_147_000_000
SMALL_UID = 56_000  # where a container maps 65536 users
_LOCK = "owner.lock"


class Workplace:
    """A fresh folder, locked while its owner runs. Others can pass through it by exact name, but not list it."""

    def __init__(self, folder: str = "", uid: int = 0) -> None:
        parent = _reachable_parent(folder)
        sweep(parent)
        # Under its real name only once it is locked, or another server's sweep could take it for abandoned.
        new = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=parent))
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.chmod(0o711)
        self.path = new.rename(new.with_name(new.name.removeprefix("new-")))
        self.uid, self._claim = (uid, None) if uid else claim_users()

    def folder(self, name: str, uid: int | None = None) -> Path:
        """Return a new folder in it: open to `uid` only, or without one passable like this one."""
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
        if self._claim is not None:
            self._claim.close()


def claim_users() -> tuple[int, socket.socket | None]:
    """Return a block of users that no other server on this machine has: "kill all of a user" must never hit others.

    The claim is an abstract socket's name, which the kernel releases when its holder ends, for any reason.
    """
    if os.geteuid() != 0 or not _roomy():
        return SMALL_UID, None
    blocks = (LAST_UID - FIRST_UID) // UIDS
    while True:
        first = FIRST_UID + secrets.randbelow(blocks) * UIDS
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0awmenv-users-{first}")
            return first, claim
        except OSError:
            claim.close()


def _roomy() -> bool:
    """Return true unless a user namespace maps only a small range of users."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    ranges = [(int(inside), int(count)) for inside, _outside, count in (line.split() for line in lines)]
    return any(inside <= FIRST_UID and inside + count >= LAST_UID for inside, count in ranges)


def sweep(parent: str) -> None:
    """Remove the folders of ended servers: created by awmenv, and no longer locked."""
    for entry in os.scandir(parent):
        if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        if entry.stat(follow_symlinks=False).st_uid == os.geteuid() and _abandoned(Path(entry.path)):
            shutil.rmtree(entry.path, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        # Anyone can make a folder of such a name in /tmp, with a link in place of the lock.
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


def _reachable_parent(folder: str) -> str:
    """Return the wanted folder, or the first usual one that another user can pass through.

    As a plain user, any writable one.
    """
    candidates = [folder] if folder else []
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
