"""The cost of a hostile neighbor to another session of the same server, apart from the cores that it uses.

The session calls a reading tool at fixed times, so that a frozen server cannot hide delayed calls. The same is measured
beside as much processor time used elsewhere as the neighbor and its world took; the difference of the two 95th
percentiles is the neighbor's effect through the server. Called by `bench/environment.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NEIGHBOR = Path(__file__).with_name("neighbor.py")
EVERY_S = 0.02
ROUNDS, ROUND_S = 5, 2.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
BURN = """
import sys, time
share = float(sys.argv[1])
while True:
    ends = time.perf_counter() + 0.02 * share
    while time.perf_counter() < ends:
        pass
    time.sleep(0.02 * (1 - share))
"""


@dataclass
class Waits:
    """The 95th percentile of a call, in milliseconds, by round and condition.

    Also the cores that the neighbor and its world used, and the number of its acts.
    """

    alone: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    acts: int = 0

    @property
    def worse(self) -> float:
        """How much worse it is beside the neighbor than beside the same load elsewhere, in the median round."""
        return statistics.median(beside - control for beside, control in zip(self.beside, self.control, strict=True))


async def measured(
    port: int, kind: str, call: Callable[[], Awaitable[Any]], processes: Callable[[], set[int]]
) -> Waits:
    """Measure rounds of all three conditions in turn, because other work on the machine varies.

    `processes` returns those of the server's sandboxes; the current ones are not the neighbor's.
    """
    waits, resting = Waits(), processes()
    for _ in range(ROUNDS):
        waits.alone.append(await p95(call))
        with neighboring(kind, port) as neighbor:
            meter = Meter(lambda: {neighbor.pid, *(processes() - resting)})  # noqa: B023
            waits.beside.append(await p95(call))
            waits.cores.append(await meter.cores())
            said, _ = await asyncio.to_thread(neighbor.communicate, "end\n", 60)
            waits.acts += json.loads(said.splitlines()[-1])["acts"]
        await asyncio.sleep(1)  # what it left behind is ended
        with burning(waits.cores[-1]):
            waits.control.append(await p95(call))
    return waits


async def p95(call: Callable[[], Awaitable[Any]]) -> float:
    """Return the p95 of milliseconds from the due time of each call; a stalled server cannot hide delayed ones."""
    times: list[float] = []
    started = time.perf_counter()
    for number in range(int(ROUND_S / EVERY_S)):
        due = started + number * EVERY_S
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await call()
        times.append((time.perf_counter() - due) * 1000)
        if time.perf_counter() - started > 10 * ROUND_S:
            break
    return statistics.quantiles(times, n=20)[-1]


class Meter:
    """Processor time of a changing set of processes, sampled ten times a second."""

    def __init__(self, processes: Callable[[], set[int]]) -> None:
        self._processes = processes
        self._started = time.perf_counter()
        self._first = {pid: seconds(pid) for pid in processes()}
        self._last = dict(self._first)
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            self._last |= {pid: seconds(pid) for pid in self._processes()}
            await asyncio.sleep(0.1)

    async def cores(self) -> float:
        """Return how many cores they used since the start."""
        self._task.cancel()
        self._last |= {pid: seconds(pid) for pid in self._processes()}
        spent = sum(after - self._first.get(pid, 0.0) for pid, after in self._last.items())
        return max(0.0, spent) / (time.perf_counter() - self._started)


def seconds(pid: int) -> float:
    """Return processor time of one process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S


@contextlib.contextmanager
def neighboring(kind: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run a neighbor during the block."""
    process = subprocess.Popen([sys.executable, str(NEIGHBOR), kind, str(port)], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "up\n":
            raise SystemExit(f"the neighbor {kind} did not start")
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def burning(cores: float) -> Iterator[None]:
    """Use as much processor time in processes that have nothing to do with the server."""
    shares = [1.0] * int(cores) + [cores % 1]
    processes = [subprocess.Popen([sys.executable, "-c", BURN, str(share)]) for share in shares]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
