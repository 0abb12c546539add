"""Reads of stored steps below Django: which requests wait for a turn, and how long an answer may take to leave."""

from __future__ import annotations

import asyncio

import pytest

from episodes.live import reading
from people.requests.turns import READS_PER_SENDER

STEPS = "/api/v1/episodes/one/steps"


def scope(path=STEPS, query="", method="GET"):
    return {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}


@pytest.fixture
def sender(monkeypatch):
    """Who sends the requests of a test."""
    known = ["token:a"]

    async def sender_of(scope):
        return known[0]

    monkeypatch.setattr(reading, "sender_of", sender_of)
    monkeypatch.setattr(reading, "WAIT_S", 0.05)
    return known


async def answered(app, where=None):
    """What an app says in its turn."""
    said = []

    async def send(message):
        said.append(message)

    await reading.in_turn(app, where or scope(), None, send)
    return said


@pytest.mark.parametrize(
    ("taken", "asked"),
    [
        (True, scope()),
        (True, scope(f"{STEPS}/7")),
        (True, scope(method="HEAD")),
        (True, scope("/episodes/one/", "raw=7")),
        (False, scope(method="POST")),
        (False, scope("/episodes/one/")),
        (False, scope("/api/v1/episodes/one")),
        (False, scope("/episodes/one/steps.html", "since=0")),
    ],
)
def test_turns_are_for_reads_of_whole_steps(taken, asked):
    assert reading.takes(asked) is taken


async def so_many(begun, count):
    async with asyncio.timeout(30):
        while len(begun) < count:
            await asyncio.sleep(0)


async def test_read_beyond_a_senders_turns_is_429_with_retry_after(sender):
    go, begun = asyncio.Event(), []

    async def app(scope, receive, send):
        begun.append(scope)
        await go.wait()

    held = [asyncio.create_task(answered(app)) for _ in range(READS_PER_SENDER)]
    await so_many(begun, READS_PER_SENDER)
    start, body = await answered(app)
    assert start["status"] == 429 and (b"retry-after", b"1") in start["headers"] and b"busy" in body["body"]
    assert len(begun) == READS_PER_SENDER
    for other in ("token:b", ""):
        sender[0] = other
        held.append(asyncio.create_task(answered(app)))
    await so_many(begun, READS_PER_SENDER + 2)
    go.set()
    await asyncio.gather(*held)


async def test_reader_that_takes_nothing_loses_its_turn(sender, monkeypatch, caplog):
    monkeypatch.setattr(reading, "TAKEN_S", 0.05)
    ended = []

    async def stalled(scope, receive, send):
        await send({"type": "http.response.start"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(scope)

    for n in range(READS_PER_SENDER + 1):
        assert await answered(stalled) == [{"type": "http.response.start"}]
        assert len(ended) == n + 1
    assert "did not take" in caplog.text
