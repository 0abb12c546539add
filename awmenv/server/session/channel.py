"""The server's end of one session's socket: one request, one response, and no byte out of turn.

Owns reading the output of an untrusted process, within bounds small enough not to delay others. Called by `scenario`,
on the server's loop; the frames are `framing`'s. Plain callbacks instead of asyncio's streams: a tool call is little
more than this exchange.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from awmenv.errors import HostFailed
from awmenv.server import strict
from awmenv.server.sandbox import framing

MAX_TEXT = 1 << 20  # of an answer's text as JSON
HEAD = strict.Bounds(size=128 << 10, values=20, depth=4)
MAX_ANSWER = HEAD.size + 1 + MAX_TEXT
SOON_S = 1.0  # an answer within it costs no look at the process
PATIENCE = 4  # times the limit, for a process that never gets a core


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """A session's response: a short head, and a text, also as the JSON that arrived."""

    head: dict[str, Any]
    text: str
    literal: bytes


class ProcessChannel(asyncio.Protocol):
    """A channel, made by `over`. After a failure every exchange fails."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._broken: str | None = None
        self.other_side_closed = False
        """The other end closed, without an earlier failure."""

    @classmethod
    async def over(cls, sock: socket.socket) -> "ProcessChannel":
        _transport, channel = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        return channel

    async def ask(self, message: dict[str, Any], limit_s: float, held_up: Callable[[], float]) -> ProcessAnswer:
        """Send one request and return its response.

        Raises HostFailed on a timeout, an invalid response or an ended process; the caller then stops it. `held_up`
        returns the seconds that the process has waited for a core so far: they do not count.
        """
        if self._broken is not None:
            raise HostFailed(self._broken)
        self._answer = asyncio.get_running_loop().create_future()
        clock = _Timeout(self._answer, limit_s, held_up)
        try:
            self._transport.write(framing.encode(message))
            return _read_answer(await self._answer)
        except TimeoutError as error:
            raise HostFailed(f"timed out after {limit_s:g} s") from error
        except framing.BadFrame as error:
            raise HostFailed(str(error)) from error
        finally:
            clock.stop()
            self._answer = None

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
        # A process that sends without being asked is ended: nothing of it is kept for the next request.
        if self._answer is None or self._answer.done():
            self._break("unexpected message from the scenario process")
        elif body is not None:
            self._buffer.clear()
            self._answer.set_result(body)

    def connection_lost(self, _error: Exception | None) -> None:
        self.other_side_closed = self._broken is None
        self._break("the process is gone")

    def _break(self, reason: str) -> None:
        """Stop reading: an untrusted process could send forever."""
        self._broken = self._broken or reason
        self._buffer.clear()
        self._transport.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(framing.BadFrame(self._broken))


def _read_answer(body: bytes) -> ProcessAnswer:
    head, _, literal = body.partition(b"\n")
    if len(literal) > MAX_TEXT:
        raise framing.BadFrame(f"a text of {len(literal)} bytes, more than {MAX_TEXT}")
    fields = strict.read(head, HEAD)
    if type(fields) is not dict:
        raise framing.BadFrame("invalid response from the scenario process")
    return ProcessAnswer(fields, strict.read_text(literal), literal)


class _Timeout:
    """A timer that ends the wait for a response after the process has had its time."""

    def __init__(self, answer: asyncio.Future[bytes], limit_s: float, held_up: Callable[[], float]) -> None:
        self._answer = answer
        self._held_up = held_up
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + PATIENCE * limit_s
        soon = min(SOON_S, limit_s / 2)
        self._timer = self._loop.call_later(soon, self._late, limit_s - soon)

    def _late(self, more_s: float) -> None:
        """Allow more time once, and then for as long as the process waited for a core."""
        more_s = min(more_s, self._ends - self._loop.time())
        if more_s > 0.01:
            before = self._held_up()
            self._timer = self._loop.call_later(more_s, lambda: self._late(self._held_up() - before))
        elif not self._answer.done():
            self._answer.set_exception(TimeoutError())

    def stop(self) -> None:
        self._timer.cancel()
