"""The server's end of one session's socket: one request, one answer, and not a byte out of turn.

Owns reading what a hostile process writes, within a bound. Called by `scenario`, on the server's loop; the frames are
`framing`'s. Plain callbacks instead of asyncio's streams: a tool call is little else than this exchange.
"""

import asyncio
import socket
from typing import Any

from awmenv.errors import HostFailed
from awmenv.server import framing

MAX_ANSWER = 12 << 20


class Channel(asyncio.Protocol):
    """Use `over`; once anything went wrong, every exchange fails."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._broken: str | None = None

    @classmethod
    async def over(cls, sock: socket.socket) -> "Channel":
        _transport, channel = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        return channel

    async def ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """One exchange. Lateness, nonsense and a process that is gone are a HostFailed; the caller then ends it."""
        if self._broken is not None:
            raise HostFailed(self._broken)
        self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                self._transport.write(framing.encode(message))
                answer = framing.decode(await self._answer)
        except TimeoutError as error:
            raise HostFailed(f"timed out after {timeout_s:g} s") from error
        except framing.BadFrame as error:
            raise HostFailed(str(error)) from error
        finally:
            self._answer = None
        if type(answer) is not dict:
            raise HostFailed("the scenario's process answered nonsense")
        return answer

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            body = framing.whole(self._buffer, MAX_ANSWER)
        except framing.BadFrame as error:
            self._break(str(error))
            return
        if self._answer is None or self._answer.done():
            self._break("the process spoke out of turn")
        elif body is not None:
            self._buffer.clear()
            self._answer.set_result(body)

    def connection_lost(self, _error: Exception | None) -> None:
        self._break("the process is gone")

    def _break(self, reason: str) -> None:
        """No more is read: what is hostile could go on for ever."""
        self._broken = self._broken or reason
        self._buffer.clear()
        self._transport.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(framing.BadFrame(self._broken))
