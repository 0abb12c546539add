"""Room for bodies: nobody takes it all, strangers take none of it, and a body that stops coming gives it back."""

from __future__ import annotations

import asyncio

import pytest

from people.errors import Busy, TooLarge, TooSlow
from people.requests import bodies
from people.requests.bodies import Body, SharedBuffer

MB = 1024 * 1024


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    """Small rooms, all empty, and short patience."""
    monkeypatch.setattr(bodies, "ROOM", SharedBuffer(16 * MB))
    monkeypatch.setattr(bodies, "STRANGERS", SharedBuffer(MB))
    monkeypatch.setattr(bodies, "SILENCE_S", 0.2)
    monkeypatch.setattr(bodies, "FIRST_S", 0.4)


def request(*, length=None, chunked=False):
    headers = [(b"content-length", str(length).encode())] if length is not None else []
    return {"headers": [*headers, *([(b"transfer-encoding", b"chunked")] if chunked else [])]}


def pieces(*parts, every=0.0, ends=True):
    """A connection that brings these pieces, and then nothing any more."""
    left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if ends:
        left.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive():
        await asyncio.sleep(every if left else 60)
        return left.pop(0)

    return receive


def free():
    return bodies.ROOM._free, bodies.STRANGERS._free


def test_nobody_takes_more_than_stays_free():
    room = SharedBuffer(12)
    for _ in range(6):
        room.take("greedy", 1)
    with pytest.raises(Busy):
        room.take("greedy", 1)
    room.take("second", 3)
    with pytest.raises(Busy):
        room.take("second", 1)
    room.take("third", 1)
    room.release("greedy", 6)
    room.take("second", 1)


async def test_a_body_is_read_whole_and_gives_its_room_back():
    with Body(request(length=6), pieces(b"abc", b"def"), 10, "token:a") as body:
        assert await body.read() == b"abcdef"
        assert free() == (16 * MB - 6, MB)
    assert free() == (16 * MB, MB)


async def test_body_room_is_announced_size_for_known_senders_only():
    with Body(request(length=4 * MB), pieces(ends=False), 8 * MB, "token:a"):
        assert free() == (12 * MB, MB)
    with Body(request(length=9000), pieces(b"x" * 1000, ends=False), 8 * MB, "") as body:
        assert free() == (16 * MB, MB)
        with pytest.raises(TooSlow):
            await body.read()
        assert free() == (16 * MB, MB - 1000)
    assert free() == (16 * MB, MB)


async def test_room_of_one_token_is_no_room_of_another():
    held = [Body(request(length=4 * MB), pieces(), 8 * MB, "token:a") for _ in range(2)]
    for one in held:
        one.__enter__()
    with pytest.raises(Busy):
        Body(request(length=4 * MB), pieces(), 8 * MB, "token:a").__enter__()
    with Body(request(length=4 * MB), pieces(b"x"), 8 * MB, "token:b") as body:
        assert await body.read() == b"x"


@pytest.mark.parametrize("sender", ["", "token:a"])
@pytest.mark.parametrize("kind", [{"length": 100}, {"chunked": True}])
@pytest.mark.parametrize("every", [0.0, 0.1], ids=["silent", "dripping"])
async def test_a_body_that_is_too_slow_is_ended(sender, kind, every):
    parts = [b"x"] * 90 if every else [b"x"]
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TooSlow), Body(request(**kind), pieces(*parts, every=every, ends=False), 1000, sender) as body:
        await body.read()
    assert loop.time() - began < 8, "90 pieces take 9 s"
    assert free() == (16 * MB, MB)


async def test_a_slow_body_that_keeps_its_pace_comes_through(monkeypatch):
    monkeypatch.setattr(bodies, "BYTES_PER_S", 10)
    with Body(request(length=40), pieces(*[b"x" * 4] * 10, every=0.1), 1000, "token:a") as body:
        assert await body.read() == b"x" * 40


async def test_too_large_is_said_before_it_came():
    for sender, size in (("token:a", 101), ("", bodies.STRANGER_BYTES + 1)):
        with pytest.raises(TooLarge):
            Body(request(length=size), pieces(ends=False), 100 if sender else 8 * MB, sender).__enter__()
    with pytest.raises(TooLarge), Body(request(chunked=True), pieces(*[b"x" * 60] * 2), 100, "token:a") as body:
        await body.read()
    assert free() == (16 * MB, MB)
