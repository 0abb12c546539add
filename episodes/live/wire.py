"""Websocket frames for many sockets: their bytes are made once and written to each socket's transport.

Owns the one place that knows the server below ASGI. From a server a text frame is the same bytes for everyone, and
making it again for each of a thousand sockets is most of what a fan-out would cost. Compressed it is the same bytes
still, if no frame refers to one before it; `FrameSocket` agrees on that with any client that offers compression. The
web process runs as `uvicorn --ws episodes.live.wire:FrameSocket`. Under another server frames go through ASGI. Called
by `hub.py` and `consumers.py`.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory

PACKED_ABOVE_BYTES = 1024
"""Below this compressing gains less than it costs."""
# 32 KB, the largest window of the protocol and the one that clients offer unless they say otherwise
WINDOW_BITS = 15
LEVEL = 1
WAITING_BYTES = 1024 * 1024
"""How much a transport takes before its socket counts as stalled. Frames wait there by reference."""
SHARED = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True, client_no_context_takeover=True, compress_settings={"level": LEVEL}
)


class FrameSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which takes compression of single frames, without a shared window."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # in place of uvicorn's extension, whose frames refer to earlier ones of the same socket
        self.conn.available_extensions = [SHARED]


class Payload:
    """The frames of one moment: their texts, and their bytes once a socket writes them."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.size = sum(map(len, texts))
        self._seen: dict[Hashable, Payload] = {}

    def seen(self, lens: Hashable, through: Callable[[str], str]) -> Payload:
        """Return the payload as it is seen through a lens: made once for all sockets of that lens, and itself where
        the lens hides nothing of it."""
        if lens not in self._seen:
            texts = tuple(map(through, self.texts))
            self._seen[lens] = self if texts == self.texts else Payload(*texts)
        return self._seen[lens]

    @functools.cached_property
    def plain(self) -> bytes:
        """Whole text frames as they go over the line, unmasked as a server's are."""
        # 0x81: last fragment, text (RFC 6455)
        return b"".join(_frame(0x81, text.encode()) for text in self.texts)

    @functools.cached_property
    def packed(self) -> bytes:
        """The same for sockets that take compressed frames."""
        return b"".join(map(_packed, self.texts))


def _packed(text: str) -> bytes:
    data = text.encode()
    if len(data) < PACKED_ABOVE_BYTES:
        return _frame(0x81, data)
    # negative bits: raw deflate without a zlib header, as the protocol wants it
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -WINDOW_BITS)
    # the end of a flushed block is left out, as the protocol says
    # 0xC1: RSV1 marks the frame as compressed (RFC 7692)
    return _frame(0xC1, (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4])


def _frame(head: int, data: bytes) -> bytes:
    size = len(data)
    # a length takes 7 bits, or 126 and 16 bits, or 127 and 64 bits; a server does not mask (RFC 6455)
    if size < 126:
        return bytes((head, size)) + data
    if size < 65536:
        return bytes((head, 126)) + size.to_bytes(2, "big") + data
    return bytes((head, 127)) + size.to_bytes(8, "big") + data


class SocketWriter:
    """The way to one socket."""

    __slots__ = ("_asgi", "_packs", "_socket")

    def __init__(self, send: Any) -> None:
        """Take the server's own `send`; what middleware made of it is not known here."""
        self._asgi = send
        self._socket, self._packs = _known(getattr(send, "__self__", None))

    def write(self, payload: Payload) -> bool:
        """Write immediately. False while the transport is full or closing, or not known."""
        socket = self._socket
        # nothing can follow a close frame; `writable` is cleared while the transport is above its limit
        if socket is None or socket.close_sent or socket.disconnected or not socket.writable.is_set():
            return False
        socket.transport.write(payload.packed if self._packs else payload.plain)
        return True

    def abort(self) -> None:
        """Drop the connection, whatever still waits to be written."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def send(self, payload: Payload) -> None:
        """Write once the socket takes it. Raises `ConnectionError` when there is none any more."""
        if self._socket is None:
            for text in payload.texts:
                await self._asgi({"type": "websocket.send", "text": text})
            return
        await self._socket.writable.wait()
        if not self.write(payload):
            raise ConnectionError("the socket is closed")


def _known(socket: Any) -> tuple[WebSocketsSansIOProtocol | None, bool]:
    """Return the protocol below a `send`, if frames may be written past it, and whether they may be compressed."""
    if not isinstance(socket, WebSocketsSansIOProtocol) or not _shares(socket.conn.extensions):
        return None, False
    socket.transport.set_write_buffer_limits(high=WAITING_BYTES)
    agreed = socket.conn.extensions
    # a client that asks for a smaller window can get uncompressed frames
    return socket, bool(agreed) and agreed[0].local_max_window_bits >= WINDOW_BITS  # type: ignore[attr-defined]


def _shares(agreed: Sequence[Extension]) -> bool:
    """Return whether no frame changes what a later one means."""
    return not agreed or (isinstance(agreed[0], PerMessageDeflate) and agreed[0].local_no_context_takeover)
