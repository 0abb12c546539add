"""Whose browser may speak to the server, under which name, and how much at once: of HTTP and of sockets alike."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from awmenv.server.channels.gate import Gate
from awmenv.server.channels.pacing import FRAME, MAX_HEAD, MAX_HEADERS
from awmenv.server.settings import BadSetting, Settings
from tests.awmenv.conftest import Server

pytestmark = pytest.mark.attack("frames")

FAMILIAR = [
    *("127.0.0.1", "127.0.0.1:8100", "localhost", "LOCALHOST:1", "a.localhost"),
    *("[::1]:8100", "192.168.1.5:8100", "10.0.0.7"),
]
STRANGE = [
    *("evil.example", "evil.example:8100", "evil.example.", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("env:8100", "", "a b", "user@localhost", "localhost/x", "[::1", "localhost:x"),
]


def status_of(server: Server, path: str, host: str | None, origin: str | None = None, method: str = "GET") -> int:
    """Of one plain request, with exactly these headers."""
    head = f"{method} {path} HTTP/1.{0 if host is None else 1}\r\n"
    head += f"Host: {host}\r\n" if host is not None else ""
    head += f"Origin: {origin}\r\n" if origin is not None else ""
    return statuses(server, f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())[0]


def statuses(server: Server, sent: bytes) -> list[int]:
    """Of all answers until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as line:
        received = b""
        try:
            line.sendall(sent)
            while part := line.recv(1 << 16):
                received += part
        except ConnectionError:
            received += b""  # it closed while we were still sending
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("host", FAMILIAR)
def test_gate_knows_loopback_and_addresses(server: Server, host: str) -> None:
    assert status_of(server, "/health", host) == 200


def test_health_answers_head(server: Server) -> None:
    assert status_of(server, "/health", "localhost", method="HEAD") == 200


@pytest.mark.parametrize("host", STRANGE)
@pytest.mark.parametrize("path", ["/health", "/mcp"])
def test_gate_refuses_names_that_are_not_ours(server: Server, host: str, path: str) -> None:
    assert status_of(server, path, host, method="POST" if path == "/mcp" else "GET") in (400, 421)


def test_gate_takes_a_request_without_a_name_and_none_with_two(server: Server) -> None:
    assert status_of(server, "/health", None) == 200
    assert status_of(server, "/health", "localhost\r\nHost: localhost") in (400, 421)


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "file://"}, 403),
        ({"Origin": ""}, 403),
    ],
)
async def test_gate_refuses_sockets_of_strange_pages(
    server: Server, path: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{server.port}{path}", proxy=None, additional_headers=headers)
    assert refused.value.response.status_code == status


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
async def test_gate_lets_programs_and_our_own_pages_open_sockets(server: Server, path: str) -> None:
    for headers in ({}, {"Origin": f"http://127.0.0.1:{server.port}"}):
        async with connect(f"ws://127.0.0.1:{server.port}{path}", proxy=None, additional_headers=headers) as line:
            await line.send("{}")
            assert "rror" in str(await line.recv())


@pytest.mark.parametrize("path", ["/mcp", "/reset", "/awmenv/tasks"])
def test_gate_refuses_posts_of_strange_pages(server: Server, path: str) -> None:
    assert status_of(server, path, "localhost", "https://evil.example", "POST") == 403
    assert status_of(server, path, "localhost", "null", "POST") == 403


def test_gate_says_in_the_log_what_it_refused_once(make_server: Callable[..., Server]) -> None:
    server = make_server()
    for _ in range(3):
        status_of(server, "/health", "evil.example")
    server.process.terminate()
    said = server.process.stdout.read() if server.process.stdout else ""
    assert said.count("evil.example") == 1 and "AWMENV_ALLOWED_HOSTS" in said


def gate_of(**environment: str) -> Callable[..., int]:
    """The status that a gate with these settings gives: 200 where it lets through."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    gate = Gate(app, Settings.from_environment(environment))

    def status(host: str, origin: str | None = None) -> int:
        headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin else [])
        told: list[Any] = []

        async def send(message: Any) -> None:
            told.append(message)

        scope = {"type": "http", "method": "GET", "path": "/health", "headers": headers}
        asyncio.run(gate(scope, send, send))  # type: ignore[arg-type]
        return int(told[0]["status"])

    return status


def test_gate_knows_the_hosts_of_its_settings() -> None:
    status = gate_of(AWMENV_ALLOWED_HOSTS="env, .worlds.example", AWMENV_HOST="box.example", SPACE_HOST="me-x.hf.space")
    for host in ("env:8100", "a.worlds.example", "BOX.example:80", "me-x.hf.space", "localhost"):
        assert status(host) == 200, host
    for host in ("worlds.example", "xworlds.example", "env.evil.example", "hf.space"):
        assert status(host) == 421, host
    assert gate_of(AWMENV_ALLOWED_HOSTS="*")("evil.example") == 200
    assert gate_of(AWMENV_HOST="0.0.0.0")("evil.example") == 421


def test_gate_knows_the_origins_of_its_settings() -> None:
    status = gate_of(AWMENV_ALLOWED_ORIGINS="https://desk.example, http://localhost:3000", SPACE_HOST="me-x.hf.space")
    assert status("localhost:8100", "https://desk.example") == 200
    assert status("localhost:8100", "http://localhost:3000") == 200
    assert status("me-x.hf.space", "https://me-x.hf.space") == 200, "a proxy in front ends TLS"
    assert status("localhost:8100", "http://desk.example") == 403
    assert status("localhost:8100", "https://desk.example.evil.example") == 403
    assert status("localhost:8100", "http://localhost:8101") == 403
    assert gate_of(AWMENV_ALLOWED_ORIGINS="*")("localhost", "null") == 200


@pytest.mark.parametrize(
    "environment",
    [{"AWMENV_ALLOWED_HOSTS": value} for value in ("a:80", "http://a", "a b", "*.a", "a/b")]
    + [{"AWMENV_ALLOWED_ORIGINS": value} for value in ("desk.example", "ftp://a", "https://a/b")],
)
def test_gate_settings_that_say_nothing_stop_the_start(environment: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match=next(iter(environment))):
        Settings.from_environment(environment)


def post(path: str, body: bytes, length: int | None = None, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
    said = f"Content-Length: {len(body) if length is None else length}\r\nConnection: close\r\n\r\n"
    return f"{head}{said}".encode() + body


LISTS = b"[" + b"[]," * 700 + b"[]]"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (post("/mcp", b'"' + b"a" * FRAME.size + b'"'), 413),
        (post("/mcp", b"", length=10**18), 413),
        (post("/mcp", b"", length=10**30), 400),
        (post("/awmenv/tasks", b'{"split": "' + b"a" * 5_000 + b'"}'), 413),
        (post("/awmenv/tasks", b'{"split": ' + LISTS + b"}"), 400),
        (post("/awmenv/task_range", b'{"split": ' + b"[" * 900 + b"]" * 900 + b"}"), 400),
        (post("/reset", b"x" * 5_000), 413),
        (post("/mcp", b"4\r\n{}{}\r\n0\r\n\r\n", more="Transfer-Encoding: chunked\r\n"), 400),
        (post("/mcp", b"{}", more="".join(f"X-{n}: 1\r\n" for n in range(MAX_HEADERS))), 400),
        (b"GET /health HTTP/1.1\r\nX: " + b"a" * (MAX_HEAD * 8), 400),
        (b"GET /" + b"a" * (MAX_HEAD * 8), 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2_000, 400),
    ],
    ids=range(12),
)
def test_gate_refuses_large_or_many_requests_and_continues(server: Server, sent: bytes, status: int) -> None:
    assert status in statuses(server, sent)[-1:]
    assert status_of(server, "/health", "localhost") == 200


def test_gate_passes_a_body_of_usual_size_to_the_agents_channel(server: Server) -> None:
    arguments = {"name": "nope", "arguments": {"text": "a" * 200_000}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}).encode()
    assert statuses(server, post("/mcp", body)) == [200]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What a gate of a test's own refuses is no news."""
    logging.getLogger("awmenv.gate").setLevel(logging.ERROR)
    yield
    logging.getLogger("awmenv.gate").setLevel(logging.NOTSET)
