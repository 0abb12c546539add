"""What `streaming.py` loads and watches with: HTTP and websocket clients that do little, and a raw frame server.

Libraries would be the limit of what is measured. Run with arguments it is that server: so many sockets, so many
seconds; it prints its port. Without arguments it does nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import sys
import time
from collections.abc import Sequence

import uvloop

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = base64.b64encode(b"awmweb benchmark")
SEQ = re.compile(rb'"seq":(\d+)')
DUE = re.compile(rb'"t":([\d.]+)')


def batch(first: int, times: Sequence[float], filler: str) -> bytes:
    """A body of steps, each with the time at which it was due; about 0.43 KB each."""
    steps = ",".join(
        f'{{"seq":%d,"kind":"tool_call","name":"look_up","arguments":{{"item":"coffee","shelf":12}},'
        f'"result":{{"left":3,"text":"{filler}"}},"turn":4,"call_id":"call-0001","meta":{{"t":{due:.6f}}}}}'
        % (first + number)
        for number, due in enumerate(times)
    )
    return f'{{"steps":[{steps}]}}'.encode()


class Caller(asyncio.Protocol):
    """One kept-alive HTTP connection that appends, one request at a time."""

    def __init__(self, token: str, path: str) -> None:
        self.head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self.buffer = b""
        self.answer: asyncio.Future[None] | None = None
        self.offset = 0

    @classmethod
    async def connect(cls, port: int, token: str, path: str) -> Caller:
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(lambda: cls(token, path), "127.0.0.1", port)
        return caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if b'acknowledged":' in self.buffer and self.buffer.endswith(b"}") and self.answer is not None:
            self.buffer = b""
            self.answer.set_result(None)
        elif b'"error"' in self.buffer and self.answer is not None:
            self.answer.set_exception(RuntimeError(self.buffer.decode()))

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the web process hung up"))

    async def send(self, body: bytes) -> None:
        """Send and wait for the acknowledgement."""
        if self.offset:
            body = SEQ.sub(lambda found: b'"seq":%d' % (int(found[1]) + self.offset), body)
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(self.head + str(len(body)).encode() + b"\r\n\r\n" + body)
        await self.answer

    def close(self) -> None:
        self.transport.close()


_read: dict[tuple[int, bytes], tuple[int, int, list[float]]] = {}


def _steps_of(payload: bytes) -> tuple[int, int, list[float]]:
    """First and last number and the due times in a frame. All sockets of a topic get the same frame, so it is read
    once; its end tells frames apart, because it holds the time at which it was made."""
    key = (len(payload), bytes(payload[-160:]))
    found = _read.get(key)
    if found is None:
        numbers = [int(number) for number in SEQ.findall(payload)]
        known = (numbers[0], numbers[-1]) if numbers else (0, -1)
        found = (*known, [float(due) for due in DUE.findall(payload)])
        if len(_read) > 2000:
            _read.clear()
        _read[key] = found
    return found


class Watcher(asyncio.Protocol):
    """One websocket that reads frames, checks that numbers go on one by one, and notes when they came."""

    def __init__(self, host: str, path: str, token: str) -> None:
        key = f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY.decode()}\r\nAuthorization: Bearer {token}"
        self.hello = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n\r\n"
        )
        self.open = False
        self.buffer = bytearray()
        self.frames = self.seen = self.gaps = 0
        self.came: list[tuple[float, list[float]]] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, host: str, port: int, path: str, token: str) -> Watcher:
        loop = asyncio.get_running_loop()
        _, watcher = await loop.create_connection(lambda: cls(f"{host}:{port}", path, token), host, port)
        await watcher.ready
        return watcher

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self.hello.encode())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.open:
            head, found, rest = bytes(self.buffer).partition(b"\r\n\r\n")
            if not found:
                return
            self.open, self.buffer = True, bytearray(rest)
            self.ready.set_result(None)
        self._frames()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("no socket"))

    def _frames(self) -> None:
        buffer, at, size = self.buffer, 0, len(self.buffer)
        while size - at >= 2:
            length, head = buffer[at + 1] & 127, 2
            if length > 125:
                head = 4 if length == 126 else 10
                if size - at < head:
                    break
                length = int.from_bytes(buffer[at + 2 : at + head], "big")
            if size - at < head + length:
                break
            if buffer[at] & 15 == 1:
                self._take(buffer[at + head : at + head + length])
            elif buffer[at] & 15 == 9:
                self.transport.write(b"\x8a\x84\0\0\0\0" + bytes(buffer[at + head : at + head + length]))
            at += head + length
        if at:
            del buffer[:at]

    def _take(self, payload: bytearray) -> None:
        self.frames += 1
        if not payload.startswith(b'{"type":"steps"') and b'"steps"' not in payload[:20]:
            self.gaps += payload.startswith(b'{"type":"gap"') and self.seen > 0
            return
        first, last, due = _steps_of(payload)
        if first > self.seen + 1:
            self.gaps += 1
        elif last > self.seen:
            self.seen = last
            self.came.append((time.perf_counter(), due))

    def delays(self) -> list[float]:
        """Seconds from due to here, of every measured event."""
        return [at - due for at, dues in self.came for due in dues if due]

    def close(self) -> None:
        self.transport.close()


class _Raw(asyncio.Protocol):
    """A websocket that is written to as fast as it takes it."""

    everybody: list[_Raw] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.free, self.buffer = True, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if b"\r\n\r\n" in self.buffer:
            accept = base64.b64encode(hashlib.sha1(KEY + MAGIC).digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            self.transport.write(head + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            self.everybody.append(self)
            self.buffer = b""

    def pause_writing(self) -> None:
        self.free = False

    def resume_writing(self) -> None:
        self.free = True


async def raw_frames_server(sockets: int, seconds: float) -> None:
    """Wait for so many sockets, then write frames to all of them for so long."""
    server = await asyncio.get_running_loop().create_server(_Raw, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    while len(_Raw.everybody) < sockets:
        await asyncio.sleep(0.01)
    payload = b'{"type":"raw","x":"' + b"x" * 410 + b'"}'
    frame = b"\x81\x7e" + len(payload).to_bytes(2, "big") + payload
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for one in _Raw.everybody:
            if one.free:
                one.transport.write(frame)
        await asyncio.sleep(0)
    for one in _Raw.everybody:
        one.transport.abort()


if __name__ == "__main__" and len(sys.argv) == 3:
    uvloop.run(raw_frames_server(int(sys.argv[1]), float(sys.argv[2])))
