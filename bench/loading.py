"""The load and the watchers of `streaming.py`: minimal HTTP and websocket clients, and a raw frame server.

Libraries would be the limit of what is measured. `python loading.py watch` is a process full of watchers that takes
commands line by line; `python loading.py raw SOCKETS SECONDS` writes frames without ASGI and prints its port; `python
loading.py disk FOLDER` keeps a disk busy until its input ends, and prints the MB it wrote. Without arguments it does
nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import mmap
import os
import random
import re
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = base64.b64encode(b"awmweb benchmark")
SEQ = re.compile(rb'"seq":(\d+)')
DUE = re.compile(rb'"t":([\d.]+)')
PLAIN_FRAME_BYTES = 436
BLOCK_BYTES = 1024 * 1024
BLOCKS = 64
SAMPLED = 8
"""One of this many sockets records the time of each frame; all are counted."""
WORDS = """order customer refund ticket open closed pending shipped invoice amount total currency eur usd item stock
shelf warehouse created updated assigned priority low high urgent note comment internal public email phone address
street city country the a of to is was with for in on by not has been more than one please check again before answer"""


def batch(first: int, times: Sequence[float]) -> bytes:
    """Return a body of steps, each with the time at which it was due.

    About 0.43 KB each, in words like a tool's result, so that they compress like real ones.
    """
    return b'{"steps":[' + b",".join(_step(first + number, due) for number, due in enumerate(times)) + b"]}"


_TEXTS = [" ".join(random.Random(number).choices(WORDS.split(), k=39))[:240].ljust(240, ".") for number in range(997)]


def _step(seq: int, due: float) -> bytes:
    return (
        f'{{"seq":{seq},"kind":"tool_call","name":"look_up","arguments":{{"item":"coffee","shelf":{seq % 89}}},'
        f'"result":{{"left":{seq % 31},"text":"{_TEXTS[seq * 31 % 997]}"}},"turn":{seq // 3},'
        f'"call_id":"call-{seq:06d}","meta":{{"t":{due:.6f}}}}}'
    ).encode()


class Caller(asyncio.Protocol):
    """One kept-alive HTTP connection that appends, one request at a time."""

    def __init__(self, token: str, path: str) -> None:
        self.head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self.buffer = b""
        self.answer: asyncio.Future[None] | None = None

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
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(self.head + str(len(body)).encode() + b"\r\n\r\n" + body)
        await self.answer

    def close(self) -> None:
        self.transport.close()


_landing = memoryview(bytearray(512 * 1024))
"""Where every socket of this process is read into; what is not kept is overwritten by the next."""


Read = tuple[list[int], list[float]]
"""Of a frame: the numbers of its steps, and when each was due."""


class Watcher(asyncio.BufferedProtocol):
    """A websocket that reads only the heads of frames: how many, how long, and when each arrived.

    All sockets of an episode get the same frames, so one, the `reader`, keeps them whole, and the others are compared
    with it by the sum over the lengths of their frames.
    """

    def __init__(self, hello: bytes, reader: bool) -> None:
        self.hello, self.reader = hello, reader
        self.open = False
        self.head = b""
        self.left = self.opcode = 0
        self.packed = False
        self.kept = bytearray()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.frames = 0
        self.restart()

    def restart(self) -> None:
        """Count from here."""
        self.bytes = self.counted = self.sum = 0
        self.came: list[float] = []
        self.read: list[Read] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self.hello)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("no socket"))

    def get_buffer(self, hint: int) -> memoryview:
        return _landing

    def buffer_updated(self, size: int) -> None:
        at = 0 if self.open else self._answered(size)
        self.bytes += size - at
        while at < size:
            at = self._rest(at, size) if self.left else self._start(at, size)

    def _answered(self, size: int) -> int:
        """Read the response to the handshake; return where the frames start. It arrives in one piece on loopback."""
        answer = bytes(_landing[:size])
        end = answer.find(b"\r\n\r\n") + 4
        if not answer.startswith(b"HTTP/1.1 101") or end < 4:
            self.transport.abort()
            return size
        self.open = True
        self.ready.set_result(None)
        return end

    def _start(self, at: int, size: int) -> int:
        """Read a frame's head, which can arrive in two pieces; return where its payload starts."""
        known = len(self.head)
        head = self.head + bytes(_landing[at : min(at + 10 - known, size)])
        wide = 2 if len(head) < 2 or head[1] < 126 else 4 if head[1] == 126 else 10
        if len(head) < wide:
            self.head = head
            return size
        self.head = b""
        self.opcode, self.packed = head[0] & 15, bool(head[0] & 64)
        self.left = head[1] if wide == 2 else int.from_bytes(head[2:wide], "big")
        if self.opcode < 8:
            self.sum = zlib.crc32(head[:wide], self.sum)
        if not self.left:
            self._end()
        return at + wide - known

    def _rest(self, at: int, size: int) -> int:
        end = min(at + self.left, size)
        self.left -= end - at
        if self.reader or self.opcode > 7:
            self.kept += _landing[at:end]
        if not self.left:
            self._end()
        return end

    def _end(self) -> None:
        if self.opcode > 7:
            if self.opcode == 9:
                self.transport.write(b"\x8a" + bytes((0x80 | len(self.kept),)) + b"\0\0\0\0" + self.kept)
        else:
            self.frames += 1
            self.counted += 1
            self.came.append(time.perf_counter())
            if self.reader:
                self.read.append(_read(bytes(self.kept), self.packed))
        self.kept.clear()


def _read(data: bytes, packed: bool) -> Read:
    if packed:
        data = zlib.decompressobj(wbits=-15).decompress(data + b"\0\0\xff\xff")
    if b'"steps":[{' not in data:
        return [], []
    return [int(number) for number in SEQ.findall(data)], [float(due) for due in DUE.findall(data)]


class Watching:
    """A process full of watchers, controlled by lines of JSON: `open`, `restart`, `report`, `close`."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []

    async def open(self, port: int, path: str, token: str, sockets: int, packed: bool) -> dict[str, Any]:
        offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if packed else ""
        hello = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{offer}"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY.decode()}\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()
        loop = asyncio.get_running_loop()
        while len(self.watchers) < sockets:
            few = [Watcher(hello, not self.watchers and not number) for number in range(min(50, sockets))]
            await asyncio.gather(*(loop.create_connection(lambda one=one: one, "127.0.0.1", port) for one in few))  # type: ignore[misc]
            await asyncio.gather(*(one.ready for one in few))
            self.watchers += few
        while not all(one.frames for one in self.watchers):
            await asyncio.sleep(0.02)
        return {"open": len(self.watchers)}

    async def restart(self) -> dict[str, Any]:
        for one in self.watchers:
            one.restart()
        self.began, self.cpu = time.perf_counter(), sum(os.times()[:2])
        return {}

    async def report(self, last: int, seconds: float, ordered: bool = True) -> dict[str, Any]:
        """Wait until everything up to step `last` has arrived at all sockets, then report counts and delays."""
        end = time.perf_counter() + seconds
        while self._whole(last, ordered) < len(self.watchers) and time.perf_counter() < end:
            await asyncio.sleep(0.05)
        read = self.watchers[0].read
        sampled = [zip(one.came, read, strict=False) for one in self.watchers[::SAMPLED]]
        delays = [at - due for frames in sampled for at, (_, dues) in frames for due in dues if due]
        return {
            "sockets": len(self.watchers),
            "whole": self._whole(last, ordered),
            "frames": sum(one.counted for one in self.watchers),
            "frames_of_steps": sum(bool(numbers) for numbers, _ in read) * len(self.watchers),
            "bytes": sum(one.bytes for one in self.watchers),
            "seconds": time.perf_counter() - self.began,
            "cpu": sum(os.times()[:2]) - self.cpu,
            "delays": sorted(delays)[:: max(1, len(delays) // 5000)],
        }

    def _whole(self, last: int, ordered: bool) -> int:
        """Return how many sockets got every step once: the reader, and those with the same frames.

        In order, unless two web processes store an agent's appends in turn: they may tell of them in another one.
        """
        reader = self.watchers[0]
        numbers = [number for numbers, _ in reader.read for number in numbers]
        numbers = numbers if ordered else sorted(numbers)
        if not numbers or numbers != list(range(numbers[0], last + 1)):
            return 0
        return sum((one.counted, one.sum) == (reader.counted, reader.sum) for one in self.watchers)

    async def close(self) -> dict[str, Any]:
        for one in self.watchers:
            one.transport.close()
        self.watchers = []
        return {}

    async def run(self) -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            print(json.dumps(await getattr(self, command.pop("do"))(**command)), flush=True)


class _Raw(asyncio.Protocol):
    """A websocket that is written to as fast as it reads."""

    watchers: list[_Raw] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if b"\r\n\r\n" in self.buffer:
            accept = base64.b64encode(hashlib.sha1(KEY + MAGIC).digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            self.transport.write(head + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            self.transport.write(_raw_frame())
            self.watchers.append(self)
            self.buffer = b""


def _raw_frame() -> bytes:
    payload = b'{"type":"raw","x":"' + b"x" * (PLAIN_FRAME_BYTES - 25) + b'"}'
    return b"\x81\x7e" + len(payload).to_bytes(2, "big") + payload


async def raw_frames_server(sockets: int, seconds: float) -> None:
    """Wait for this many sockets, then write a frame to each in turn for this long.

    A socket whose last frame still waits is skipped: frames that pile up leave by the hundred in one write, and a live
    frame waits for no other.
    """
    server = await asyncio.get_running_loop().create_server(_Raw, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    while len(_Raw.watchers) < sockets:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    frame, end = _raw_frame(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for one in _Raw.watchers:
            if one.transport.get_write_buffer_size() == 0:
                one.transport.write(frame)
        await asyncio.sleep(0)
    for one in _Raw.watchers:
        one.transport.abort()


def keep_busy(folder: Path) -> None:
    """Copy large files as a busy neighbor does: four together, past the kernel's cache, each piece durable."""
    done, written = threading.Event(), [0] * 4

    def copy(number: int) -> None:
        block = mmap.mmap(-1, BLOCK_BYTES)  # such memory is aligned as O_DIRECT wants it
        block.write(os.urandom(BLOCK_BYTES))
        file = os.open(folder / f"busy-{number}", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
        while not done.is_set():
            os.pwritev(file, [block], written[number] % BLOCKS * BLOCK_BYTES)
            written[number] += 1
        os.close(file)
        os.unlink(folder / f"busy-{number}")

    threads = [threading.Thread(target=copy, args=(number,)) for number in range(len(written))]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join()
    print(sum(written) * BLOCK_BYTES // 1_000_000, flush=True)


if __name__ == "__main__" and sys.argv[1:2] == ["disk"]:
    keep_busy(Path(sys.argv[2]))
if __name__ == "__main__" and sys.argv[1:2] == ["watch"]:
    uvloop.run(Watching().run())
if __name__ == "__main__" and sys.argv[1:2] == ["raw"]:
    uvloop.run(raw_frames_server(int(sys.argv[2]), float(sys.argv[3])))
