"""The process in which traces are read: a child of the worker, kept while traces come, with limits of time and memory.

What it reads is a stranger's, and a reader can have a fault that no test found: without a process of its own it would
hold the interpreter of the worker, which sweeps, notifies and answers for all projects. It has no connection to the
database; the worker stores what it returns. Owns its start, its limits and its end. Leaves reading to
`readers/settled.py`. `serve` is what runs in the child (`manage.py read_traces`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

from django.conf import settings

from awmclient.nouns.pictures import PICTURE_BYTES
from episodes.stored.decoding import DecodedPicture, decoded
from imports.confining import address_space
from imports.readers import settled
from imports.readers.settled import Settled, Unsettled, WaitingTrace
from people.errors import Invalid
from people.text.in_words import bytes_in_words

CPU_S = 60
"""Processor time for one trace. The largest ones that are taken need 5 to 8 s."""
MOST_S = 600.0
"""Time after which a child is ended that gets no processor either."""
MEMORY_BYTES = 1_000_000_000
"""Memory beyond that of a child that has read nothing."""
IDLE_S = 60.0
"""Silence after which a child ends: it keeps 100 MB."""
END_S = 10.0
"""Time that a child has to end once nothing can be sent to it."""
TRIES = 2
"""Children that one trace can end by anything but its limits, such as a kill by the system."""
TRACE_PICTURES = 200
"""Different pictures of one trace: a child is started for each, and other traces wait."""
OVER_TIME = "Its reading took more than {} s of processor time, and was stopped."
OVER_MEMORY = "Its reading took more than {} of memory, and was stopped."


class TraceReader:
    """Reads traces one by one in a child process, which starts with the first one."""

    def __init__(self, cpu_s: int = CPU_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self._limits = cpu_s, memory_bytes
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def read(self, trace: WaitingTrace) -> Settled:
        """Return what is stored of a trace, or why it is no episode."""
        with self._turn:
            code = 0
            for _ in range(TRIES):
                child = self._running()
                with contextlib.suppress(OSError, ValueError, EOFError):
                    return _asked(child, trace)
                code = self._ended(child)
                if code == -signal.SIGXCPU:
                    why = OVER_TIME.format(self._limits[0])
                    return Unsettled(why, why)
            why = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            reason = f"Stopped after {TRIES} attempts: the process that reads it keeps failing ({why})."
            return Unsettled(reason, reason)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self._ended(self._child)
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, str(settings.BASE_DIR / "manage.py"), "read_traces", *map(str, self._limits)],
                cwd=settings.BASE_DIR,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # A group of its own: what ends the worker from a terminal must not look like the doing of a trace.
                process_group=0,
            )
        return self._child

    def _ended(self, child: subprocess.Popen[bytes]) -> int:
        """Let go of a child that has ended, or can no longer be understood."""
        self._child = None
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        try:
            return child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


def _asked(child: subprocess.Popen[bytes], trace: WaitingTrace) -> Settled:
    """Send a trace, and return the answer. Raises `OSError` or `ValueError` if the child ends instead."""
    assert child.stdin is not None and child.stdout is not None
    late = threading.Timer(MOST_S, child.kill)
    late.start()
    try:
        # one that has no memory for the trace answers before it has all of it
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(settled.as_bytes(trace))
            child.stdin.flush()
        answer: Settled = _taken(child.stdout)
        return answer
    finally:
        late.cancel()


def _taken(pipe: IO[bytes]) -> Any:
    head = json.loads(pipe.readline())
    rest = pipe.read(head["bytes"])
    if len(rest) < head["bytes"]:
        raise EOFError
    return settled.of_head(head, rest)


READER = TraceReader()


class PicturesOfTrace:
    """Reads the pictures of one trace, each once. In the child."""

    def __init__(self) -> None:
        self.sent: dict[str, DecodedPicture] = {}
        self._parts: dict[bytes, dict[str, Any] | None] = {}
        """What each picture has become, by the digest of its bytes in the spans."""

    def part_of(self, data: bytes) -> dict[str, Any] | None:
        source = hashlib.sha256(data).digest()
        if source not in self._parts:
            if len(data) > PICTURE_BYTES or len(self._parts) >= TRACE_PICTURES:
                return None
            self._parts[source] = self._decoded(data)
        return self._parts[source]

    def named(self, digest: str) -> dict[str, Any] | None:
        """Return none: spans name no pictures of the project."""
        return None

    def _decoded(self, data: bytes) -> dict[str, Any] | None:
        try:
            picture = decoded(data, "")
        except Invalid:
            return None
        part = picture.part
        self.sent[part["blob"]] = picture
        return part


def serve(asked: IO[bytes], answers: IO[bytes], cpu_s: int, memory_bytes: int) -> None:
    """Read traces until no more come, or the worker has ended. In the child."""
    _limit_memory(memory_bytes)
    while select.select([asked], [], [], IDLE_S)[0] and asked.peek(1):  # type: ignore[attr-defined]
        _limit_time(cpu_s)
        try:
            answer = settled.as_bytes(settled.settled(_taken(asked), PicturesOfTrace()))
        except MemoryError:
            # what is half made stays in its frames: this process ends, and the next one begins with nothing
            why = OVER_MEMORY.format(bytes_in_words(memory_bytes))
            answers.write(settled.as_bytes(Unsettled(why, why)))
            answers.flush()
            return
        answers.write(answer)
        answers.flush()


def _limit_memory(more: int) -> None:
    """Limit the memory of this process to what it has and `more`. Other systems than Linux do not count it so."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + more, hard))


def _limit_time(seconds: int) -> None:
    """Let the kernel end this process after so much processor time from now on."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, hard))
