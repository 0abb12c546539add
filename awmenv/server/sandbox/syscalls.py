"""The system calls of dataset code, as seccomp programs: two tables of numbers, two profiles, one assembler.

Owns the allowlists. `confine` installs what `program` returns. Everything not listed fails with EPERM; a foreign
architecture is killed.
"""

import errno
import functools
import platform
import struct
from dataclasses import dataclass
from typing import Literal

Profile = Literal["verifier", "template", "scenario"]

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None where the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "open": (2, None), "close": (3, 57), "stat": (4, None), "fstat": (5, 80),
    "lstat": (6, None), "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226),
    "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65),
    "writev": (20, 66), "access": (21, None), "pipe": (22, None), "select": (23, None), "sched_yield": (24, 124),
    "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "nanosleep": (35, 101), "getpid": (39, 172),
    "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212), "shutdown": (48, 210),
    "getsockname": (51, 204), "socketpair": (53, 199), "getsockopt": (55, 209), "clone": (56, 220), "exit": (60, 93),
    "wait4": (61, 260), "uname": (63, 160), "fcntl": (72, 25), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "getcwd": (79, 17), "chdir": (80, 49), "rename": (82, None), "mkdir": (83, None),
    "rmdir": (84, None), "unlink": (87, None), "readlink": (89, None), "umask": (95, 166), "gettimeofday": (96, 169),
    "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174),
    "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "getppid": (110, 173), "capget": (125, 90),
    "sigaltstack": (131, 132), "prctl": (157, 167), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "epoll_create": (213, None), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94), "epoll_wait": (232, None),
    "epoll_ctl": (233, 21), "openat": (257, 56), "mkdirat": (258, 34), "newfstatat": (262, 79), "unlinkat": (263, 35),
    "renameat": (264, 38), "readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73),
    "set_robust_list": (273, 99), "epoll_pwait": (281, 22), "eventfd2": (290, 19), "epoll_create1": (291, 20),
    "dup3": (292, 24), "pipe2": (293, 59), "prlimit64": (302, 261), "seccomp": (317, 277), "getrandom": (318, 278),
    "statx": (332, 291), "rseq": (334, 293), "clone3": (435, 435), "close_range": (436, 436),
    "faccessat2": (439, 439), "epoll_pwait2": (441, 441), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
    "fchdir": (81, 50), "membarrier": (324, 283), "setitimer": (38, 103), "capset": (126, 91), "pivot_root": (155, 41),
    "unshare": (272, 97),
}  # fmt: skip

_READING = (
    "read", "write", "pread64", "lseek", "close", "fstat", "newfstatat", "stat", "lstat", "statx", "futex", "mmap",
    "munmap", "mremap", "brk", "mprotect", "madvise", "openat", "open", "readv", "writev", "access", "faccessat",
    "faccessat2", "readlink", "readlinkat", "getdents64", "getcwd", "fcntl", "ioctl", "dup", "clock_gettime",
    "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "times", "getrusage", "getrlimit", "prlimit64",
    "sysinfo", "uname", "umask", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getrandom",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "sched_yield", "sched_getaffinity", "poll",
    "ppoll", "select", "pselect6", "restart_syscall", "rseq", "set_robust_list", "membarrier", "exit", "exit_group",
)  # fmt: skip
# No sendmsg: it can keep a file open in a socket's queue, where its holder is not visible; and it takes an address.
# No clone: a session has no threads, `host` runs in place what an app gives to one.
_WORKING = (
    *_READING, "pwrite64", "ftruncate", "fsync", "fdatasync", "unlink", "unlinkat", "rename", "renameat", "sendto",
    "recvfrom", "recvmsg", "shutdown", "getsockopt", "getsockname", "socketpair", "pipe", "pipe2", "dup3",
    "eventfd2", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
    "mkdir", "mkdirat", "rmdir",
)  # fmt: skip
# What a template still needs once it has run its scenario's code: to fork a session and confine it further.
_FORKING = (
    *_WORKING, "clone", "set_tid_address", "setitimer", "wait4", "prctl", "seccomp", "capget", "close_range", "chdir",
    "fchdir", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
)  # fmt: skip
ALLOWED: dict[Profile, tuple[str, ...]] = {"verifier": _READING, "scenario": _WORKING, "template": _FORKING}

O_CHANGES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000  # WRONLY RDWR CREAT TRUNC APPEND, and TMPFILE's own bit
PROT_EXEC = 4
AF_UNIX, SOCK_STREAM, SOCK_FLAGS = 1, 1, 0o2000000 | 0o4000  # CLOEXEC and NONBLOCK
FIONREAD, FIONBIO, FIONCLEX, FIOCLEX = 0x541B, 0x5421, 0x5450, 0x5451
# dup, descriptor and status flags, POSIX and OFD locks, DUPFD_CLOEXEC
F_ALLOWED = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)
CLONE_THREAD = 0x10000
CLONE_NEW = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
PR_ALLOWED = (1, 4, 22, 38)  # pdeathsig, dumpable, seccomp, no_new_privs

_LD, _JEQ, _JGE, _JSET, _RET, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


@dataclass(frozen=True)
class _Op:
    code: int
    k: int
    jt: int = 0
    jf: int = 0


def supported() -> bool:
    return platform.machine() in ARCHITECTURES


def number(name: str, machine: str = "") -> int | None:
    column = 0 if (machine or platform.machine()) == "x86_64" else 1
    return NUMBERS[name][column]


@functools.cache
def program(profile: Profile, machine: str = "") -> bytes:
    """Return the BPF program of a profile, ready for seccomp(2); for this machine unless another is named."""
    machine = machine or platform.machine()
    # The architecture first, because the numbers of another one mean other calls.
    ops = [_Op(_LD, 4), _Op(_JEQ, ARCHITECTURES[machine], 1, 0), _Op(_RET, _KILL), _Op(_LD, 0)]
    if machine == "x86_64":
        ops += [_Op(_JGE, 0x40000000, 0, 1), _Op(_RET, _KILL)]  # x32 numbers
    for name in ALLOWED[profile]:
        nr = number(name, machine)
        if nr is not None:
            body = _body(name, profile)
            ops += [_Op(_JEQ, nr, 0, len(body)), *body]
    clone3 = number("clone3", machine)
    if clone3 is not None:
        # glibc falls back to clone(2), whose flags a filter can read.
        ops += [_Op(_JEQ, clone3, 0, 1), _Op(_RET, _ERRNO | errno.ENOSYS)]
    ops.append(_Op(_RET, _ERRNO | errno.EPERM))
    return b"".join(struct.pack("<HBBI", op.code, op.jt, op.jf, op.k) for op in ops)


def _arg(index: int, high: bool = False) -> _Op:
    # In `struct seccomp_data` arguments of 64 bits begin at byte 16, and a filter loads 32 bits at a time.
    return _Op(_LD, 16 + 8 * index + (4 if high else 0))


def _deny(code: int = errno.EPERM) -> _Op:
    return _Op(_RET, _ERRNO | code)


def _body(name: str, profile: Profile) -> list[_Op]:
    """Return the program after a matching number: allow, or check an argument first. Every path ends in a return."""
    allow = _Op(_RET, _ALLOW)
    if name in ("openat", "open") and profile == "verifier":
        # EACCES, so that SQLite falls back to reading only by itself.
        return [_arg(2 if name == "openat" else 1), _Op(_JSET, O_CHANGES, 0, 1), _deny(errno.EACCES), allow]
    if name in ("mmap", "mprotect") and profile == "verifier":
        return [_arg(2), _Op(_JSET, PROT_EXEC, 0, 1), _deny(), allow]
    if name == "fcntl":
        return [_arg(1), *_one_of(F_ALLOWED)]
    if name == "ioctl":
        return [_arg(1), *_one_of((FIONREAD, FIONBIO, FIONCLEX, FIOCLEX))]
    if name == "prctl":
        return [_arg(0), *_one_of(PR_ALLOWED)]
    if name == "socketpair":
        # Streams: what a datagram socket of a pair sends may be addressed to any other socket of the machine.
        kind = [_arg(1), _Op(_AND, 0xFFFFFFFF & ~SOCK_FLAGS), *_one_of((SOCK_STREAM,))]
        return [_arg(0), _Op(_JEQ, AF_UNIX, 1, 0), _deny(), *kind]
    if name == "sendto":
        return [*_null(4), allow]  # to the other end, and to no address
    if name == "prlimit64":
        return [*_null(2), allow]  # reads limits, sets none
    if name == "clone":
        return _fork_only()
    return [allow]


def _one_of(values: tuple[int, ...]) -> list[_Op]:
    ops: list[_Op] = []
    for value in values:
        ops += [_Op(_JEQ, value, 0, 1), _Op(_RET, _ALLOW)]
    return [*ops, _deny()]


def _null(index: int) -> list[_Op]:
    """Deny unless this argument, a pointer, is null in both its halves."""
    return [_arg(index), _Op(_JEQ, 0, 1, 0), _deny(), _arg(index, high=True), _Op(_JEQ, 0, 1, 0), _deny()]


def _fork_only() -> list[_Op]:
    """Allow no namespace and no thread: a fork of a process with threads is unreliable."""
    return [_arg(0), _Op(_JSET, CLONE_NEW | CLONE_THREAD, 0, 1), _deny(), _Op(_RET, _ALLOW)]
