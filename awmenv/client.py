"""A thin client of environment servers over plain `/ws`: JSON frames, strictly one answer per request, and no openenv.

Owns the wire from the near side, for rollout loops and Django processes. A dropped socket is a lost episode and is said
so: this client never reconnects, because a new connection would silently be another, un-reset world.

    async with EnvironmentClient("http://127.0.0.1:8100") as env:
        await env.reset(scenario="helpdesk_1", task_idx=0)
        tools = await env.list_tools()
        observation = await env.call_tool(tools[0].name, {})
        outcome = await env.verify(final_answer="done")
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from awmenv.errors import (
    CapacityReached,
    EnvironmentFault,
    ResetFailed,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    SessionLost,
    WorldLost,
)
from awmenv.models import Observation, SessionState, Tool

MAX_FRAME = 128 * 1024 * 1024
PING_S = 20.0
PONG_S = 60.0


class EnvironmentClient:
    """One episode's connection.

    Safe to hold open for hours: pings keep it alive while the caller waits for a person.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        connect_timeout_s: float = 10.0,
        reset_timeout_s: float = 180.0,
        step_timeout_s: float = 120.0,
        verify_timeout_s: float = 300.0,
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

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; a client that lost its connection cannot be opened again."""
        if self._lost is not None:
            raise SessionLost(self._lost)
        try:
            self._socket = await connect(
                self.url,
                additional_headers=self._headers,
                open_timeout=self._connect_timeout_s,
                ping_interval=PING_S,
                ping_timeout=PONG_S,
                close_timeout=5,
                max_size=MAX_FRAME,
                proxy=None,
            )
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            raise ServerUnreachable(
                f"no environment server answers at {self.url}: {error or type(error).__name__}"
            ) from error

    async def close(self) -> None:
        """End the session; the server drops its world. Never raises for a socket that is gone already."""
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
        **arguments: Any,
    ) -> Observation:
        """Start the episode.

        Other arguments of the server's `reset` pass through. Raises ResetFailed with the server's reason. A key that
        was set once is sent with every further reset, because the server wants it.
        """
        control_key = control_key or self._control_key
        data = {"scenario": scenario, "task_idx": task_idx, "control_key": control_key, **arguments}
        data = {name: value for name, value in data.items() if value is not None}
        if state_diff:
            data["state_diff"] = True
        observation = await self._observe({"type": "reset", "data": data}, self._reset_timeout_s)
        if observation.reward_type == "reset_error":
            raise ResetFailed(observation.error or "reset failed", str(observation.metadata.get("code", "reset_error")))
        self._control_key = control_key
        return observation

    async def reset_environment(self, **arguments: Any) -> dict[str, Any]:
        """A plain OpenEnv reset with any arguments, for environments that are not AWM; the frame's data as it came."""
        return await self._data({"type": "reset", "data": arguments}, self._reset_timeout_s)

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """A plain OpenEnv step with any action; the frame's data as it came."""
        return await self._data({"type": "step", "data": dict(action)}, self._step_timeout_s)

    async def list_tools(self) -> list[Tool]:
        observation = await self._observe({"type": "step", "data": {"type": "list_tools"}}, self._step_timeout_s)
        if observation.tools is None or observation.error:
            raise ServerRefused(observation.error or "the server listed no tools", "list_tools")
        return observation.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Observation:
        """One tool call.

        A refused call is an observation with `error`, as the agent should see it. Transport faults raise, and so does
        a world that ended from outside (`WorldLost`; told where the reset asked for `state_diff`).
        """
        found = await self._tool(name, dict(arguments or {}), self._step_timeout_s)
        if found.metadata.get("world") == "lost":
            raise WorldLost(found.error or "the world was lost")
        return found

    async def verify(self, final_answer: str | None = None, mode: str = "code") -> Observation:
        """Seal the episode and run its verifier; asked again, the server repeats what it found."""
        arguments: dict[str, Any] = {"verifier_mode": mode}
        if final_answer is not None:
            arguments["final_answer"] = final_answer
        return await self._control("verify", arguments, self._verify_timeout_s)

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

    async def _tool(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Observation:
        action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        return await self._observe({"type": "step", "data": action}, timeout_s)

    async def _observe(self, message: dict[str, Any], timeout_s: float) -> Observation:
        return Observation.from_wire(await self._data(message, timeout_s))

    async def _data(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return await self._exchange(message, "observation", timeout_s)

    async def _exchange(self, message: dict[str, Any], wanted: str, timeout_s: float) -> dict[str, Any]:
        """Send one frame and read its answer. Whatever leaves the stream out of step ends the connection."""
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
                raise ServerTimeout(f"the environment server gave no answer within {timeout_s:g} s") from error
            except ConnectionClosed as error:
                await self._lose(f"the environment server closed the connection: {error}")
                raise SessionLost(self._lost) from error
            except asyncio.CancelledError:
                await self._lose("a request was cancelled while its answer was due")
                raise
        return await self._read(text, wanted)

    async def _lose(self, reason: str) -> None:
        connection, self._socket, self._lost = self._socket, None, reason
        if connection is not None:
            connection.transport.abort()

    async def _read(self, text: str | bytes, wanted: str) -> dict[str, Any]:
        try:
            frame = json.loads(text)
            kind, data = frame["type"], frame["data"]
        except (ValueError, TypeError, KeyError) as error:
            await self._lose("the environment server sent something that is not a frame")
            raise SessionLost(self._lost) from error
        if kind == wanted and isinstance(data, dict):
            return data
        if kind == "error" and isinstance(data, dict):
            raise _refusal(data)
        await self._lose(f"the environment server answered {kind!r} where {wanted!r} was due")
        raise SessionLost(self._lost)


def _refusal(data: dict[str, Any]) -> EnvironmentFault:
    code, message = str(data.get("code", "")).lower(), str(data.get("message", "refused"))
    kind = CapacityReached if code == "capacity_reached" else ServerRefused
    return kind(message, code or "environment_error")


def socket_url(url: str) -> str:
    """`http://host:port` as the address of its `/ws`; an address that names a path ending in /ws stays as it is."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(scheme=scheme, path=path if path.endswith("/ws") else f"{path}/ws"))
