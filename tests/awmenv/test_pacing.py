"""Nobody takes the loop for long: what a client makes it do is timed, cut into pieces, and made up for."""

import asyncio
import json
import socket
import struct
import time
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.asyncio.client import connect

from awmenv.server.channels.pacing import (
    MAX_FRAGMENTS,
    MOST_S,
    MUCH_S,
    REST,
    SMALL_S,
    Admission,
    Pace,
    PacedSocket,
    Timed,
)
from tests.awmenv.conftest import Server

pytestmark = pytest.mark.attack("frames")


async def test_admission_counts_all_requests_as_one_clients() -> None:
    admission, begun = Admission(), list[float]()

    async def request() -> str:
        begun.append(time.monotonic())
        return "done"

    started = time.monotonic()
    assert await asyncio.gather(*(admission.served(request()) for _ in range(60))) == ["done"] * 60
    took = time.monotonic() - started
    assert sum(when - started < 0.01 for when in begun) < 2 * MUCH_S / SMALL_S, "not all at once"
    assert took > 60 * SMALL_S * REST / 2, "others had their turns"


async def test_admission_goes_on_after_who_left_or_failed() -> None:
    admission = Admission()

    async def request(seconds: float) -> None:
        work(seconds)
        await asyncio.sleep(60 if seconds else 0)

    slow = asyncio.create_task(admission.served(request(0.05)))
    await asyncio.sleep(0.01)
    leaving = asyncio.create_task(admission.served(request(0)))
    await asyncio.sleep(0.01)
    leaving.cancel()
    async with asyncio.timeout(5):
        await admission.served(request(0))
    slow.cancel()
    await asyncio.gather(slow, leaving, return_exceptions=True)


HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YXdtZW52IGJlbmNobWFyaw==\r\n\r\n"
)


def work(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


async def test_timed_counts_work_and_not_what_is_waited_for() -> None:
    async def some() -> str:
        work(0.02)
        await asyncio.sleep(0.1)
        work(0.02)
        return "done"

    timed = Timed(some())
    assert await timed == "done"
    assert 0.035 < timed.worked < 0.09


async def test_timed_passes_on_errors_and_cancellation() -> None:
    seen: list[str] = []

    async def some(wait: asyncio.Future[None]) -> None:
        try:
            await wait
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def through(wait: asyncio.Future[None]) -> None:
        await Timed(some(wait))

    loop = asyncio.get_running_loop()
    failing: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.01, failing.set_exception, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await through(failing)
    task = asyncio.create_task(through(loop.create_future()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["ValueError", "CancelledError"]


async def test_pace_lets_usual_work_pass_and_has_much_made_up_for() -> None:
    pace = Pace()
    assert [pace.rest(MUCH_S / 10) for _ in range(5)] == [0] * 5
    rest = pace.rest(5 * MUCH_S)
    assert 4 * REST * MUCH_S < rest <= 6 * REST * MUCH_S
    await asyncio.sleep(rest)
    assert pace.rest(MUCH_S / 10) == 0
    assert pace.rest(1000) == MOST_S


async def test_pace_shares_one_fifth_among_all_who_rest() -> None:
    alone = Pace().rest(2 * MUCH_S)
    others = [asyncio.create_task(Pace().wait(10 * MUCH_S)) for _ in range(3)]
    await asyncio.sleep(0)
    assert Pace().rest(2 * MUCH_S) == pytest.approx(4 * alone, rel=0.1)
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    assert Pace.resting == 0


def client_frame(opcode: int, body: bytes, *, last: bool = True) -> bytes:
    return struct.pack("!BB", opcode | (0x80 if last else 0), 0x80 | len(body)) + b"\0\0\0\0" + body


def raw_socket(server: Server) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", server.port), 20)
    line.sendall(HANDSHAKE)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += line.recv(1)
    return line


def received(line: socket.socket, opcode: int, count: int) -> list[bytes]:
    """So many frames of one kind."""
    found: list[bytes] = []
    stream = line.makefile("rb")
    while len(found) < count:
        first, size = stream.read(2)
        length = int.from_bytes(stream.read({126: 2, 127: 8}.get(size, 0)) or bytes([size]), "big")
        body = stream.read(length)
        if first & 15 == opcode:
            found.append(body)
    return found


def test_socket_answers_everything_that_came_at_once_in_order(server: Server) -> None:
    kinds = [f"kind {number}" for number in range(300)]
    sent = b"".join(client_frame(1, json.dumps({"type": kind}).encode()) for kind in kinds)
    with raw_socket(server) as line:
        line.sendall(sent)
        answers = [json.loads(body)["data"]["message"] for body in received(line, 1, len(kinds))]
    assert answers == [f"Unknown message type: {kind}" for kind in kinds]


def test_socket_answers_pings_between_and_after_messages(server: Server) -> None:
    with raw_socket(server) as line:
        line.sendall(b"".join(client_frame(9, b"%03d" % number) for number in range(500)))
        assert received(line, 10, 500) == [b"%03d" % number for number in range(500)]
        line.sendall(client_frame(1, b'{"type":"state"}') + client_frame(9, b"late"))
        assert len(received(line, 1, 1)) == 1


class Line(asyncio.Transport):
    """A transport that notes what is written, and whether more is read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False


async def test_socket_keeps_no_pongs_for_who_reads_none() -> None:
    """They would fill the memory: nothing else waits for whoever pings."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(60)

    end, line = PacedSocket(Config(app, lifespan="off"), ServerState(), {}), Line()
    end.connection_made(line)
    end.data_received(HANDSHAKE)
    async with asyncio.timeout(30):
        while b" 101 " not in line.written:
            await asyncio.sleep(0.01)
    end.pause_writing()  # as the transport asks, once much is unsent
    line.written = b""
    end.data_received(client_frame(9, b"one") + client_frame(9, b"two"))
    assert (line.written, line.reading) == (b"", False)
    end.resume_writing()
    assert (line.written.count(b"one"), line.written.count(b"two"), line.reading) == (1, 1, True)
    end.connection_lost(ConnectionError())


def test_socket_joins_fragments_up_to_a_limit(server: Server) -> None:
    message = b'{"type":"state"}'
    with raw_socket(server) as line:
        parts = [
            client_frame(0 if n else 1, message[n : n + 1], last=n == len(message) - 1) for n in range(len(message))
        ]
        line.sendall(b"".join(parts))
        assert json.loads(received(line, 1, 1)[0])["type"] == "state"
        with pytest.raises((ConnectionError, ValueError)):  # it is gone without a word
            line.sendall(client_frame(1, b"", last=False) + client_frame(0, b"", last=False) * 2 * MAX_FRAGMENTS)
            received(line, 1, 1)


async def test_a_closed_socket_says_goodbye_whatever_still_came(server: Server) -> None:
    async with connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as line:
        await line.send('{"type": "close"}')
        for _ in range(50):
            await line.send('{"type": "state"}')
        await line.wait_closed()
        assert line.close_code == 1000


async def test_others_are_answered_while_one_client_floods(server: Server) -> None:
    """By messages; the flood takes longer than all of theirs."""
    flood = [client_frame(1, b'{"type":"state"}') * 3_000 for _ in range(20)]

    def pour(line: socket.socket) -> None:
        try:
            for part in flood:
                line.sendall(part)
        except OSError:
            return  # the test is over

    async def read_all(line: socket.socket) -> None:
        await asyncio.to_thread(received, line, 1, 40_000)

    with raw_socket(server) as line:
        pouring = asyncio.create_task(asyncio.to_thread(pour, line))
        reading: asyncio.Task[Any] = asyncio.create_task(read_all(line))
        async with connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as other:
            for _ in range(20):
                await other.send('{"type": "state"}')
                await asyncio.wait_for(other.recv(), 20)
        assert not reading.done()
        line.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(pouring, reading, return_exceptions=True)
