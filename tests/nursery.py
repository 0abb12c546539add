"""Zygotes of scenarios without an interpreter for each: forks of a process that has started as one does, and waits.

A zygote imports the libraries of apps and plays a round of calls, which takes more than a second of processor time, for
each server and each check of a pack. Here one process has done so, with the interpreter, flags and environment of
`launching`, and forks where a server that `Warm.start` gave it to would start one. Such a zygote is no child of its
server: a test that looks at processes has its server start zygotes as ever.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
_lines: list[socket.socket] = []


class Zygote:
    """A forked zygote, with what `launching` uses of `subprocess.Popen`."""

    def __init__(self, pid: int, errors: int) -> None:
        self.pid, self.ended = pid, os.pidfd_open(pid)
        self.stderr = open(errors, "rb")  # noqa: SIM115  `launching` closes it

    def poll(self) -> int | None:
        return 0 if select.select([self.ended], [], [], 0)[0] else None

    def wait(self) -> None:
        select.select([self.ended], [], [])

    def kill(self) -> None:
        signal.pidfd_send_signal(self.ended, signal.SIGKILL)


def line() -> int:
    """Return the socket of this process's nursery, which the first call starts and the end of this process ends."""
    if not _lines:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-B", str(Path(__file__).resolve()), str(its.fileno())],
                cwd="/", stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], env={"PYTHONHASHSEED": "0"},
            )  # fmt: skip
        atexit.register(lambda: (process.kill(), process.wait()))
        _lines.append(ours)
    return _lines[0].fileno()


def take_from(nursery: int) -> None:
    """Let `launching` in this process ask the nursery behind a socket for zygotes of scenarios."""
    from awmenv.server.sandbox import launching

    ours = socket.socket(fileno=nursery)

    def started(command: list[str], **how: Any) -> Any:
        config = command[-1]
        if json.loads(config)["kind"] != "scenario":
            return subprocess.Popen(command, **how)
        read, write = os.pipe()
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with near:
            with far:
                socket.send_fds(ours, [config.encode()], [far.fileno(), *how["pass_fds"], write])
            os.close(write)
            return Zygote(int(near.recv(32)), read)

    launching.subprocess = SimpleNamespace(Popen=started, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE)


def _become(config: str, control: int, errors: int) -> NoReturn:
    """Be the zygote of this configuration, in a fork, with the files that `launching` gives one."""
    from awmenv.server.sandbox import zygote

    os.setsid()
    fd = json.loads(config)["fd"]
    os.dup2(errors, 2)
    os.dup2(fcntl.fcntl(control, fcntl.F_DUPFD, fd + 1), fd)
    for low, high in ((3, fd), (fd + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(low, high)
    sys.argv = ["-c", config]
    zygote.main()
    os._exit(0)


def main() -> None:
    """Do what a zygote of scenarios does before its first fork, then fork for each request until the tests end."""
    line = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:0] = [str(ROOT)]
    from awmenv.server.sandbox import zygote  # noqa: F401  each fork runs it
    from awmenv.server.world import host

    host.preload_libraries()
    from awmenv.server.world import rehearsal

    with tempfile.TemporaryDirectory() as folder:
        rehearsal.play(folder)
    host.preload_libraries = lambda: None
    rehearsal.play = lambda folder: None
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    while True:
        config, files, _, _ = socket.recv_fds(line, 1 << 16, 3)
        if not config:
            return
        asked, control, errors = files
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                """Their servers have seen their ends."""
        pid = os.fork()
        if pid == 0:
            _become(config.decode(), control, errors)
        with socket.socket(fileno=asked) as requester:
            requester.send(str(pid).encode())
        os.close(control)
        os.close(errors)


if __name__ == "__main__":
    main()
