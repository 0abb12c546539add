"""The kernel sandbox of dataset code: Landlock, seccomp, rlimits, another uid, no inherited descriptors, and its proof.

Owns how a process is confined and how that is probed. `zygote`, `runner` and `host` call it in forked, single-threaded
children. Every failed step raises, so a child that cannot be confined ends before it runs anything. Linux only;
elsewhere the tier is `none`.
"""

import ctypes
import errno
import functools
import os
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from awmenv.server.sandbox import syscalls
from awmenv.server.sandbox.syscalls import Profile

STRICT, CONTAINER, DEGRADED, NONE = "strict", "container", "degraded", "none"
TIERS = (NONE, DEGRADED, CONTAINER, STRICT)  # weakest first

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36
_SECCOMP_SET_MODE_FILTER = 1

# Landlock's file rights, in the kernel's order.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_REG, MAKE_DIR, REFER, TRUNCATE, IOCTL_DEV = 1 << 8, 1 << 7, 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
WORK = READ | WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights known to each ABI; 5 and later know 16


ZONES = "/usr/share/zoneinfo"


@dataclass(frozen=True)
class Limits:
    """Resource limits of one child. None leaves a limit unchanged."""

    cpu_s: int
    memory: int
    file_size: int
    files: int
    processes: tuple[int, int] | None = None  # soft and hard; counted per user


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(name: str, *args: object) -> int:
    nr = syscalls.number(name)
    # A call that this machine lacks gets the number -1, which the kernel refuses with ENOSYS.
    result: int = _libc().syscall(ctypes.c_long(nr if nr is not None else -1), *args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    if _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def landlock_abi() -> int:
    """Return the kernel's Landlock version, 0 if there is none."""
    if not sys.platform.startswith("linux") or not syscalls.supported():
        return 0
    try:
        return _syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def die_with_parent(expected: int) -> None:
    """Send this process SIGKILL when the parent exits.

    Must come after a uid change, which clears it; `expected` closes the race with an early exit.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected:
        os._exit(1)


def become(uid: int) -> None:
    """Become another user permanently, without groups. Only root calls it."""
    # Groups first: another user can no longer change them.
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def limit(limits: Limits) -> None:
    memory_lock = getattr(resource, "RLIMIT_MEMLOCK", None)
    ceilings = {
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_AS: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_CORE: 0,
        memory_lock: 0,
    }
    if limits.processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes[0], limits.processes[1]))
    for kind, value in ceilings.items():
        if kind is not None:
            resource.setrlimit(kind, (value, value))
    # A write beyond the limit then fails with EFBIG, instead of ending the process without a word.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def keep_descriptors(keep: Sequence[int]) -> list[int]:
    """Move `keep` to 3, 4, ...; /dev/null on 0 to 2; close every other descriptor. Returns the new numbers."""
    # Moved far up first, because one to keep can have a number that is a target.
    parked = [os.dup2(fd, 200 + index, inheritable=False) for index, fd in enumerate(keep)]
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    placed = [os.dup2(fd, 3 + index, inheritable=False) for index, fd in enumerate(parked)]
    os.closerange(3 + len(placed), os.sysconf("SC_OPEN_MAX") if sys.platform != "linux" else 1 << 20)
    return placed


def drop_privileges() -> None:
    """Forbid new privileges and attaching by processes of the same user.

    Raises with a capability left or with more than one thread.
    """
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    # Version 3 of this call: two halves of 32 bits for each set of capabilities.
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    data = ctypes.create_string_buffer(24)
    _syscall("capget", header, data)
    effective, permitted = struct.unpack_from("=II", data.raw, 0)[:2]
    if effective or permitted or any(struct.unpack_from("=III", data.raw, 12)[:2]):
        raise PermissionError(errno.EPERM, "capabilities are left")


def restrict_paths(rules: Iterable[tuple[str, int]]) -> None:
    """Restrict the file system by Landlock to these paths with these rights.

    No TCP, no abstract sockets, no signals outwards.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.ENOSYS, "no Landlock")
    # The kernel refuses the whole ruleset if it names a right that it does not know.
    handled = (1 << _FS_BITS.get(abi, 16)) - 1
    fields = [handled]
    # ABI 4 adds TCP, and ABI 6 abstract sockets and signals. What is handled and never allowed is forbidden.
    if abi >= 4:
        fields.append(0b11)
    if abi >= 6:
        fields.append(0b11)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _syscall("landlock_create_ruleset", attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path, rights in rules:
            _allow_path(ruleset, path, rights & handled)
        _syscall("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what cannot be reached needs no rule
    try:
        if not os.path.isdir(path):
            # For a file the kernel refuses a rule that has rights of folders.
            rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
        rule = struct.pack("=Qi", rights, fd)
        _syscall("landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(fd)


def filter_calls(profile: Profile) -> None:
    """Allow only the profile's system calls from now on, by seccomp.

    The last step, since the earlier ones need calls that it forbids.
    """
    code = syscalls.program(profile)
    buffer = ctypes.create_string_buffer(code, len(code))
    # `struct sock_fprog`: a length of 16 bits, padding, and a pointer to the program.
    padded = struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(buffer))
    _syscall("seccomp", ctypes.c_uint(_SECCOMP_SET_MODE_FILTER), ctypes.c_uint(0), padded)


def library_rules() -> list[tuple[str, int]]:
    """Return read access to the interpreter's own libraries, for late imports of scenario apps."""
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))}
    return [(folder, READ) for folder in sorted(folders)] + [(ZONES, READ), ("/dev/urandom", READ_FILE)]


def confine(profile: Profile, rules: Iterable[tuple[str, int]], tier: str) -> None:
    """Apply the kernel restrictions of the tier, in the order that works.

    `strict` requires all of them; the weaker tiers use what the kernel offers.
    """
    if tier == STRICT:
        drop_privileges()
        restrict_paths(rules)
        filter_calls(profile)
        return
    for step in (drop_privileges, lambda: restrict_paths(rules), lambda: filter_calls(profile)):
        try:
            step()
        except OSError as error:
            _note_missing(error)


def _note_missing(error: OSError) -> None:
    """Accept a missing restriction on a weaker tier; every record has the tier."""


def probe(base: str, uid: int | None) -> dict[str, bool]:
    """Test each restriction in forked children, confined like a run, and return {restriction: holds}."""
    folder = os.path.join(base, "probe")
    os.makedirs(folder, exist_ok=True)
    canary = os.path.join(base, "canary")
    inside = os.path.join(folder, "inside")
    for path in (canary, inside):
        with open(path, "w", encoding="ascii") as stream:
            stream.write("canary")
        os.chmod(path, 0o666)
    rules = [(inside, READ_FILE)]
    return {
        "landlock": landlock_abi() >= 1,
        "reads_own": _in_child(uid, rules, lambda: bool(open(inside, "rb").read())),  # noqa: SIM115
        "no_reading": _in_child(uid, rules, lambda: _refused(lambda: open(canary, "rb"))),  # noqa: SIM115
        "no_writing": _in_child(uid, rules, lambda: _refused(lambda: open(inside, "ab"))),  # noqa: SIM115
        "no_network": _in_child(uid, rules, lambda: _refused(_open_socket)),
        "no_fork": _in_child(uid, rules, lambda: _refused(_fork)),
        "no_signals": _in_child(uid, rules, lambda: _refused(lambda: os.kill(os.getppid(), 0))),
    }


def reached(probes: dict[str, bool], declared: str) -> str:
    """Return the tier that the probes prove; below strict only what the operator declared counts."""
    if probes and all(probes.values()):
        return STRICT
    return declared if declared in (CONTAINER, DEGRADED) else NONE


def _in_child(uid: int | None, rules: list[tuple[str, int]], check: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if uid is not None:
                become(uid)
            # With this tier a step that fails raises, and the probe does not hold.
            confine("verifier", rules, STRICT)
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except PermissionError:
        return True
    return False


def _open_socket() -> None:
    import socket  # only the probe needs it, and the verifier's zygote stays lean

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
