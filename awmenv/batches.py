"""Many episodes over one connection: what they send in the same moment goes to the server in one message.

Owns the batches of `/ws` from the near side. Each episode is an `EnvironmentClient` like any other; only its line is
shared. For loops that step many episodes together, such as a trainer that samples for a whole group together.

    async with EnvironmentBatch("http://127.0.0.1:8100") as batch:
        async with batch.client() as one, batch.client() as other:
            await asyncio.gather(one.reset(scenario="a"), other.reset(scenario="b"))  # one message
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from awmenv.client import EnvironmentClient, connected
from awmenv.errors import ServerTimeout, SessionLost
from awmenv.sent import fitting, socket_url

CLOSE_S = 30.0


@dataclass(frozen=True)
class _Waiting:
    """A message of an episode as JSON, and the place of its response."""

    written: str
    timeout_s: float
    response: asyncio.Future[Any]


class EnvironmentBatch:
    """One connection to an environment server, shared by the clients that `client` makes.

    A batch is answered when its slowest message is. A message that its caller gives up ends its episode alone; a
    connection that is lost ends all of them, and clients with `restore` go on in new worlds.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, *, connect_timeout_s: float = 10.0) -> None:
        self.url = socket_url(url)
        self._headers = dict(headers or {})
        self._connect_timeout_s = connect_timeout_s
        self._socket: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._names = map(str, itertools.count(1))
        self._waiting: list[_Waiting] = []
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()

    def client(self, **options: Any) -> EnvironmentClient:
        """Return a client for one episode, with the timeouts and `restore` of `EnvironmentClient`."""
        return _BatchedClient(self, **options)

    async def connect(self) -> object:
        """Return the connection, made if there is none. Raises `ServerUnreachable`."""
        async with self._connecting:
            if self._socket is None:
                self._socket = await connected(self.url, self._headers, self._connect_timeout_s)
            return self._socket

    async def close(self) -> None:
        """End all episodes with the connection. Idempotent."""
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender
        socket, self._socket = self._socket, None
        self._fail(self._waiting, SessionLost("the connection was closed"))
        if socket is not None:
            await socket.close()

    def name(self) -> str:
        """Return a name for an episode that this connection has not had."""
        return next(self._names)

    def send(self, over: object, name: str, message: Mapping[str, Any], timeout_s: float) -> asyncio.Future[Any]:
        """Send a message of an episode with the next batch; return the future of its response frame."""
        response = asyncio.get_running_loop().create_future()
        if over is None or over is not self._socket:
            response.set_exception(SessionLost("the connection to the environment server was lost"))
            return response
        self._waiting.append(_Waiting(json.dumps({"session": name, **message}), timeout_s, response))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return response

    async def _send_all(self) -> None:
        while self._waiting and self._socket is not None:
            await asyncio.sleep(0)  # those that were answered together send together
            batch = self._next_batch()
            try:
                await self._exchange(self._socket, batch)
            except BaseException as error:
                self._drop(batch, error)
                if not isinstance(error, Exception):
                    raise

    def _next_batch(self) -> list[_Waiting]:
        """Take the messages that fit; one that is too long for company goes alone."""
        taken = fitting(one.written for one in self._waiting)
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch

    async def _exchange(self, socket: ClientConnection, batch: list[_Waiting]) -> None:
        text = f'{{"type": "batch", "data": {{"messages": [{", ".join(one.written for one in batch)}]}}}}'
        try:
            async with asyncio.timeout(max(one.timeout_s for one in batch)):
                with contextlib.suppress(ConnectionClosed):  # a full server says so first, and closes
                    await socket.send(text)
                answer = json.loads(await socket.recv())
        except TimeoutError as error:
            raise ServerTimeout("no response from the environment server to a batch in time") from error
        except ConnectionClosed as error:
            raise SessionLost(f"the environment server closed the connection: {error}") from error
        except (ValueError, RecursionError) as error:
            raise SessionLost("invalid frame from the environment server") from error
        frames = _frames(answer, len(batch))
        for pending, frame in zip(batch, frames, strict=True):
            # If its caller gave up, the response is dropped, and those after it keep their place.
            if not pending.response.done():
                pending.response.set_result(frame)

    def _drop(self, batch: list[_Waiting], error: BaseException) -> None:
        """Give up a connection whose order of responses is broken, and every message on it."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()
        failure = error if isinstance(error, SessionLost | ServerTimeout) else SessionLost(f"a batch failed: {error!r}")
        self._fail(batch, failure)
        self._fail(self._waiting, SessionLost(f"the connection to the environment server was lost: {error}"))

    def _fail(self, messages: list[_Waiting], error: Exception) -> None:
        for pending in messages:
            if not pending.response.done():
                pending.response.set_exception(error)
        messages.clear()


def _frames(answer: Any, count: int) -> list[Any]:
    """Return the frames of a batch's response; an error about the whole batch is the response to each."""
    if isinstance(answer, dict) and answer.get("type") == "error":
        return [answer] * count
    try:
        frames = answer["data"]["results"] if answer["type"] == "batch" else None
    except (TypeError, KeyError):
        frames = None
    if not isinstance(frames, list) or len(frames) != count:
        raise SessionLost("the environment server did not answer a batch; is it older than this client?")
    return frames


class _BatchedClient(EnvironmentClient):
    """An episode of a batch: `EnvironmentClient` over a line that others use, too."""

    def __init__(self, batch: EnvironmentBatch, **options: Any) -> None:
        super().__init__(batch.url, **options)
        self._batch = batch
        self._over: object = None
        self._name = ""

    async def open(self) -> None:
        if self._lost is not None:
            raise SessionLost(self._lost)
        self._over, self._name = await self._batch.connect(), self._batch.name()

    async def _disconnect(self) -> None:
        over, self._over = self._over, None
        self._lost = self._lost or "the connection was closed"
        if over is not None:
            closed = self._batch.send(over, self._name, {"type": "close"}, CLOSE_S)
            with contextlib.suppress(SessionLost, ServerTimeout):
                await closed

    async def _lose(self, reason: str) -> None:
        self._lost = reason
        over, self._over = self._over, None
        # no one waits for it: the server ends the session when it reads this, or with the connection
        self._batch.send(over, self._name, {"type": "close"}, CLOSE_S).add_done_callback(asyncio.Future.exception)

    async def _exchange(self, message: dict[str, Any], answer_kind: str, timeout_s: float) -> dict[str, Any]:
        async with self._turn:
            if self._lost is not None or self._over is None:
                raise SessionLost(self._lost or "the client is not connected")
            try:
                frame = await self._batch.send(self._over, self._name, message, timeout_s)
            except (SessionLost, ServerTimeout) as error:
                self._lost, self._over = str(error), None
                raise
            except asyncio.CancelledError:
                await self._lose("a request was cancelled before its response")
                raise
        return await self._accepted(frame, answer_kind)
