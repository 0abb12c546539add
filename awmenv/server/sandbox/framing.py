"""Length-prefixed frames over sockets, the only language between the server and the processes that run dataset code.

Owns the frames; their bodies are JSON. Both ends use it, and the reading end always names a limit, because the writer
may be hostile. The confined ends parse here, with the standard library; what they send, the server reads with `strict`.
"""

import asyncio
import json
import socket
import struct
from typing import Any, NoReturn

_HEAD = struct.Struct("!I")


class BadFrame(ValueError):
    """An invalid frame: too long, incomplete, or not strict JSON."""


def encode(message: Any) -> bytes:
    # As ASCII: dataset code can return a lone surrogate, which has no UTF-8.
    return _framed(json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii"))


def _framed(body: bytes) -> bytes:
    return _HEAD.pack(len(body)) + body


def decode(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    # Deep nesting exhausts the parser's stack, and the writer can be hostile.
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"not strict JSON: {error}") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def literal(text: str) -> bytes:
    """Return a text as JSON, as it may stand inside any other JSON."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


def answer(head: dict[str, Any], text: bytes) -> bytes:
    """Return a frame of two parts: a short head, and on a line of its own a `literal`, which is forwarded unparsed."""
    return _framed(json.dumps(head, allow_nan=False).encode("ascii") + b"\n" + text)


def send(sock: socket.socket, message: Any) -> None:
    sock.sendall(encode(message))


def receive(sock: socket.socket, limit: int) -> Any | None:
    """Return the next frame, None at a clean end of the stream."""
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
        # At most a megabyte, so that memory grows with what arrives, not with the length that the head claims.
        part = sock.recv(min(missing, 1 << 20))
        if not part:
            if missing == count:
                return None
            raise BadFrame("the stream ended inside a frame")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def only_body(stream: bytes) -> bytes:
    """Return the body of a stream's only frame."""
    if len(stream) < _HEAD.size or _HEAD.unpack_from(stream)[0] != len(stream) - _HEAD.size:
        raise BadFrame("not exactly one frame")
    return stream[_HEAD.size :]


def whole(buffer: bytearray, limit: int) -> bytes | None:
    """Return the body of a growing buffer's only frame; None while it is incomplete."""
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


async def read_body(reader: asyncio.StreamReader, limit: int) -> bytes:
    """Return the body of the next frame of an asyncio stream; BadFrame also at its end."""
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > limit:
            raise BadFrame(f"a frame of {length} bytes, more than {limit}")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise BadFrame("the process is gone") from error
