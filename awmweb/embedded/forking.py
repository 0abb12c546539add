"""Start the product's Python processes as copies of one that has imported the product, on Linux.

Each of web, workers, beat and `prepare` imports the same modules for more than a second and keeps them in its own
memory. A fork shares both. The fork server lives only while the product starts; what restarts later imports again, as
on other systems. The environment server is never forked: it gets none of the product's settings.

Called by `supervisor`. `python -m awmweb.embedded.forking MODULE FD` is the other end.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypedDict

from awmweb.embedded.gate import StartGate
from awmweb.embedded.processes import PR_SET_PDEATHSIG, ChildProcess, Spec

PR_SET_CHILD_SUBREAPER = 36
REPLY_S = 60.0
"""How long the fork server can take for an answer, its imports included."""
GO = b"1"


def is_possible() -> bool:
    """Return whether processes can be forked here and still be the children of this one."""
    return sys.platform.startswith("linux")


class ForkRequest(TypedDict):
    """What the fork server is asked for; the files come beside it."""

    command: list[str]
    environment: dict[str, str]
    orphan_signal: int
    parent: int
    inherited: list[int]
    """The numbers under which it has the last files."""


class ForkedProcess:
    """A process that another one has forked for us, with what `ChildProcess` uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises `subprocess.TimeoutExpired`."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired("forked", timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkServer:
    """The process that has imported a module and forks. This one becomes a subreaper, so that they are its children."""

    def __init__(self, module: str, base: Path, environment: Mapping[str, str], log: Path) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._environment = dict(environment)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(REPLY_S)
        spec = Spec(
            "forking",
            [sys.executable, "-m", "awmweb.embedded.forking", module, str(theirs.fileno())],
            log,
            base,
            environment,
        )
        self._process = ChildProcess.start(spec, pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, spec: Spec, gate: StartGate | None = None, output: int | None = None) -> ChildProcess | None:
        """Fork a process that runs the command of `spec`; None if the fork server has ended or does not answer.

        None also for a process with settings of its own: a fork has those that were read at the import.

        After a late answer it is asked no more, and a process that it forked without our word never runs: the caller
        starts one itself. It appends to its log, unless `output` is the file of its standard output; then its errors go
        where ours do.
        """
        if dict(spec.environment) != self._environment:
            return None
        with spec.log.open("ab") as log:
            files = [log.fileno(), log.fileno()] if output is None else [output, sys.stderr.fileno()]
            handles = [*files, *([gate.inner] if gate else []), *spec.handles]
            request = ForkRequest(
                command=list(spec.command[1:]),
                environment=dict(spec.environment),
                orphan_signal=spec.orphan_signal,
                parent=os.getpid(),
                inherited=list(spec.handles),
            )
            try:
                socket.send_fds(self._line, [json.dumps(request).encode()], handles)
                answer = self._line.recv(64)
                if answer:
                    self._line.send(GO)
            except OSError:
                self._line.close()  # a later request would read the answer to this one
                return None
        return ChildProcess(spec, ForkedProcess(int(answer))) if answer else None

    def close(self) -> None:
        """End it; the processes that it forked stay."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.process.wait(5.0)  # it ends by itself, once it has released what it forked last
        self._process.stop(5.0)


def reap_orphans(ours: Collection[int]) -> None:
    """Take the exits of processes that lost their parent and became our children. Those of `ours` are left alone."""
    while is_possible():
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in ours:
            return
        os.waitpid(ended.si_pid, 0)


# --- the process that forks ------------------------------------------------------------------------------------------


def _serve(line: socket.socket) -> ForkRequest | None:
    """Fork for each message until the line closes. Returns the message in each forked process, and None at the end."""
    while True:
        text, handles, _, _ = socket.recv_fds(line, 1 << 20, 8)
        if not text:
            return None
        request: ForkRequest = json.loads(text)
        news, teller = os.pipe()
        go, release = os.pipe()
        between = os.fork()
        if between == 0:
            if child := os.fork():
                os.setpgid(child, child)  # before the answer: what is left of our group is killed in the end
                os.write(teller, str(child).encode())
                os._exit(0)  # so that the supervisor, the nearest subreaper, is the parent of the child
            for handle in (news, teller, release, line.detach()):
                os.close(handle)
            # Its parent has ended for good only now: the kernel would send the signal of `_become` for that end, too.
            if not os.read(go, 1):
                os._exit(0)  # the supervisor gave up, and starts another in its place
            os.close(go)
            _become(request, handles)
            return request
        os.waitpid(between, 0)
        try:
            line.send(os.read(news, 32))  # not before the end in between: until then it is no child of the supervisor
            is_wanted = line.recv(1) == GO
        except OSError:
            is_wanted = False
        if not is_wanted:
            return None  # ends this process, and so closes the pipe that the child reads
        os.write(release, GO)
        for handle in (news, teller, go, release, *handles):
            os.close(handle)


def _become(request: ForkRequest, handles: list[int]) -> None:
    """Take files, environment and parent of the process that this one is to be."""
    first_inherited = len(handles) - len(request["inherited"])
    output, errors, *gate = handles[:first_inherited]
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
        os.close(source)
    for source, target in zip(handles[first_inherited:], request["inherited"], strict=True):
        os.dup2(source, target, inheritable=False)  # no program is started in this place
        os.close(source)
    os.environ.clear()
    os.environ.update(request["environment"])
    if gate:
        os.environ |= StartGate.environment_of(gate[0])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, request["orphan_signal"])
    if os.getppid() != request["parent"]:  # it ended before prctl took effect
        os.kill(os.getpid(), signal.SIGKILL)


def _run(command: Sequence[str], entitle: Callable[[str], object] | None) -> NoReturn:
    """Run `-m MODULE ARGUMENTS` or `FILE ARGUMENTS` as the interpreter would."""
    if entitle:
        entitle(shlex.join([sys.executable, *command]))  # what `ps` shows
    if command[0] == "-m":
        sys.argv = list(command[1:])
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")
    sys.exit(0)


def main() -> None:
    """Import a module, which can name processes (`entitle`), then fork until the supervisor closes the line."""
    module, end = sys.argv[1:]
    line = socket.socket(fileno=int(end))
    gc.disable()  # a collection would write to pages that are to be shared
    loaded = importlib.import_module(module)
    gc.freeze()
    request = _serve(line)
    if request is None:
        os._exit(0)  # skips the end of the interpreter: the supervisor waits
    gc.enable()
    _run(request["command"], getattr(loaded, "entitle", None))


if __name__ == "__main__":
    main()
