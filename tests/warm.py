"""Servers of tests without a new interpreter for each: one process imports their modules, and forks for each start.

Only for the server's own interpreter: whatever the server starts is started as ever. A fork's variables are not in its
`/proc/PID/environ`, so a test that looks for them there starts an interpreter.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

ROOT = Path(__file__).resolve().parent.parent
CAN_FORK = hasattr(os, "pidfd_open")


class Warm:
    """A process that has imported a program and libraries, loaded with the first start and ended with this one."""

    def __init__(self, program: str, *libraries: str) -> None:
        self.program, self.libraries, self.turn = program, libraries, threading.Lock()
        self.line: socket.socket | None = None

    def start(self, *arguments: str, environment: Mapping[str, str], nursery: Sequence[int] = ()) -> Fork:
        """Do what `python -m PROGRAM ARGUMENTS` does, with stdout and stderr in one pipe. If the socket of a
        nursery is given, its zygotes come from there.
        """
        read, write = os.pipe()
        try:
            # as an interpreter of its own would, it has this process's limit of open files
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)
            pid = self.ask({"arguments": arguments, "environment": dict(environment), "limit": limit}, write, *nursery)
        finally:
            os.close(write)
        return Fork(self, int(pid), read)

    def ask(self, question: Any, *files: int) -> Any:
        with self.turn:
            line = self.line = self.line or self._load()
            socket.send_fds(line, [json.dumps(question).encode()], files)
            answer = line.recv(1 << 16)
        assert answer, f"the process that has imported {self.program} ended"
        return json.loads(answer)

    def _load(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), str(its.fileno()), self.program, *self.libraries],
                cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], env={"PATH": os.environ["PATH"]},
            )  # fmt: skip
        atexit.register(lambda: (ours.close(), process.wait()))
        return ours


class Fork:
    """One started program, with what tests use of `subprocess.Popen`."""

    def __init__(self, warm: Warm, pid: int, said: int) -> None:
        self.warm, self.pid = warm, pid
        self.stdout = open(said, encoding="utf-8", errors="replace")  # noqa: SIM115  its reader closes it
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stdout.close()
        self.wait()

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.warm.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            ending = os.pidfd_open(self.pid)
            try:
                select.select([ending], [], [], timeout)
            finally:
                os.close(ending)
        if self.poll() is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.warm.program, timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        self.send_signal(9)


def _run(
    program: str, said: int, *nursery: int, arguments: Sequence[str], environment: Mapping[str, str], limit: Any
) -> NoReturn:
    """Become the program, in a fork, and end as it does."""
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(limit))
    for number in (1, 2):
        os.dup2(said, number)
    os.close(said)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # so that its lines and errors are in order
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    for line in nursery:
        import_module("tests.nursery").take_from(line)
    runpy.run_module(program, run_name="__main__", alter_sys=True)
    sys.exit(0)


def main() -> None:
    """Fork for each start until the tests end."""
    line, program, libraries = socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:]
    sys.path[0] = str(ROOT)
    for library in libraries:
        import_module(library)
    name = f"{program}.__main__" if hasattr(import_module(program), "__path__") else program
    import_module(name)
    del sys.modules[name]  # each fork runs it
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(line, 1 << 20, 2)
        if not text:
            return
        question, answer = json.loads(text), None
        if "ended" in question:
            pid, status = os.waitpid(question["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            line.close()
            _run(program, *files, **question)
        for file in files:
            os.close(file)
        line.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
