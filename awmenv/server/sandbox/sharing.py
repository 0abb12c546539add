"""Lets forked processes share memory: objects that every call uses are adjacent, without gaps between old objects.

A fork copies a page at the first write to anything on it, and in CPython to use an object is to write to it: its
reference count. Owns both measures. Called by `zygote`, `rehearsal` and `host`, in processes that are about to fork.
"""

import contextlib
import ctypes
import gc
import sys
from collections import Counter
from collections.abc import Callable
from itertools import repeat
from types import CodeType, FrameType, FunctionType
from typing import Any

POOL = 16_384  # where CPython keeps small objects of one size
MOST_PER_SIZE = 4 << 20
EMPTY = sys.getsizeof(b"")
SMALL = range(32, 513, 16)
LARGE = (*range(65_536, 4096, -4096), *range(4096, 512, -256), *range(512, 16, -16))

_ballast: list[list[object]] = []


def fill_gaps() -> None:
    """Fill the gaps between old objects before the first fork, so that new objects of a child share new pages.

    Also excludes the old objects from garbage collection.
    """
    gc.collect()
    for size in SMALL:
        _ballast.append(_fill_pools(size))
    _fill_heap()
    gc.freeze()


def _fill_pools(size: int) -> list[object]:
    """Create objects of one size until they fill a whole pool: then the gaps between older ones are full."""
    made: list[object] = []
    in_a_pool, number = (POOL - 64) // size - 1, 1.0  # the list below may take a place itself
    while len(made) * size < MOST_PER_SIZE:
        # Nothing else may be made meanwhile, numbers included: they are of the smallest size.
        some = [-number if size == SMALL.start else bytes(size - EMPTY) for _ in repeat(None, 2 * in_a_pool)]
        made += some
        if max(Counter(id(item) // POOL for item in some).values()) >= in_a_pool:
            break
    return made


class _HeapReport(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(9)] + [("keepcost", ctypes.c_size_t)]


def _fill_heap() -> None:
    """Fill the gaps of malloc the same way.

    Only glibc reports where its unused part starts; elsewhere the gaps remain.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):
        libc.mallinfo2.restype = _HeapReport
        for function in (libc.malloc, libc.sbrk):
            function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.malloc_trim(ctypes.c_size_t(0))
        end_of_used = (libc.sbrk(0) or 0) - libc.mallinfo2().keepcost
        for size in LARGE:
            # malloc keeps eight bytes of its own before each block.
            while (block := libc.malloc(size - 8)) and block < end_of_used:
                pass  # held for good


def lay_together(play: Callable[[], object]) -> None:
    """Give every function that `play` runs a fresh copy of its code, next to each other.

    Original code is where its module was imported, between code that is never called.
    """
    used: set[int] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            used.add(id(frame.f_code))

    sys.setprofile(note)
    try:
        play()
    finally:
        sys.setprofile(None)
    # `gc.get_objects` does not list frozen objects.
    gc.unfreeze()
    functions = [item for item in gc.get_objects() if type(item) is FunctionType and id(item.__code__) in used]
    copies: dict[int, CodeType] = {}
    for function in functions:
        copies.setdefault(id(function.__code__), _copy(function.__code__))
    for function in functions:
        function.__code__ = copies[id(function.__code__)]


def _copy(code: CodeType) -> CodeType:
    """Return a copy of code with the code that is defined inside it."""
    return code.replace(co_consts=tuple(_copy(item) if isinstance(item, CodeType) else item for item in code.co_consts))
