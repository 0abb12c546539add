"""The memory and the processor time that reading a stranger's file can take.

Called around every reading. The limits are those of the process and soft, so that it can store what it has read
afterwards; a parser that ends the process itself has ended a child (`tasks.py`) or a command.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from imports.readers import BadFile

MEMORY_BYTES = 1536 * 1024**2
"""More memory than before. A document of 64 MB with 2,000,000 values takes half of it."""
PROCESSOR_S = 1500
"""Processor time. A file of 2 GB takes a tenth of it."""

_READING = threading.RLock()


@contextmanager
def confined() -> Iterator[None]:
    """Limit this process until the end. Raises `BadFile` if a limit is reached.

    Readings in threads of one process take turns: of two at the same time, the later one to end would leave the limits
    of the other.
    """
    with _READING, ExitStack() as limits:
        limits.enter_context(_lowered(resource.RLIMIT_AS, address_space() + MEMORY_BYTES))
        # Python calls handlers of signals in the main thread alone; elsewhere the signal would end the process.
        if threading.current_thread() is threading.main_thread():
            limits.callback(signal.signal, signal.SIGXCPU, signal.signal(signal.SIGXCPU, _stop))
            used = resource.getrusage(resource.RUSAGE_SELF)
            limits.enter_context(
                _lowered(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + max(PROCESSOR_S, 1))
            )
        try:
            yield
        except MemoryError as error:
            raise BadFile(f"Reading it takes more than {MEMORY_BYTES // 1024**2:,} MB of memory.") from error


@contextmanager
def _lowered(which: int, most: int) -> Iterator[None]:
    """Lower a limit of the process for a while."""
    soft, hard = resource.getrlimit(which)
    tighter = [limit for limit in (soft, hard, most) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(which, (min(tighter), hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


def address_space() -> int:
    """Return the size in bytes of this process's address space, which is what the limit counts."""
    with suppress(FileNotFoundError):  # not on Linux
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise BadFile(f"Reading it takes more than {PROCESSOR_S / 60:g} minutes of processor time.")
