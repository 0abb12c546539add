"""Length-prefixed JSON over sockets, the only language between the server and the processes that run dataset code.

Both ends use it; the reading end always names a limit, because the writer may be hostile. Strict JSON: no NaN, no
infinities.
"""

import asyncio
import gc
import json
import socket
import struct
from typing import Any, NoReturn

_HEAD = struct.Struct("!I")


class BadFrame(ValueError):
    """Not a frame of ours: too long, cut short, or not strict JSON."""


def encode(message: Any) -> bytes:
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(len(body)) + body


def decode(body: bytes) -> Any:
    """Without the garbage collector, which would look at millions of empty lists again and again, for seconds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"not strict JSON: {error}") from error
    finally:
        if collecting:
            gc.enable()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def send(sock: socket.socket, message: Any) -> None:
    sock.sendall(encode(message))


def receive(sock: socket.socket, limit: int) -> Any | None:
    """The next frame, None at a clean end of the stream."""
    head = _exactly(sock, _HEAD.size)
    if head is None:
        return None
    (length,) = _HEAD.unpack(head)
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes, more than {limit}")
    body = _exactly(sock, length)
    if body is None:
        raise BadFrame("the stream ended inside a frame")
    return decode(body)


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    missing = count
    while missing:
        part = sock.recv(min(missing, 1 << 20))
        if not part:
            if missing == count:
                return None
            raise BadFrame("the stream ended inside a frame")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def only_frame(stream: bytes) -> Any:
    """The one frame that a whole stream consists of."""
    if len(stream) < _HEAD.size or _HEAD.unpack_from(stream)[0] != len(stream) - _HEAD.size:
        raise BadFrame("not exactly one frame")
    return decode(stream[_HEAD.size :])


def whole(buffer: bytearray, limit: int) -> bytes | None:
    """The one frame that a growing buffer holds, None while it is not complete."""
    if len(buffer) < _HEAD.size:
        return None
    (length,) = _HEAD.unpack_from(buffer)
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes, more than {limit}")
    if len(buffer) < _HEAD.size + length:
        return None
    if len(buffer) > _HEAD.size + length:
        raise BadFrame("more than one frame")
    return bytes(memoryview(buffer)[_HEAD.size :])


async def read(reader: asyncio.StreamReader, limit: int) -> Any:
    """The next frame from an asyncio stream; BadFrame also at its end."""
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > limit:
            raise BadFrame(f"a frame of {length} bytes, more than {limit}")
        return decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise BadFrame("the process is gone") from error
