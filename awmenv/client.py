"""A thin client of environment servers over plain `/ws`: JSON frames, one response per request, no openenv.

Owns the wire from the near side, for rollout loops and Django processes. A dropped socket is a lost episode and is said
so, because a new connection would silently be another, un-reset world. With `restore=True` the client resets a new
world, repeats the episode's calls, and goes on only if they bring what they brought before.

    async with EnvironmentClient("http://127.0.0.1:8100") as env:
        await env.reset(scenario="helpdesk_1", task_idx=0)
        tools = await env.list_tools()
        observation = await env.call_tool(tools[0].name, {})
        outcome = await env.verify(final_answer="done")
"""

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.frames import CloseCode

from awmenv import spans
from awmenv.errors import (
    CapacityReached,
    Diverged,
    ResetFailed,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    SessionLost,
    WorldDiffers,
    WorldLost,
)
from awmenv.models import Observation, SessionState, Tool, kind_of, one_line
from awmenv.repeated import OTHER_DATABASE, Made, Restored, difference_of, digest_of
from awmenv.sent import MOST, fitting, refusal_of, socket_url

log = logging.getLogger(__name__)
Found = TypeVar("Found")
MAX_FRAME = 128 * 1024 * 1024
RESTORES_A_CALL, RESTORES = 2, 5
"""Lost worlds in a call, and in an episode, after which it ends: the calls themselves may be the cause."""
RESTORE_PATIENCE_S = 60.0
PING_S = 20.0
PONG_S = 60.0


class EnvironmentClient:
    """One episode's connection.

    It can stay open for hours: pings hold it while the caller waits for a person.

    With `restore`, a connection or a world that is lost during a call or before the outcome is restored from the calls
    so far. A world that ended is reported if the reset asked for `state_diff`. Raises `Diverged` if the new world
    differs.
    """

    max_frame = MAX_FRAME

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        connect_timeout_s: float = 10.0,
        reset_timeout_s: float = 180.0,
        step_timeout_s: float = 120.0,
        verify_timeout_s: float = 300.0,
        restore: bool = False,
    ) -> None:
        self.url = socket_url(url)
        self._headers = dict(headers or {})
        self._connect_timeout_s = connect_timeout_s
        self._reset_timeout_s = reset_timeout_s
        self._step_timeout_s = step_timeout_s
        self._verify_timeout_s = verify_timeout_s
        self._socket: ClientConnection | None = None
        self._lost: str | None = None
        self._control_key: str | None = None
        self._turn = asyncio.Lock()
        self._restores = restore
        self._restored = 0
        self._start: dict[str, Any] = {}
        self._made: list[Made] = []
        self._world: dict[str, Any] | None = None
        self.restored = Restored()
        self._unlike = ""
        self._batches = True
        """Whether the server takes many calls of this session in one message, as far as is known."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. A client that lost its connection cannot be opened again."""
        if self._lost is not None:
            raise SessionLost(self._lost)
        self._socket = await connected(self.url, self._headers, self._connect_timeout_s, self.max_frame)

    async def close(self) -> None:
        """End the episode with its connection. Idempotent; a closed client restores nothing."""
        self._restores = False
        await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._socket = self._socket, None
        self._lost = self._lost or "the connection was closed"
        if connection is not None:
            await connection.close()

    async def reset(
        self,
        *,
        scenario: str,
        task_idx: int | None = None,
        control_key: str | None = None,
        state_diff: bool = False,
        world: bool | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Observation:
        """Start the episode.

        With `world` the server records what a replay needs (by default if this client restores). Other arguments of the
        server's `reset` pass through. Raises ResetFailed with the server's reason, or Diverged if the world of a record
        cannot be made any more. A key that was set once is sent with every further reset, because the server wants it.
        """
        control_key = control_key or self._control_key
        data = {"scenario": scenario, "task_idx": task_idx, "control_key": control_key, **arguments}
        data = {name: value for name, value in data.items() if value is not None}
        if state_diff:
            data["state_diff"] = True
        if world := self._restores if world is None else world:
            data["world"] = world if isinstance(world, bool) else dict(world)
        observation = await self._observe({"type": "reset", "data": data}, self._reset_timeout_s)
        if observation.reward_type == "reset_error":
            why, code = observation.error or "reset failed", str(observation.metadata.get("code", "reset_error"))
            if code == WorldDiffers.code:
                raise Diverged(f"The world cannot be restored. {why}")
            raise ResetFailed(why, code)
        self._control_key = control_key
        self._start = {"scenario": scenario, "task_idx": task_idx, "state_diff": state_diff, **arguments}
        self._made, self.restored, self._unlike = [], Restored(), ""
        begun = observation.metadata.get("world")
        self._world = begun if isinstance(begun, dict) else None
        return observation

    async def reset_environment(self, **arguments: Any) -> dict[str, Any]:
        """Return a plain OpenEnv reset with any arguments, for environments other than AWM: the frame's data."""
        return await self._data({"type": "reset", "data": arguments}, self._reset_timeout_s)

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Return a plain OpenEnv step with any action: the frame's data."""
        return await self._data({"type": "step", "data": dict(action)}, self._step_timeout_s)

    async def list_tools(self) -> list[Tool]:
        observation = await self._observe({"type": "step", "data": {"type": "list_tools"}}, self._step_timeout_s)
        if observation.tools is None or observation.error:
            raise ServerRefused(observation.error or "the server listed no tools", "list_tools")
        return observation.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Observation:
        """Make one tool call.

        A refused call is an observation with `error`, as the agent should see it. Transport faults raise, and so does a
        world that ended from outside (`WorldLost`; reported if the reset asked for `state_diff`).
        """
        made = dict(arguments or {})
        observation = await self._surely(lambda: self._call(name, made))
        self._made.append(Made(name, made, digest_of(observation), observation.metadata.get("mark")))
        return observation

    async def _call(self, name: str, arguments: dict[str, Any], mark: Mapping[str, Any] | None = None) -> Observation:
        return _present(await self._tool(name, arguments, self._step_timeout_s, mark))

    async def _surely(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """Return the result of `ask`. A world that is lost on the way is restored first, if this client does that."""
        tries = 0
        while True:
            try:
                if tries:
                    await self._restore()
                return await ask()
            # A lost session as well, but not restored: the call itself may take that long.
            except ServerTimeout:
                raise
            except SessionLost as lost:
                tries += 1
                self._restored += 1
                if not self._restores or tries > RESTORES_A_CALL or self._restored > RESTORES:
                    raise
                log.warning("restoring the world of %s: %s", self._start.get("scenario"), lost)

    async def _restore(self) -> None:
        """Restore a lost world.

        1. Connect again, waiting for an unavailable or full server, or to another one. 2. Reset. 3. Make all calls
        again and compare.
        """
        give_up = time.monotonic() + RESTORE_PATIENCE_S
        made, world = self._made, self._world
        while True:
            await self._disconnect()
            self._lost = None
            try:
                await self.open()
                return await self.replay(made, world)
            # a full one as well: it may have got the sessions of a server that was lost
            except (ServerUnreachable, CapacityReached):
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(1)
                await self._move()
            finally:
                # a replay that is lost halfway knows a part of the calls, and the next one repeats all of them
                if len(self._made) < len(made):
                    self._made, self._world = made, world

    async def _move(self) -> None:
        """Choose another server after this one was unreachable. Here there is no other: it is waited for."""

    @property
    def world(self) -> dict[str, Any] | None:
        """The start of the recorded world, for `replay`; None if the server does not record."""
        return self._world

    async def begin_as(self, world: Mapping[str, Any]) -> Observation:
        """Reset to a recorded world, with the arguments of the last reset. Raises `Diverged` if that is impossible."""
        return await EnvironmentClient.reset(self, **self._start, world=world)

    async def call_again(
        self, name: str, arguments: Mapping[str, Any], mark: Mapping[str, Any] | None = None
    ) -> Observation:
        """Make a recorded call again, at its time.

        Raises `Diverged` if its mark has another result or database. A client that restores leaves another database to
        `settle`.
        """
        made = Made(name, dict(arguments), "", dict(mark) if mark else None)
        (observation,) = await self._surely(lambda: self._together([made]))
        self._compare(made, observation)
        return observation

    async def calls_again(
        self, calls: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> AsyncIterator[Observation]:
        """Make recorded calls again, as `call_again` does: name, arguments and mark of each. Many of them take one
        message to the server, and one back. Yields each result once it is compared."""
        left = [Made(name, dict(arguments), "", dict(mark) if mark else None) for name, arguments, mark in calls]
        while left:
            observations = await self._surely(functools.partial(self._together, left))
            for call, observation in zip(left, observations, strict=False):
                self._compare(call, observation)
                yield observation
            left = left[len(observations) :]

    async def _together(self, calls: Sequence[Made]) -> list[Observation]:
        """Make the first of these calls with one message, and return their results; at least one."""
        messages = [
            {"type": "step", "data": self._action(call.name, call.arguments, call.mark)} for call in calls[:MOST]
        ]
        messages = messages[: fitting(map(json.dumps, messages))]
        if len(messages) < 2 or not self._batches:
            return [await self._call(calls[0].name, calls[0].arguments, calls[0].mark)]
        batch, limit_s = {"type": "batch", "data": {"messages": messages}}, self._step_timeout_s * len(messages)
        try:
            frames = (await self._exchange(batch, "batch", limit_s)).get("results")
        except ServerRefused:
            self._batches = False  # one that knows no batches has done nothing of it
            return await self._together(calls)
        if not isinstance(frames, list) or not 0 < len(frames) <= len(messages):
            await self._lose("the environment server did not answer a batch")
            raise SessionLost(self._lost)
        return [_present(Observation.from_wire(await self._accepted(one, "observation"))) for one in frames]

    async def replay(self, made: Iterable[Made], world: Mapping[str, Any] | None = None) -> None:
        """Reset and make the calls again, each at its time, comparing each result.

        Without `world`, only the results of calls are compared. Raises `Diverged` with the first difference; see
        `restored`.
        """
        left = list(made) if world else [replace(call, mark=None) for call in made]
        if world:
            await self.begin_as(world)
        else:
            await EnvironmentClient.reset(self, **self._start)
        while left:
            observations = await self._together(left)
            for call, observation in zip(left, observations, strict=False):
                self._compare(call, observation)
            left = left[len(observations) :]
        await self.settle()

    async def settle(self) -> None:
        """Declare that all recorded calls are made. Raises `Diverged` if the database differs."""
        if self._unlike:
            raise Diverged(f"The world cannot be restored: {self._unlike}.")

    def _compare(self, call: Made, observation: Observation) -> None:
        number, mark = len(self._made) + 1, observation.metadata.get("mark") or {}
        problem = difference_of(call, observation, self.restored)
        here = f"{call.name}, call {number}, {problem or OTHER_DATABASE}"
        if problem and not (self._restores and problem == OTHER_DATABASE):
            raise Diverged(f"The world cannot be restored: {self._unlike or here}.")
        is_recorded = call.mark is not None and mark.get("database", "") == call.mark.get("database") != ""
        if mark.get("put_back") or (self._unlike and is_recorded):
            self.restored.grade = "database"
            self.restored.difference, self._unlike = self.restored.difference or self._unlike or here, ""
        elif problem:
            self._unlike = self._unlike or here
        self.restored.calls += 1
        self._made.append(call if call.seen else replace(call, seen=digest_of(observation)))

    async def verify(self, final_answer: str | None = None, mode: str = "code") -> Observation:
        """Seal the episode and run its verifier. Called again, the server returns the stored result."""
        arguments: dict[str, Any] = {"verifier_mode": mode}
        if final_answer is not None:
            arguments["final_answer"] = final_answer
        return await self._surely(lambda: self._control("verify", arguments, self._verify_timeout_s))

    async def judge(self, verifier: Mapping[str, str], sha256: str, final_answer: str | None = None) -> Observation:
        """Seal the episode and run a verifier that is not the pack's, signed by `attesting.question`.

        Raises `ServerRefused` if the server did not run that code: an older one runs the pack's.
        """
        arguments: dict[str, Any] = {"verifier": dict(verifier)}
        if final_answer is not None:
            arguments["final_answer"] = final_answer
        observation = await self._surely(lambda: self._control("verify", arguments, self._verify_timeout_s))
        if observation.metadata.get("verifier_sha256") != sha256:
            raise ServerRefused(observation.error or "the server does not run sent verifiers", "verifier_refused")
        return observation

    async def done(self) -> Observation:
        """End the episode on the server."""
        return await self._control("done", {}, self._step_timeout_s)

    async def list_scenarios(self) -> list[dict[str, Any]]:
        observation = await self._tool("__list_scenarios__", {}, self._step_timeout_s)
        return observation.scenarios or []

    async def state(self) -> SessionState:
        data = await self._exchange({"type": "state"}, "state", self._step_timeout_s)
        return SessionState.from_wire(data)

    async def _control(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Observation:
        if self._control_key is not None:
            arguments["control_key"] = self._control_key
        return await self._tool(name, arguments, timeout_s)

    async def _tool(
        self, name: str, arguments: dict[str, Any], timeout_s: float, mark: Mapping[str, Any] | None = None
    ) -> Observation:
        return await self._observe({"type": "step", "data": self._action(name, arguments, mark)}, timeout_s)

    def _action(self, name: str, arguments: Mapping[str, Any], mark: Mapping[str, Any] | None = None) -> dict[str, Any]:
        action: dict[str, Any] = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        if mark is not None:
            action["metadata"] = {"mark": dict(mark), "put_back": self._restores}
        return action

    async def _observe(self, message: dict[str, Any], timeout_s: float) -> Observation:
        return Observation.from_wire(await self._data(message, timeout_s))

    async def _data(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return await self._exchange(message, "observation", timeout_s)

    async def _exchange(self, message: dict[str, Any], answer_kind: str, timeout_s: float) -> dict[str, Any]:
        """Send one frame and read its response. Any failure that breaks this order closes the connection."""
        kind = kind_of(message)
        with spans.span(f"environment {kind}", spans.CLIENT, call=kind):
            return await self._exchanged(message, answer_kind, timeout_s)

    async def _exchanged(self, message: dict[str, Any], answer_kind: str, timeout_s: float) -> dict[str, Any]:
        async with self._turn:
            if self._lost is not None or self._socket is None:
                raise SessionLost(self._lost or "the client is not connected")
            try:
                async with asyncio.timeout(timeout_s):
                    with contextlib.suppress(ConnectionClosed):  # a full server says so first, and closes
                        await self._socket.send(json.dumps(message))
                    text = await self._socket.recv()
            except TimeoutError as error:
                await self._lose(f"no answer within {timeout_s:g} s")
                raise ServerTimeout(f"no response from the environment server within {timeout_s:g} s") from error
            except ConnectionClosed as error:
                await self._lose(self._why_closed(error))
                raise SessionLost(self._lost) from error
            except asyncio.CancelledError:
                await self._lose("a request was cancelled before its response")
                raise
        return await self._read(text, answer_kind)

    def _why_closed(self, error: ConnectionClosed) -> str:
        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            return f"the environment server sent a message of more than {self.max_frame >> 20} MB"
        return f"the environment server closed the connection: {one_line(str(error), 300)}"

    async def _lose(self, reason: str) -> None:
        connection, self._socket, self._lost = self._socket, None, reason
        if connection is not None:
            # Aborted: a closing handshake would wait for the server.
            connection.transport.abort()

    async def _read(self, text: str | bytes, answer_kind: str) -> dict[str, Any]:
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            frame = None
        return await self._accepted(frame, answer_kind)

    async def _accepted(self, frame: Any, answer_kind: str) -> dict[str, Any]:
        try:
            kind, data = frame["type"], frame["data"]
        except (TypeError, KeyError) as error:
            await self._lose("invalid frame from the environment server")
            raise SessionLost(self._lost) from error
        if kind == answer_kind and isinstance(data, dict):
            return data
        if kind == "error" and isinstance(data, dict):
            raise refusal_of(data)
        await self._lose(f"the environment server replied {one_line(repr(kind))}, expected {answer_kind!r}")
        raise SessionLost(self._lost)


async def connected(
    url: str, headers: Mapping[str, str], timeout_s: float, max_frame: int = MAX_FRAME
) -> ClientConnection:
    """Return a connection to a server's `/ws`, which names the span around this. Raises `ServerUnreachable`."""
    if carried := spans.carried():
        headers = {**headers, spans.HEADER: carried}
    try:
        return await connect(
            url,
            additional_headers=headers,
            open_timeout=timeout_s,
            ping_interval=PING_S,
            ping_timeout=PONG_S,
            close_timeout=5,
            max_size=max_frame,
            proxy=None,
        )
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
        why = error or type(error).__name__
        raise ServerUnreachable(f"Cannot reach the environment server at {url}: {why}") from error


def _present(observation: Observation) -> Observation:
    """Return the result of a call. Raises `WorldLost` if its world ended from outside."""
    if observation.metadata.get("world") == "lost":
        raise WorldLost(observation.error or "the environment was lost")
    return observation
