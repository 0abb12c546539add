"""A large body is read beside the event loop, one of a sender at a time; a small one where it is."""

from __future__ import annotations

import asyncio
import threading

import pytest

from people.errors import Busy
from people.requests import aside
from people.requests.aside import SMALL_BYTES, read_aside

LARGE = b"x" * (SMALL_BYTES + 1)


def thread_of(raw):
    return threading.current_thread()


async def test_small_body_is_read_where_it_is():
    assert await read_aside(b"x" * SMALL_BYTES, thread_of, "token:a") is threading.current_thread()


async def test_large_body_is_read_in_a_thread():
    assert await read_aside(LARGE, thread_of, "token:a") is not threading.current_thread()


async def test_sender_with_many_large_bodies_leaves_threads_to_others():
    """As many bodies as the pool has threads: the reader of another sender begins all the same."""
    begun, free = threading.Event(), threading.Event()

    def held(raw):
        begun.set()
        assert free.wait(30)

    many = [asyncio.create_task(read_aside(LARGE, held, "token:a")) for _ in range(64)]
    await asyncio.to_thread(begun.wait, 30)
    async with asyncio.timeout(30):
        assert await read_aside(LARGE, len, "token:b") == len(LARGE)
    free.set()
    await asyncio.gather(*many)


async def test_body_whose_turn_does_not_come_is_refused(monkeypatch):
    monkeypatch.setattr(aside, "WAIT_S", 0.01)
    free = threading.Event()
    first = asyncio.create_task(read_aside(LARGE, lambda raw: free.wait(30), "token:a"))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await read_aside(LARGE, len, "token:a")
    free.set()
    assert await first


async def test_refusal_of_a_reader_reaches_its_caller():
    with pytest.raises(ZeroDivisionError):
        await read_aside(LARGE, lambda raw: 1 // 0, "token:a")
