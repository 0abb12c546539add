"""Turns at heavy reads: few at once for each sender, and none taken from another one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from people.errors import Busy
from people.requests.turns import SenderTurns


async def test_turn_beyond_the_limit_is_refused_after_its_wait():
    turns = SenderTurns(2)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(turns.turn("token:a", 0.01))
        with pytest.raises(Busy):
            await held.enter_async_context(turns.turn("token:a", 0.01))
        async with turns.turn("token:b", 0.01):
            pass
    async with turns.turn("token:a", 0.01), turns.turn("token:a", 0.01):
        pass


async def test_turn_that_frees_up_goes_to_who_waits():
    turns, order = SenderTurns(1), []

    async def take(name):
        async with turns.turn("token:a", 5):
            order.append(name)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(take(n) for n in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_turn_is_free_again_after_a_failure():
    turns = SenderTurns(1)
    with pytest.raises(ValueError):
        async with turns.turn("token:a", 0.01):
            raise ValueError
    async with turns.turn("token:a", 0.01):
        pass
