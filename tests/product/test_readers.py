"""Greedy readers of large pages, with real connections against the running product."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from people.models import new_id
from people.requests.turns import READS_PER_SENDER
from tests.running import until

MB = 1024 * 1024


@pytest.fixture(scope="module")
def secret(house):
    return house.token("agent")


@pytest.fixture(scope="module")
def episode(house, secret):
    """Ten steps of 1 MB."""
    with house.http(secret) as http:
        pk = http.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]
        for seq in range(1, 11):
            step = {"seq": seq, "kind": "note", "content": "z" * MB}
            assert http.post(f"/episodes/{pk}/steps", json={"steps": [step]}).status_code == 200
    return pk


def stalled(house, secret, path):
    """A connection that asks and does not read on."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", int(house.url.rpartition(":")[2])))
    head = [f"GET /api/v1{path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {secret}"]
    line.sendall("\r\n".join([*head, "", ""]).encode())
    assert line.recv(12) == b"HTTP/1.1 200"
    return line


def test_pages_hold_4_mb_and_say_that_more_follow(house, secret, episode):
    with house.http(secret) as http:
        seen, more = [], True
        while more:
            said = http.get(f"/episodes/{episode}/steps", params={"since": seen[-1] if seen else 0, "limit": 2000})
            assert len(said.content) < 4 * MB + 100_000
            seen += [step["seq"] for step in said.json()["steps"]]
            more = said.json()["more"]
    assert seen == list(range(1, 11))


def test_readers_that_stall_hold_up_only_their_own_token(house, secret, episode):
    path = f"/episodes/{episode}/steps"
    with ExitStack() as lines, house.http(secret) as mine, house.http(house.token("agent")) as other:
        held = [lines.enter_context(stalled(house, secret, path)) for _ in range(READS_PER_SENDER)]
        refused = mine.get(path)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert refused.json()["error"]["code"] == "busy"
        assert mine.get(f"{path}/1").status_code == 429
        assert mine.post(f"/episodes/{episode}/heartbeat").status_code == 200
        assert other.get(path).status_code == 200
        held[0].close()
        until(lambda: mine.get(path).status_code == 200, 60)


def test_readers_that_read_all_come_through(house, secret, episode):
    """More at once than there are turns: each waits for its own, or comes again when told to."""

    def read(_):
        with house.http(secret) as http:
            return until(lambda: (said := http.get(f"/episodes/{episode}/steps")).status_code == 200 and said, 60, 1.0)

    with ThreadPoolExecutor(12) as pool:
        assert {len(said.json()["steps"]) for said in pool.map(read, range(12))} == {3}
