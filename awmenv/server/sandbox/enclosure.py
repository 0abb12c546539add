"""A private file system for a zygote and its children: the server's folder, the libraries, and nothing else.

Landlock refuses to read and write other files but does not hide them: `stat`, `access` and `readlink` show what exists,
its size and its owner. In a mount namespace nothing else exists. It takes CAP_SYS_ADMIN: root has it outside of
containers; others get it in a user namespace of their own if the kernel allows that. If neither works the zygote
continues without, and its probe reports that. Called by `zygote`, once, before it serves.
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from awmenv.server.sandbox import syscalls

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_NOSUID, MS_BIND, MS_REC, MS_PRIVATE = 2, 4096, 16384, 1 << 18
MNT_DETACH = 2
ALWAYS = ("/dev/null", "/dev/urandom")


def enclose(folder: str, shown: Iterable[str]) -> bool:
    """Leave only the `shown` paths of the file system, where they are; True if that worked.

    `folder`, an empty one, becomes the new root. It is tried in a child first, because half of it cannot be undone.
    """
    paths = {path: os.path.realpath(path) for path in (*ALWAYS, *shown) if os.path.exists(path)}
    return _works(folder, paths) and _enclose(folder, paths)


def _works(folder: str, paths: dict[str, str]) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if _enclose(folder, paths) and not os.path.exists("/proc") else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _enclose(folder: str, paths: dict[str, str]) -> bool:
    try:
        _unshare()
        # Private first, or the mounts below would appear on the whole machine.
        _mount("none", "/", "", MS_REC | MS_PRIVATE)
        _mount("tmpfs", folder, "tmpfs", MS_NOSUID, "mode=0755,size=1m")
        os.chdir(folder)
        os.mkdir("before")
        _call("pivot_root", b".", b"before")
        os.chdir("/")
        for path, real in sorted(paths.items()):  # a folder before its contents
            _show(f"/before{real}", path)
        # Detached, because the old root has other mounts below it and is in use.
        if ctypes.CDLL(None, use_errno=True).umount2(b"/before", MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), "umount2")
        os.rmdir("/before")
        _drop_capabilities()
    except OSError:
        return False
    return True


def _unshare() -> None:
    """Enter a namespace of mounts: root's own, for an ordinary user one inside a namespace of users."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWNS if uid == 0 else CLONE_NEWNS | CLONE_NEWUSER)
    if uid != 0:
        # The kernel takes a map of groups from an ordinary user only after this.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _show(source: str, path: str) -> None:
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
    _mount(source, path, "", MS_BIND | MS_REC)


def _drop_capabilities() -> None:
    """Drop an ordinary user's capabilities in the namespace. Root keeps its own: its children change their user."""
    if os.geteuid() == 0:
        return
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    if libc.mount(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _call(name: str, *arguments: object) -> None:
    number = syscalls.number(name)
    if number is None or ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments) != 0:
        raise OSError(ctypes.get_errno(), name)
