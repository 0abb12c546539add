"""Connections that promise bodies and do not send them: real sockets against the running product."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from contextlib import contextmanager

import httpx
import psutil
import pytest

from people.models import new_id

STRANGERS = 60
MB = 1024 * 1024


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as http:
        yield http


@pytest.fixture
def episode(agent):
    return agent.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]


@contextmanager
def connections(house):
    """Connections by hand; `call` begins a request and sends so much of its body."""
    opened: list[socket.socket] = []

    def call(path, *headers, length=8 * MB, body=b"", method="POST"):
        line = socket.create_connection(("127.0.0.1", int(house.url.rpartition(":")[2])), timeout=30)
        opened.append(line)
        size = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", size, *headers]
        if length is None:
            body = b"%x\r\n%b\r\n" % (len(body), body)
        line.sendall("\r\n".join([*head, "", ""]).encode() + body)
        return line

    yield call
    for line in opened:
        line.close()


def answer(line):
    """Status and headers of what came back, once it came."""
    told = b""
    while b"\r\n\r\n" not in told:
        part = line.recv(65536)
        if not part:
            raise ConnectionError("hung up without an answer")
        told += part
    return int(told.split(b" ")[1]), told.partition(b"\r\n\r\n")[0].lower()


def appended(agent, episode, first, count):
    """Seconds that each of some appends took; none is refused."""
    took = []
    for seq in range(first, first + count):
        began = time.monotonic()
        said = agent.post(f"/episodes/{episode}/steps", json={"steps": [{"seq": seq, "kind": "note", "content": "x"}]})
        took.append(time.monotonic() - began)
        assert said.json() == {"acknowledged": seq}, said.text
    return took


def drip(lines, stop):
    while not stop.wait(1.0):
        for line in lines:
            try:
                line.send(b" ")
            except OSError:
                continue


def test_slow_and_silent_senders_hold_up_no_append(house, agent, episode):
    """Silent strangers, wrong tokens, drips, and a token that announces many large bodies, all at once."""
    mine, path = f"Authorization: Bearer {house.token('agent')}", f"/api/v1/episodes/{episode}/steps"
    web, stop = psutil.Process(house.children()["web"]), threading.Event()
    grown_from = web.memory_info().rss
    with connections(house) as call:
        strangers = [call(path, body=b"x" * 60_000, length=length) for length in [60_001, None] * (STRANGERS // 2)]
        strangers += [call("/login", body=b"x" * 60_000, length=60_001) for _ in range(STRANGERS)]
        silent = [call(path) for _ in range(8)]
        wrong = [call(path, f"Authorization: Bearer awm_{n}") for n in range(8)]
        large = [call(path, mine, body=b'{"steps": [') for _ in range(8)]
        dripping = [call(path, mine, body=b"{", length=MB) for _ in range(4)] + [call("/logout", length=5000)]
        threading.Thread(target=drip, args=(dripping, stop), daemon=True).start()
        took, first = [], 1
        until = time.monotonic() + 12
        while time.monotonic() < until:
            took += appended(agent, episode, first, 10)
            first += 10
        with house.http(house.token("agent")) as other:
            whole = {"seq": first, "kind": "note", "content": "z" * 4 * MB}
            assert other.post(f"/episodes/{episode}/steps", json={"steps": [whole]}).json() == {"acknowledged": first}
        grown = web.memory_info().rss - grown_from
        assert {answer(line)[0] for line in silent} == {413} and {answer(line)[0] for line in wrong} == {401}
        ends = [answer(line) for line in large]
        assert {status for status, _ in ends} == {408, 429}
        assert all(b"connection: close" in head for status, head in ends if status == 408)
        assert all(b"retry-after" in head for status, head in ends if status == 429)
        assert {answer(line)[0] for line in strangers} <= {408, 413, 429}
        stop.set()
    assert statistics.quantiles(took, n=20)[-1] < 0.25 * house.patience, max(took)
    assert grown < 60 * MB, grown


def test_large_body_of_a_stranger_is_refused_before_it_came(house):
    with connections(house) as call:
        assert answer(call("/login", body=b"x" * 1000))[0] == 413
        assert answer(call("/login", "Cookie: awmweb_session_1=x", body=b"x"))[0] == 413


def test_a_person_sends_more_than_a_stranger_may(house, episode):
    """A session counts as known: a note of 200 kB arrives whole."""
    with httpx.Client(base_url=house.url, follow_redirects=True, timeout=40) as browser:
        browser.get(house.link("ada", "admin"))
        csrf = next(value for name, value in browser.cookies.items() if "csrf" in name)
        body = json.dumps({"steps": [{"seq": 1, "kind": "note", "content": "x" * 200_000}]})
        headers = {"X-CSRFToken": csrf, "Origin": house.url, "Content-Type": "application/json"}
        said = browser.post(f"/api/v1/episodes/{episode}/steps", content=body, headers=headers)
        assert said.json() == {"acknowledged": 1}
