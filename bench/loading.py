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
TAIL = 140


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


class Watcher(asyncio.Protocol):
    """One websocket. It keeps the end of each frame, which says which one it is and up to which step it goes; of a
    thousand sockets with the same frames one, the `reader`, keeps them whole."""

    def __init__(self, host: str, path: str, token: str, reader: bool) -> None:
        key = f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY.decode()}\r\nAuthorization: Bearer {token}"
        self.hello = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n\r\n"
        )
        self.open = False
        self.head = b""
        self.left = 0
        self.tail = b""
        self.opcode = self.length = 0
        self.frames = self.bytes = self.last = 0
        self.whole: list[bytes] | None = [] if reader else None
        self.pieces: list[bytes] = []
        self.came: list[tuple[float, int, bytes]] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, host: str, port: int, path: str, token: str, reader: bool = False) -> Watcher:
        loop = asyncio.get_running_loop()
        _, watcher = await loop.create_connection(lambda: cls(f"{host}:{port}", path, token, reader), host, port)
        await watcher.ready
        return watcher

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self.hello.encode())

    def data_received(self, data: bytes) -> None:
        if not self.open:
            head, found, data = (self.head + data).partition(b"\r\n\r\n")
            if not found:
                self.head = head
                return
            self.open, self.head = True, b""
            self.ready.set_result(None)
        self.bytes += len(data)
        at = 0
        while at < len(data):
            at = self._rest(data, at) if self.left else self._start(data, at)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("no socket"))

    def _start(self, data: bytes, at: int) -> int:
        """Read a frame's head, which may come in two pieces; returns where its payload begins."""
        known = len(self.head)
        head = self.head + data[at : at + 10 - known]
        size = 2 if len(head) < 2 or head[1] & 127 < 126 else 4 if head[1] & 127 == 126 else 10
        if len(head) < size:
            self.head = head
            return len(data)
        self.head, self.tail, self.pieces = b"", b"", []
        self.opcode = head[0] & 15
        self.length = self.left = head[1] & 127 if size == 2 else int.from_bytes(head[2:size], "big")
        if not self.left:
            self._end()
        return at + size - known

    def _rest(self, data: bytes, at: int) -> int:
        piece = min(self.left, len(data) - at)
        end = at + piece
        self.left -= piece
        self.tail = (self.tail + data[max(at, end - TAIL) : end])[-TAIL:]
        if self.whole is not None:
            self.pieces.append(data[at:end])
        if not self.left:
            self._end()
        return end

    def _end(self) -> None:
        if self.opcode == 9:
            self.transport.write(b"\x8a" + bytes((0x80 | self.length,)) + b"\0\0\0\0" + self.tail)
            return
        self.frames += 1
        found = self.tail.rfind(b'"seq":')
        if found >= 0:
            self.last = int(self.tail[found + 6 : found + 16].partition(b",")[0])
        self.came.append((time.perf_counter(), self.length, self.tail))
        if self.whole is not None:
            self.whole.append(b"".join(self.pieces))

    def close(self) -> None:
        self.transport.close()


Read = dict[tuple[int, bytes], tuple[int, int, list[float]]]


def read_frames(reader: Watcher) -> Read:
    """First and last number and due times of each frame of steps, by the frame's length and end."""
    frames: Read = {}
    for (_, length, tail), whole in zip(reader.came, reader.whole or (), strict=True):
        numbers = [int(number) for number in SEQ.findall(whole)] if b'"steps":[{' in whole else []
        if numbers:
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), "a frame with a hole"
            frames[length, tail] = (numbers[0], numbers[-1], [float(due) for due in DUE.findall(whole)])
    return frames


def delivered(watcher: Watcher, frames: Read) -> tuple[int, list[float]]:
    """How many steps came, in order and without a gap, and the seconds that each measured one took."""
    seen, delays = 0, []
    for at, length, tail in watcher.came:
        first, last, dues = frames.get((length, tail), (0, 0, []))
        if first == seen + 1:
            seen = last
            delays += [at - due for due in dues if due]
    return seen, delays


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
