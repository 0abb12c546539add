"""One child process: it cannot outlive its parent, its log stays small, and a later start can identify it.

Owns only the processes it started. Leaves to `supervisor` which ones exist and when they restart. Called by `postgres`,
`valkey` and `supervisor`.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypedDict

from awmweb.embedded.gate import StartGate
from awmweb.embedded.paths import Account

LOG_LIMIT = 10_000_000  # bytes; one older file of the same size is kept
PR_SET_PDEATHSIG = 1


@dataclass
class Spec:
    """What to run and how to stop it."""

    name: str
    command: Sequence[str]
    log: Path
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    stop_signal: int = signal.SIGTERM
    orphan_signal: int = signal.SIGKILL  # sent by the kernel if the parent ends first
    handles: tuple[int, ...] = ()  # open files that it gets under the same numbers


class Handle(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int
    returncode: Any

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


class ChildProcess:
    """A running child process with its own process group."""

    def __init__(self, spec: Spec, process: Handle) -> None:
        self.spec = spec
        self.started = time.monotonic()
        self.process = process
        self.birth = birth(process.pid)

    @classmethod
    def start(
        cls, spec: Spec, gate: StartGate | None = None, pass_fds: Sequence[int] = (), output: int | None = None
    ) -> Self:
        """Start the command of `spec`. It appends to its log, unless `output` is the file of its standard output; then
        its errors go where ours do."""
        spec.log.parent.mkdir(mode=0o700, exist_ok=True)
        with spec.log.open("ab") as log:
            process = subprocess.Popen(
                spec.command,
                cwd=spec.cwd,
                env={**spec.environment, **(gate.environment if gate else {})},
                pass_fds=[*pass_fds, *spec.handles, *([gate.inner] if gate else [])],
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=subprocess.STDOUT if output is None else None,
                # Ctrl-C in the terminal reaches the supervisor alone, which stops its children in order.
                process_group=0,
                # The pid is read here, in the parent: `before_exec` runs in the child.
                preexec_fn=_die_with(os.getpid(), spec.orphan_signal),
                **identity(spec.account),
            )
        return cls(spec, process)

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, as a debugger or `kill -STOP` does."""
        if not self.running:
            return False
        try:
            # it stays to be waited for, so that a later look has the same answer
            stop = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return stop is not None

    def send(self, number: int) -> None:
        """Send a signal to the process alone."""
        if self.running:
            self.process.send_signal(number)

    def kill_group(self) -> None:
        """End whatever is left of its process group."""
        kill_group(self.process.pid)

    def stop(self, patience: float) -> None:
        """Send the stop signal, and kill the process after this many seconds."""
        self.send(self.spec.stop_signal)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.process.wait()
        self.kill_group()


class Identity(TypedDict, total=False):
    """Arguments of subprocess that switch to another account."""

    user: int
    group: int
    extra_groups: list[int]


def identity(who: Account | None) -> Identity:
    """Return the subprocess arguments that switch to this account; empty if it is the current one."""
    return Identity(user=who.uid, group=who.gid, extra_groups=[]) if who else Identity()


def kill_group(group: int) -> None:
    """Kill a process group; one that has ended already is fine."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # macOS answers this for a group of zombies


def birth(pid: int) -> str:
    """Return a value that distinguishes a process from a later one with the same pid; empty once it has ended."""
    try:
        # A name can have spaces and brackets; the fields follow the last one. The 20th is the start time since boot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A zombie has ended: its parent just has not asked yet.
        return "" if fields[0] in "ZX" else fields[19]
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return ""
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def pids_of(children: Sequence[ChildProcess]) -> str:
    """Return the running pids as a start after an unclean stop reads them (`end_leftovers`)."""
    return json.dumps({child.spec.name: [child.process.pid, child.birth] for child in children})


def end_leftovers(file: Path, keep: Callable[[str], bool]) -> list[str]:
    """Kill what an earlier run left and return the names.

    The ones to `keep` are left to their own recovery.
    """
    try:
        processes = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return []
    ended = []
    for name, (pid, born) in processes.items():
        if born and birth(pid) == born and not keep(name):
            kill_group(pid)
            wait_until_ended(pid, born, 5)
            ended.append(name)
    file.unlink()
    return ended


def wait_until_ended(pid: int, born: str, patience: float) -> bool:
    """Wait for a process that is not our child to end."""
    end = time.monotonic() + patience
    while born and birth(pid) == born:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def rotate(log: Path) -> None:
    """Keep a log small. The child keeps appending to the same file, so it is copied and truncated."""
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        older = log.with_name(log.name + ".1")
        try:
            with log.open("rb") as source, older.open("wb") as target:
                while block := source.read(1 << 20):
                    target.write(block)
        except OSError:
            older.unlink(missing_ok=True)  # no space for both: the newer one stays
            return
        os.truncate(log, 0)


def last_lines(log: Path, count: int = 12) -> list[str]:
    """Return the end of a log, for the terminal."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def end_with(parent: int, number: int) -> None:
    """Let the kernel send this process a signal once `parent`, which started it, has ended."""
    if before := _die_with(parent, number):
        before()


def _die_with(parent: int, number: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None  # elsewhere the next start ends the leftovers
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent ended before prctl took effect
            os.kill(os.getpid(), signal.SIGKILL)

    return before_exec
