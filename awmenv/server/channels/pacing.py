"""How much of the event loop one client may have: little at a time, and a fifth of it once it takes much.

Owns the places where a client sets how long the loop works: the parsing of what its connection received at once, which
may be thousands of tiny frames, and the handling of its messages, which may be large, or never have to be waited for.
`Socket` and `Http` know uvicorn below ASGI; under another server, or another way to start it, the rest holds alone.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from awmenv.server import strict

T = TypeVar("T")

FRAME = strict.Bounds(size=256 << 10, values=5_000)  # of any message of a client
MAX_RECEIVED = 1 << 20  # a longer message ends its connection; up to here it is answered with an error
MAX_FRAGMENTS = 1000  # of a message: empty ones would be kept for ever
MAX_HEADERS, MAX_HEAD = 64, 64 << 10
PIECE = 1024
AT_ONCE_S = 0.001  # of parsing, after which others have a turn
MUCH_S = 0.003  # of work without a rest; a usual message takes a tenth of it
SMALL_S = 0.0005  # of a small request, uvicorn's part of it too
REST = 4  # times the work, before there is more of it
MOST_S = 1.0  # of one rest
USUAL = 0.5  # of the loop: whoever takes less has nothing to make up for


class Pace:
    """The recent use of the loop by one client; it decays over time."""

    resting = 0  # clients that have to wait now: they share a fifth of the loop

    def __init__(self) -> None:
        self._debt = 0.0
        self._since = time.monotonic()

    def rest(self, worked: float) -> float:
        """Return seconds for which a client that has just made the loop work has to wait."""
        now = time.monotonic()
        self._debt = max(0.0, self._debt - (now - self._since) * USUAL) + worked
        self._since = now
        return min(MOST_S, REST * self._debt * (Pace.resting + 1)) if self._debt > MUCH_S else 0.0

    async def wait(self, worked: float) -> None:
        """Let others have their turn, then return; the same as a wait."""
        Pace.resting += 1
        try:
            await asyncio.sleep(self.rest(worked))
        finally:
            Pace.resting -= 1


class Timed(Generic[T]):
    """A coroutine that notes the processor time of its own steps, and not what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.worked = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        step: Callable[[], Any] = functools.partial(next, steps)
        while True:
            started = time.thread_time()
            try:
                wanted = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.worked += time.thread_time() - started
            try:
                step = functools.partial(steps.send, (yield wanted))
            except BaseException as error:
                step = functools.partial(steps.throw, error)


async def converse(
    socket: WebSocket, answered: Callable[[str | None], Awaitable[str | None]], gone: Callable[[], None]
) -> None:
    """Answer every message of a socket in order, None for one that is no text, until one side ends it.

    One message is received ahead, so that a client that leaves in the middle of an answer is noticed: `gone` is called
    then, and may end what still works for it. Behind a message that waits, an end is only seen after the answer.
    """

    def look(received: asyncio.Future[Any]) -> None:
        if not received.cancelled() and (received.exception() or received.result()["type"] == "websocket.disconnect"):
            gone()

    async def exchange(message: Any) -> bool:
        answer = await answered(message.get("text"))
        if answer is None:
            await socket.close()
            return False
        await socket.send_text(answer)
        return True

    pace, ahead = Pace(), asyncio.ensure_future(socket.receive())
    try:
        while (message := await ahead)["type"] != "websocket.disconnect":
            ahead = asyncio.ensure_future(socket.receive())
            ahead.add_done_callback(look)
            if not await (exchanging := Timed(exchange(message))):
                break
            await pace.wait(exchanging.worked)
    except WebSocketDisconnect:
        return  # it closed before its answer
    finally:
        ahead.cancel()


class Admission:
    """Lets in requests that belong to no session: all of them together are one client, whatever it is called."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._first = asyncio.Lock()

    async def served(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of one request, begun once those before it are made up for.

        Most of what it costs is counted when it comes in, so that hundreds do not come in at once.
        """
        working = Timed(work)
        try:
            async with self._first:
                await asyncio.sleep(self._pace.rest(SMALL_S))
        except BaseException:
            work.close()
            raise
        try:
            return await working
        finally:
            self._pace.rest(max(0.0, working.worked - SMALL_S))


async def paced(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of one request that stands for itself, told once its work is made up for."""
    working = Timed(work)
    result = await working
    await Pace().wait(working.worked)
    return result


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which parses what has come piece by piece, and stops at the first message."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = bytearray()
        self._next: asyncio.Handle | None = None
        self._pace = Pace()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if self._next is None:
            self._look()

    def _look(self) -> None:
        """Parse for a millisecond at the most; the rest waits for its turn, or for who reads messages."""
        self._next = None
        started = time.thread_time()
        while self._unread and self._hungry and time.thread_time() - started < AT_ONCE_S:
            piece = bytes(self._unread[:PIECE])
            del self._unread[:PIECE]
            super().data_received(piece)
        if len(self.frames) > MAX_FRAGMENTS:
            self.transport.abort()
        if self.transport.is_closing():
            self._unread.clear()
            return
        rest = self._pace.rest(time.thread_time() - started)
        more = self._hungry and (rest > 0 or bool(self._unread))
        self._read_on(self._hungry and not more)
        if more:
            self._next = self.loop.call_later(rest, self._look)

    @property
    def _hungry(self) -> bool:
        """Whether more may be parsed: the message before was taken, and so were our answers, which pings have too.

        After our close only the end of the conversation is still awaited.
        """
        return self.writable.is_set() and (self.queue.empty() or self.close_sent)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._next is None and not self.transport.is_closing():
            self._look()

    def _read_on(self, wanted: bool) -> None:
        if wanted == self.read_paused:
            self.read_paused = not wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    async def receive(self) -> Any:
        """Receive as uvicorn does, but parse what was received already before more is read."""
        message = await self.queue.get()
        if self.queue.empty() and self._next is None and not self.transport.is_closing():
            self._look()
        return message


class Http(HttpToolsProtocol):
    """uvicorn's HTTP connection, which takes what is parsed in no time: one request after the other, with a head of
    some size, and a body whose length it tells.
    """

    _head: int | None = 0  # bytes of a head that is not complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response("The head of this request is too long.")

    def on_message_begin(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            raise ValueError("a request before the answer to the one before")
        self._head = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")
        if name.lower() == b"transfer-encoding":
            raise ValueError("a body of unknown length")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()
