"""One exchange with a session's process, which may say anything, late or never."""

import asyncio
import gc
import os
import socket
import time
from collections.abc import Callable

import pytest

from awmenv.errors import HostFailed
from awmenv.server import framing
from awmenv.server.channel import MAX_ANSWER, PATIENCE, Channel
from awmenv.server.scenario import waited_for_a_core

pytestmark = pytest.mark.attack("frames")


async def over_a_pair() -> tuple[Channel, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    return await Channel.over(near), far


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (framing.encode({"status": "ok"}) * 2, "more than one frame"),
        (framing.encode([1]), "nonsense"),
        ((MAX_ANSWER + 1).to_bytes(4, "big"), "more than"),
        (b"\0\0\0\1{", "not strict JSON"),
        (b"\0\0", "timed out"),
        (None, "gone"),
    ],
)
async def test_a_process_that_answers_badly_is_refused(answer: bytes | None, reason: str) -> None:
    channel, far = await over_a_pair()
    if answer is None:
        far.close()
    else:
        asyncio.get_running_loop().call_later(0.02, far.sendall, answer)
    with pytest.raises(HostFailed, match=reason):
        await channel.ask({"op": "call"}, 0.2, lambda: 0.0)
    channel.close()


async def test_a_process_that_speaks_out_of_turn_is_not_heard_again() -> None:
    channel, far = await over_a_pair()
    far.sendall(framing.encode({"status": "ok", "text": "forged"}))
    await asyncio.sleep(0.05)
    with pytest.raises(HostFailed, match="out of turn"):
        await channel.ask({"op": "call"}, 1, lambda: 0.0)


async def lateness(held_up: Callable[[], float]) -> float:
    channel, _far = await over_a_pair()
    started = time.monotonic()
    with pytest.raises(HostFailed, match="timed out after 0.2 s"):
        await channel.ask({"op": "call"}, 0.2, held_up)
    channel.close()
    return time.monotonic() - started


async def test_time_without_a_core_does_not_count_though_not_for_ever() -> None:
    assert 0.19 < await lateness(lambda: 0.0) < 0.5
    assert 0.19 * PATIENCE < await lateness(time.monotonic) < 0.5 * PATIENCE


def test_the_wait_for_a_core_is_the_kernels_number() -> None:
    assert 0 <= waited_for_a_core(os.getpid()) < time.monotonic()
    assert waited_for_a_core(2**22 + 1) == 0.0


def test_an_answer_of_nothing_but_lists_sets_no_garbage_collector_to_work() -> None:
    seen: list[str] = []
    gc.callbacks.append(note := lambda phase, _info: seen.append(phase))
    try:
        assert len(framing.decode(b"[" + b"[]," * 100_000 + b"[]]")) == 100_001
        with pytest.raises(framing.BadFrame):
            framing.decode(b"[")
    finally:
        gc.callbacks.remove(note)
    assert len(seen) <= 4, "a collection at the end, and not one for each few hundred lists"
    assert gc.isenabled()
