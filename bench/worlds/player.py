"""A raw websocket client with little work of its own, so that the server is what is measured; and its frames.

Shared by `bench/environment.py` and the hostile neighbor beside it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any


class Player(asyncio.Protocol):
    """One connection: a frame, and its response."""

    KEY = base64.b64encode(b"awmenv benchmark").decode()

    def __init__(self, path: str = "/ws") -> None:
        self.path = path
        self.buffer = bytearray()
        self.open = False
        self.ended = False
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.writable = asyncio.Event()
        self.writable.set()

    @classmethod
    async def connect(cls, port: int, path: str = "/ws") -> Player:
        _, player = await asyncio.get_running_loop().create_connection(lambda: cls(path), "127.0.0.1", port)
        await player.answer
        return player

    async def ask(self, frame: bytes) -> bytes:
        self.answer = asyncio.get_running_loop().create_future()
        if self.ended:
            raise ConnectionError("the server has hung up")
        self.transport.write(frame)
        return await self.answer

    async def pour(self, frames: bytes) -> None:
        """Write without waiting for any response, as fast as it is read."""
        if self.ended:
            raise ConnectionError("the server has hung up")
        self.transport.write(frames)
        await self.writable.wait()
        await asyncio.sleep(0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
        head = f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\nSec-WebSocket-Key: {self.KEY}\r\n\r\n"
        self.transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.open:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            del self.buffer[: end + 4]
            self.open = True
            self.answer.set_result(b"")
        at = 0
        while len(self.buffer) - at >= 2:
            size = {126: 2, 127: 8}.get(self.buffer[at + 1], 0)
            start = at + 2 + size
            length = int.from_bytes(self.buffer[at + 2 : start], "big") if size else self.buffer[at + 1]
            if len(self.buffer) < start + length:
                break
            self._came(self.buffer[at] & 15, bytes(self.buffer[start : start + length]))
            at = start + length
        del self.buffer[:at]

    def _came(self, opcode: int, body: bytes) -> None:
        if opcode == 9:
            self.transport.write(bytes((0x8A, 0x80 | len(body))) + b"\0\0\0\0" + body)
        elif opcode == 1 and not self.answer.done():
            self.answer.set_result(body)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        self.writable.set()
        if not self.answer.done():
            self.answer.set_exception(ConnectionError("the server hung up"))


def text_frame(text: str) -> bytes:
    """Return a client's frame, masked with zeros."""
    body = text.encode()
    if len(body) < 126:
        return bytes((0x81, 0x80 | len(body))) + b"\0\0\0\0" + body
    size = b"\xfe" + len(body).to_bytes(2, "big") if len(body) < 1 << 16 else b"\xff" + len(body).to_bytes(8, "big")
    return b"\x81" + size + b"\0\0\0\0" + body


def frame(kind: str, **data: Any) -> bytes:
    return text_frame(json.dumps({"type": kind, "data": data}))


def call_frame(call: dict[str, Any]) -> bytes:
    return frame("step", type="call_tool", tool_name=call["name"], arguments=call["arguments"])
