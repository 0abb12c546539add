"""A limit on each client's share of the event loop: small slices, and a fifth of the loop under heavy use.

Owns the places where a client decides how long the loop works: the parsing of received data, which may be thousands of
tiny frames, and the handling of its messages, which may be large or sent without waiting. `PacedSocket` and `Http` know
uvicorn below ASGI; under another server, or another way to start it, only the rest applies.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
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
SLICE_S = 0.001  # of parsing, after which others have a turn
MUCH_S = 0.003  # of work without a rest; a usual message takes a tenth of it
SMALL_S = 0.0005  # of a small request, uvicorn's part of it too
REST = 4  # the pause, as a multiple of the work before it
MOST_S = 1.0  # of one rest
USUAL = 0.5  # of the loop: a client that uses less never pauses


class Pace:
    """The recent use of the loop by one client; it decays over time."""

    resting = 0  # clients that have to wait now: they share a fifth of the loop

    def __init__(self) -> None:
        self._debt = 0.0
        self._since = time.monotonic()

    def rest(self, worked: float) -> float:
        """Return the seconds that a client has to pause after its work."""
        now = time.monotonic()
        self._debt = max(0.0, self._debt - (now - self._since) * USUAL) + worked
        self._since = now
        return min(MOST_S, REST * self._debt * (Pace.resting + 1)) if self._debt > MUCH_S else 0.0

    async def wait(self, worked: float) -> None:
        """Let others have their turn; return the pause that is due."""
        Pace.resting += 1
        try:
            await asyncio.sleep(self.rest(worked))
        finally:
            Pace.resting -= 1


_outer: ContextVar["Timed[Any] | None"] = ContextVar("outer", default=None)


class Timed(Generic[T]):
    """A coroutine that measures the processor time of its own steps, without its waits.

    `beside` is the longest time of those timed ones that it starts beside itself: each session of a batch has the share
    that it would have with a socket of its own. `paid` is the part after which the client has paused already.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.worked = self.beside = self.paid = 0.0

    @property
    def due(self) -> float:
        """Return the time after which the client has yet to pause."""
        return max(0.0, self.worked + self.beside - self.paid)

    def __await__(self) -> Generator[Any, Any, T]:
        outer = _outer.get()
        _outer.set(self)
        try:
            return (yield from self._steps())
        finally:
            _outer.set(outer)
            if outer is not None:
                outer.beside = max(outer.beside, self.worked)

    def _steps(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        step: Callable[[], Any] = functools.partial(next, steps)
        while True:
            # Processor time: what a busy machine takes from this thread is not the client's doing.
            started = time.thread_time()
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.worked += time.thread_time() - started
            try:
                step = functools.partial(steps.send, (yield awaited))
            # A cancellation, too, has to reach the coroutine inside.
            except BaseException as error:
                step = functools.partial(steps.throw, error)


_pace: ContextVar[Pace | None] = ContextVar("pace", default=None)


async def rested(work: Coroutine[Any, Any, T]) -> T:
    """Do one of several things that a message asks for in turn, and pause as after a message of its own."""
    timed, outer, pace = Timed(work), _outer.get(), _pace.get()
    result = await timed
    if outer is not None and pace is not None:
        # it is counted twice there: as a step of the message, and as work beside it
        outer.beside -= min(outer.beside, timed.worked)
        outer.paid += timed.worked
        await pace.wait(timed.worked)
    return result


async def converse(
    socket: WebSocket, answered: Callable[[str | None], Awaitable[str | None]], on_disconnect: Callable[[], None]
) -> None:
    """Answer every message of a socket in order, None for one that is no text, until one side ends it.

    One message is received ahead, so that a disconnect during an answer is noticed. `on_disconnect` is called then and
    can stop the work for this client. If another message is waiting, a disconnect is noticed only after its answer.
    """

    def look(received: asyncio.Future[Any]) -> None:
        if not received.cancelled() and (received.exception() or received.result()["type"] == "websocket.disconnect"):
            on_disconnect()

    async def exchange(message: Any) -> bool:
        answer = await answered(message.get("text"))
        if answer is None:
            await socket.close()
            return False
        await socket.send_text(answer)
        return True

    pace, ahead = Pace(), asyncio.ensure_future(socket.receive())
    _pace.set(pace)
    try:
        while (message := await ahead)["type"] != "websocket.disconnect":
            ahead = asyncio.ensure_future(socket.receive())
            ahead.add_done_callback(look)
            if not await (exchanging := Timed(exchange(message))):
                break
            await pace.wait(exchanging.due)
    except WebSocketDisconnect:
        return  # the client closed before its response
    finally:
        ahead.cancel()


class Admission:
    """A limit on requests without a session: all of them together count as one client."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._first = asyncio.Lock()

    async def served(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of one request, started once the pauses of those before it are over.

        Most of its cost is counted on arrival, so that hundreds do not start together.
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
    """Return the result of one request without a session, once the pause for its work is over."""
    working = Timed(work)
    result = await working
    await Pace().wait(working.worked)
    return result


class PacedSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which parses received data in slices, and stops at the first message."""

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
        """Parse for a millisecond at most; the rest waits for its turn, or for the reader of messages."""
        self._next = None
        started = time.thread_time()
        while self._unread and self._hungry and time.thread_time() - started < SLICE_S:
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
        """Whether more can be parsed: the previous message was read, and so were our responses, which pings have too.

        After our close only the end of the conversation is still awaited.
        """
        return self.writable.is_set() and (self.queue.empty() or self.close_sent)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._next is None and not self.transport.is_closing():
            self._look()

    def _read_on(self, reading: bool) -> None:
        if reading == self.read_paused:
            self.read_paused = not reading
            (self.transport.resume_reading if reading else self.transport.pause_reading)()

    async def receive(self) -> Any:
        """Receive as uvicorn does, but parse received data before reading more."""
        message = await self.queue.get()
        if self.queue.empty() and self._next is None and not self.transport.is_closing():
            self._look()
        return message


class Http(HttpToolsProtocol):
    """uvicorn's HTTP connection with bounded parsing: one request at a time, a bounded head, a declared body length."""

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
