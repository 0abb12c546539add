"""One exchange with a session's process, which may say anything, late or never."""

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from awmenv.errors import HostFailed
from awmenv.server.sandbox import framing
from awmenv.server.session.channel import (
    HEAD,
    MAX_ANSWER,
    MAX_TEXT,
    PATIENCE,
    ProcessChannel,
)
from awmenv.server.session.hosts import waited_for_a_core

pytestmark = pytest.mark.attack("frames")


async def over_a_pair() -> tuple[ProcessChannel, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    return await ProcessChannel.over(near), far


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (framing.answer({"status": "ok"}, b'""') * 2, "more than one frame"),
        (framing.answer([1], b'""'), "invalid response"),  # type: ignore[arg-type]
        (framing.encode({"status": "ok"}), "not a text"),
        (framing.answer({"status": "ok"}, b"[]"), "not a text"),
        (framing.answer({"status": "ok"}, b'"a", "b"'), "Invalid JSON"),
        (framing.answer({"status": "ok"}, framing.literal("a" * MAX_TEXT)), "more than"),
        (framing.answer({"status": ["ok"] * 100}, b'""'), "more than 20 values"),
        (framing.answer({"status": "x" * HEAD.size}, b'""'), "larger than"),
        ((MAX_ANSWER + 1).to_bytes(4, "big"), "more than"),
        (b"\0\0\0\1{", "Invalid JSON"),
        (b"\0\0", "timed out"),
        (None, "gone"),
    ],
)
async def test_a_process_that_answers_badly_is_refused(answer: bytes | None, reason: str) -> None:
    channel, far = await over_a_pair()
    if answer is None:
        far.close()
    else:
        threading.Timer(0.02, send_until_refused, [far, answer]).start()
    with pytest.raises(HostFailed, match=reason):
        await channel.ask({"op": "call"}, 0.5, lambda: 0.0)
    channel.close()


def send_until_refused(far: socket.socket, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        far.sendall(data)


async def test_a_process_that_speaks_out_of_turn_is_not_heard_again() -> None:
    channel, far = await over_a_pair()
    far.sendall(framing.answer({"status": "ok"}, framing.literal("forged")))
    await asyncio.sleep(0.05)
    with pytest.raises(HostFailed, match="unexpected message"):
        await channel.ask({"op": "call"}, 1, lambda: 0.0)


async def lateness(held_up: Callable[[], float]) -> float:
    channel, _far = await over_a_pair()
    started = time.monotonic()
    with pytest.raises(HostFailed, match="timed out after 0.2 s"):
        await channel.ask({"op": "call"}, 0.2, held_up)
    channel.close()
    return time.monotonic() - started


async def test_time_without_a_core_does_not_count_though_not_for_ever() -> None:
    assert await lateness(lambda: 0.0) > 0.19
    assert await lateness(time.monotonic) > 0.19 * PATIENCE


def test_the_wait_for_a_core_is_the_kernels_number() -> None:
    assert 0 <= waited_for_a_core(os.getpid()) < time.monotonic()
    assert waited_for_a_core(2**22 + 1) == 0.0


@pytest.mark.parametrize("text", ["", "a\n\u2028\U0001f600", '"' * (MAX_TEXT // 2 - 1), "\ud800"])
async def test_answer_includes_its_json(text: str) -> None:
    channel, far = await over_a_pair()
    sent = framing.answer({"status": "http", "code": 404, "detail": "x" * 16_000}, framing.literal(text))
    threading.Timer(0.05, far.sendall, [sent]).start()
    answer = await channel.ask({"op": "call"}, 5, lambda: 0.0)
    assert (answer.head["code"], answer.text) == (404, text.encode("utf-8", "replace").decode())
    assert json.loads(answer.literal) == answer.text
    channel.close()


async def test_12_mb_of_empty_lists_are_not_even_received() -> None:
    channel, far = await over_a_pair()
    body = b"[" + b"[]," * (4 << 20) + b"[]]"
    asyncio.get_running_loop().call_later(0.02, far.send, len(body).to_bytes(4, "big") + body[:100_000])
    started = time.thread_time()
    with pytest.raises(HostFailed, match="more than"):
        await channel.ask({"op": "call"}, 5, lambda: 0.0)
    assert time.thread_time() - started < 0.05
