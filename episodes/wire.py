"""One websocket frame for many sockets: its bytes are made once and written to each socket's transport.

Owns the one place that knows the server below ASGI. Under uvicorn's `websockets-sansio` without compression a text
frame from a server is the same bytes for everybody, and making it again for each of a thousand sockets is most of what
a fan-out would cost. Under any other server `writer_of` gives None and frames go through ASGI. Called by `hub.py` and
`consumers.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

try:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol as Known
except ImportError:  # another server, or a uvicorn that has moved its module
    Known = None  # type: ignore[assignment,misc]

Writer = Callable[["Payload"], bool]


class Payload:
    """A frame's text, and its bytes once somebody writes them."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __len__(self) -> int:
        return len(self.text)

    @functools.cached_property
    def frame(self) -> bytes:
        """The whole text frame as it goes over the line, unmasked as a server's are."""
        data = self.text.encode()
        size = len(data)
        if size < 126:
            return bytes((0x81, size)) + data
        if size < 65536:
            return b"\x81\x7e" + size.to_bytes(2, "big") + data
        return b"\x81\x7f" + size.to_bytes(8, "big") + data


def writer_of(send: Any) -> Writer | None:
    """What writes a payload to the socket behind an ASGI `send` and says whether it did: not while the transport's
    buffer is full or the socket is closing."""
    socket = getattr(send, "__self__", None)
    if Known is None or not isinstance(socket, Known) or socket.conn.extensions:
        return None
    write, writable = socket.transport.write, socket.writable

    def direct(payload: Payload) -> bool:
        if socket.close_sent or socket.disconnected or not writable.is_set():
            return False
        write(payload.frame)
        return True

    return direct
