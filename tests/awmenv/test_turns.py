"""Calls that come together take turns, and who hangs keeps nobody out for long."""

import asyncio
import time

import pytest

from awmenv.server.turns import Turns


async def test_no_more_than_so_many_run_at_once_and_all_of_them_do() -> None:
    turns, running, most, done = Turns(3, patience_s=5), 0, 0, 0

    async def call() -> None:
        nonlocal running, most, done
        async with turns.one():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            done += 1

    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, done) == (3, 20)


async def test_who_hangs_makes_room_and_gives_the_place_back_only_once() -> None:
    turns = Turns(1, patience_s=0.05)

    async def hang() -> None:
        async with turns.one():
            await asyncio.sleep(60)

    hanging = [asyncio.create_task(hang()) for _ in range(2)]
    started = time.monotonic()
    await asyncio.sleep(0)
    async with turns.one():
        assert 0.09 < time.monotonic() - started < 5
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(turns._free.acquire(), 0.01)


async def test_who_leaves_while_waiting_takes_no_place_along() -> None:
    turns = Turns(1, patience_s=5)

    async def wait() -> None:
        async with turns.one():
            raise AssertionError("it had left")

    async with turns.one():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), turns.one():
        assert waiting.cancelled()
