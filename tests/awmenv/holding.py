"""The environment server, noting for how long anything has held its event loop. Started by `test_holding`.

Processor time, because on a busy machine the time of day says nothing about the server. SIGUSR1 has it print the
longest since the last time, in milliseconds.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from awmenv.server import __main__ as server

longest = 0.0
culprit = ""
run, config = asyncio.events.Handle._run, server._config


def noted(handle: asyncio.events.Handle) -> Any:
    global longest, culprit
    where, started = inner(handle), time.thread_time()
    try:
        return run(handle)
    finally:
        held = time.thread_time() - started
        if held > longest:
            longest, culprit = held, where


def inner(handle: asyncio.events.Handle) -> str:
    """Where a task waits, or what else is called."""
    task = getattr(handle._callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(handle._callback)
    waiting: Any = task.get_coro()
    while (deeper := getattr(waiting, "cr_await", None)) is not None:
        waiting = deeper
    return repr(waiting)


def plain_loop(*arguments: Any) -> Any:
    """The standard library's, whose callbacks can be looked at."""
    made = config(*arguments)
    made.loop = "asyncio"
    return made


def tell(*_: Any) -> None:
    global longest
    print(f"held {longest * 1000:.1f} {culprit}", flush=True)
    longest = 0.0


if __name__ == "__main__":
    asyncio.events.Handle._run = noted
    server._config = plain_loop
    signal.signal(signal.SIGUSR1, tell)
    sys.exit(server.main())
