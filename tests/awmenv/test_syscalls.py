"""The seccomp programs of both architectures, run by an interpreter of the kernel's assembler: what each call gets."""

import errno
import re
import struct
from pathlib import Path
from typing import get_args

import pytest

from awmenv.server.sandbox.syscalls import (
    ALLOWED,
    ARCHITECTURES,
    NUMBERS,
    Profile,
    number,
    program,
)

pytestmark = pytest.mark.attack("system calls")

ALLOW, KILL, EPERM, EACCES, ENOSYS = "allow", "kill", errno.EPERM, errno.EACCES, errno.ENOSYS
STREAM, DGRAM, SEQPACKET, NONBLOCK, CLOEXEC = 1, 2, 5, 0o4000, 0o2000000
POINTER, HIGH = 0x7FFF_1234_5678, 1 << 32  # an address; one whose lower half is null
FORK, THREAD = 0x1200011, 0x3D0F00  # what glibc asks of clone for fork() and for a thread
WRITE, CREATE = 0o1, 0o100

# (call, its arguments, what verifiers, templates and sessions get)
DECISIONS = [
    ("socketpair", (1, STREAM, 0), (EPERM, ALLOW, ALLOW)),
    ("socketpair", (1, STREAM | NONBLOCK | CLOEXEC, 0), (EPERM, ALLOW, ALLOW)),
    ("socketpair", (1, DGRAM, 0), (EPERM, EPERM, EPERM)),
    ("socketpair", (1, DGRAM | CLOEXEC, 0), (EPERM, EPERM, EPERM)),
    ("socketpair", (1, SEQPACKET | NONBLOCK, 0), (EPERM, EPERM, EPERM)),
    ("socketpair", (1, STREAM | 1 << 8, 0), (EPERM, EPERM, EPERM)),
    ("socketpair", (2, STREAM, 0), (EPERM, EPERM, EPERM)),
    ("sendto", (3, POINTER, 9, 0, 0, 0), (EPERM, ALLOW, ALLOW)),
    ("sendto", (3, POINTER, 9, 0, POINTER, 16), (EPERM, EPERM, EPERM)),
    ("sendto", (3, POINTER, 9, 0, HIGH, 16), (EPERM, EPERM, EPERM)),
    ("sendmsg", (3, POINTER, 0), (EPERM, EPERM, EPERM)),
    ("clone", (FORK,), (EPERM, ALLOW, EPERM)),
    ("clone", (THREAD,), (EPERM, EPERM, EPERM)),
    ("clone", (FORK | 0x10000000,), (EPERM, EPERM, EPERM)),
    ("clone3", (POINTER, 88), (ENOSYS, ENOSYS, ENOSYS)),
    ("openat", (-100, POINTER, 0), (ALLOW, ALLOW, ALLOW)),
    ("openat", (-100, POINTER, WRITE | CREATE), (EACCES, ALLOW, ALLOW)),
    ("mmap", (0, 4096, 4), (EPERM, ALLOW, ALLOW)),
    ("prlimit64", (0, 7, 0, POINTER), (ALLOW, ALLOW, ALLOW)),
    ("prlimit64", (0, 7, POINTER, 0), (EPERM, EPERM, EPERM)),
    ("prlimit64", (0, 7, HIGH, 0), (EPERM, EPERM, EPERM)),
    ("fcntl", (3, 8, 1), (EPERM, EPERM, EPERM)),  # F_SETOWN: signals to others
    ("ioctl", (3, 0x5412), (EPERM, EPERM, EPERM)),  # TIOCSTI: keys typed into a terminal
    ("prctl", (4, 0), (EPERM, ALLOW, EPERM)),
    ("seccomp", (1, 0, POINTER), (EPERM, ALLOW, EPERM)),
    ("read", (3, POINTER, 9), (ALLOW, ALLOW, ALLOW)),
]


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


def run(code: bytes, nr: int, arch: int, arguments: tuple[int, ...]) -> str | int:
    """What the kernel would do: the filter's instructions over `struct seccomp_data`."""
    padded = [value % (1 << 64) for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", nr, arch, 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", code))
    at, accumulator = 0, 0
    while True:
        kind, jump_true, jump_false, k = steps[at]
        at += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif kind == 0x54:
            accumulator &= k
        elif kind == 0x06:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(k, k & 0xFFFF)
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[kind]
            at += jump_true if holds else jump_false


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "wanted"), DECISIONS, ids=lambda value: str(value))
def test_call_gets_what_the_profile_says(
    machine: str, name: str, arguments: tuple[int, ...], wanted: tuple[str | int, ...]
) -> None:
    nr = number(name, machine)
    assert nr is not None
    profiles: list[Profile] = ["verifier", "template", "scenario"]
    found = [run(program(profile, machine), nr, ARCHITECTURES[machine], arguments) for profile in profiles]
    assert found == list(wanted)


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("profile", get_args(Profile))
def test_call_without_a_rule_is_refused(machine: str, profile: Profile) -> None:
    allowed = {number(name, machine) for name in (*ALLOWED[profile], "clone3")}
    code, arch = program(profile, machine), ARCHITECTURES[machine]
    answers = {nr: run(code, nr, arch, ()) for nr in range(500) if nr not in allowed}
    assert set(answers.values()) == {EPERM} and len(answers) > 300
    others = {number(name, machine) for name in NUMBERS if name not in {*ALLOWED[profile], "clone3"}}
    assert not allowed & others - {None}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_call_of_a_foreign_architecture_ends_the_process(machine: str) -> None:
    foreign = next(number for name, number in ARCHITECTURES.items() if name != machine)
    assert run(program("scenario", machine), 0, foreign, ()) == KILL
    if machine == "x86_64":
        assert run(program("scenario", machine), 0x40000000, ARCHITECTURES[machine], ()) == KILL


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    """aarch64 numbers its calls as the generic table does, where some names differ."""
    if not Path(HEADERS[machine]).exists():
        pytest.skip("the headers of the kernel are not installed")
    text = Path(HEADERS[machine]).read_text()
    theirs = {name: int(nr) for name, nr in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", text)}
    theirs.setdefault("newfstatat", theirs.get("fstatat", -1))
    assert {name: number(name, machine) for name in NUMBERS} == {name: theirs.get(name) for name in NUMBERS}
