"""The control channel, /ws: openenv's messages, one response for each, in order; and batches of them.

Owns their forms. Every text gets a response and the session continues, whatever the text is. If the connection has a
control key, metadata for people goes only to sockets that have shown it. The actions are `environment`'s.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import orjson
from fastapi import WebSocket
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.serialization import deserialize_action
from pydantic import ValidationError

from awmenv import spans
from awmenv.models import CONTROL_TOOLS, kind_of
from awmenv.server import strict
from awmenv.server.channels import agent, pacing
from awmenv.server.channels.connections import Connection, Connections, Full, NotThere
from awmenv.server.session.wire import WorldObservation, error_frame, frame, observation_data

log = logging.getLogger("awmenv.control")

TYPES = ("reset", "step", "state", "close", "mcp")
BATCH = "batch"
MOST_IN_BATCH, MAX_NAME = 64, 100
MOST_RESULTS = 32 << 20  # characters of a batch's results together
ENOUGH_RESULTS = 8 << 20  # characters after which the rest of a batch of one session is left to the next one


async def serve(socket: WebSocket, connections: Connections) -> None:
    """Serve one socket until it closes: an episode of its own, or one made over HTTP that it names."""
    await socket.accept()
    session_id = socket.query_params.get("session_id")
    try:
        connection = await connections.attach(session_id, socket) if session_id else connections.open()
    except (Full, NotThere) as refused:
        await socket.send_text(_refusal(refused, connections))
        await socket.close()
        return
    line = Line(socket, connections, connection, socket.headers.get(spans.HEADER, ""))
    try:
        await pacing.converse(socket, line.answered, line.lose)
    finally:
        line.leave()


def _refusal(refused: Full | NotThere, connections: Connections) -> str:
    counts = {"active_sessions": connections.count, "max_sessions": connections.most}
    more = counts if isinstance(refused, Full) else {}
    return error_frame(str(refused), refused.code.upper(), **more)


class Line:
    """One control socket: the session that it came with, and those that its batches have opened by name. Its messages
    have spans if it named one of its client's (`carried`)."""

    def __init__(self, socket: object, connections: Connections, own: Connection, carried: str = "") -> None:
        self._carried = carried
        self._socket = socket
        self._connections = connections
        self._own = own
        self._named: dict[str, Connection] = {}

    def lose(self) -> None:
        """End what the socket leaves behind when it closes during a response."""
        for connection in (self._own, *self._named.values()):
            self._connections.lose(connection, self._socket)

    def leave(self) -> None:
        for connection in (self._own, *self._named.values()):
            self._connections.leave(connection, self._socket)

    async def answered(self, text: str | None) -> str | None:
        """Return the response frame to a text; None for a request to close."""
        if text is None:
            return error_frame("Invalid JSON: binary frames are not supported", "INVALID_JSON")
        try:
            message = strict.read(text.encode(), pacing.FRAME)
        except strict.Unreadable as error:
            return error_frame(str(error), "INVALID_JSON")
        if isinstance(message, dict) and message.get("type") == BATCH:
            return await self._batch(message)
        problem = problem_of(message)
        if problem is not None:
            return problem
        return None if message["type"] == "close" else await self._answer(message, self._own)

    async def _answer(self, message: dict[str, Any], connection: Connection) -> str:
        if not self._carried:
            return await self._answered(message, connection)
        kind = kind_of(message)
        with spans.span(kind, spans.SERVER, carried=self._carried, call=kind):
            return await self._answered(message, connection)

    async def _answered(self, message: dict[str, Any], connection: Connection) -> str:
        try:
            return await self._done(message["type"], message.get("data", {}), connection)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            return error_frame("Invalid message", "VALIDATION_ERROR", errors=details)
        except Exception:
            # The last handler before the socket: an internal error ends no session.
            spans.note(failed=True)
            log.exception("a message on /ws failed")
            return error_frame("The server failed on this message", "EXECUTION_ERROR")

    async def _done(self, kind: str, data: dict[str, Any], connection: Connection) -> str:
        environment = connection.environment
        if kind == "state":
            return frame("state", environment.state.model_dump())
        if kind == "mcp":
            return frame("mcp", orjson.Fragment(await agent.answer(data, self._connections, connection)))
        if kind == "reset":
            # As a name in the message it would collide with the method's own, and raise.
            data.pop("self", None)
            offered, observation = data.get("control_key"), await environment.reset_async(**data)
        else:
            action = deserialize_action(data, CallToolAction)
            offered = None
            if isinstance(action, CallToolAction) and action.tool_name in CONTROL_TOOLS:
                offered = action.arguments.get("control_key")
            if environment.has_key and connection.keyed is not self._socket:
                action.metadata = {}  # only the control side makes calls of a record again
            observation = await environment.step_async(action)
        return frame("observation", observation_data(self._visible(observation, offered, connection)))

    def _visible(self, observation: WorldObservation, offered: Any, connection: Connection) -> WorldObservation:
        """Return what this socket can see of it: with a key, metadata requires that the socket has shown it."""
        environment = connection.environment
        if offered is not None and environment.has_key and environment.holds_key(offered):
            connection.keyed = self._socket
        # A refused reset reveals nothing, and its client needs the code.
        if environment.has_key and connection.keyed is not self._socket and observation.reward_type != "reset_error":
            observation.metadata = {}
        return observation

    async def _batch(self, message: dict[str, Any]) -> str:
        """Return the responses to a batch, in its order: sessions at the same time, messages of one in turn."""
        problem = _batch_problem(message)
        if problem is not None:
            return error_frame(problem, "VALIDATION_ERROR")
        messages = message["data"]["messages"]
        if "session" not in messages[0]:
            return await self._batch_of_own(messages)
        results = [""] * len(messages)
        places: dict[str, list[int]] = {}
        for place, part in enumerate(messages):
            places.setdefault(part["session"], []).append(place)

        async def in_turn(name: str) -> None:
            for place in places[name]:
                results[place] = await self._answer_by_name(name, messages[place])

        await asyncio.gather(*(pacing.Timed(in_turn(name)) for name in places))
        return frame(BATCH, {"results": [orjson.Fragment(result) for result in _bounded(results)]})

    async def _batch_of_own(self, messages: list[dict[str, Any]]) -> str:
        """Return the responses to messages for the session that the socket came with, one after the other: a replay
        then waits once for all of its calls. Once they are long, the rest is not carried out."""
        results: list[str] = []
        for message in messages:
            result = problem_of(message)
            if result is None and message["type"] == "close":
                result = error_frame("A batch does not close its own session", "VALIDATION_ERROR")
            if result is None:
                result = await pacing.rested(self._answer(message, self._own))
            results.append(result)
            if sum(map(len, results)) > ENOUGH_RESULTS:
                break
        return frame(BATCH, {"results": [orjson.Fragment(result) for result in results]})

    async def _answer_by_name(self, name: str, message: dict[str, Any]) -> str:
        inner = {key: value for key, value in message.items() if key != "session"}
        problem = problem_of(inner)
        if problem is not None:
            return problem
        connection = self._named.get(name)
        if connection is None:
            if inner["type"] != "reset":
                return error_frame("This socket has no session of that name; reset opens one", "SESSION_ERROR")
            try:
                connection = self._named[name] = self._connections.open()
            except Full as full:
                return _refusal(full, self._connections)
        if inner["type"] == "close":
            self._connections.leave(self._named.pop(name), self._socket)
            return frame("closed", {})
        return await self._answer(inner, connection)


def _batch_problem(message: dict[str, Any]) -> str | None:
    data = message.get("data")
    if set(message) - {"type", "data"} or not isinstance(data, dict) or set(data) != {"messages"}:
        return "A batch is {type, data: {messages: [...]}}"
    messages = data["messages"]
    if not isinstance(messages, list) or not 0 < len(messages) <= MOST_IN_BATCH:
        return f"A batch has 1 to {MOST_IN_BATCH} messages"
    if not all(isinstance(one, dict) for one in messages):
        return "Each message of a batch is a JSON object"
    if not any("session" in one for one in messages):
        return None
    for part in messages:
        name = part.get("session")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            return f"Each message of a batch names its session, in 1 to {MAX_NAME} characters"
    return None


def _bounded(results: list[str]) -> Iterator[str]:
    """Yield the results that fit one frame: what applications answer is theirs to choose."""
    left = MOST_RESULTS
    for result in results:
        left -= len(result)
        yield result if left >= 0 else error_frame("The results of this batch are too long", "RESULT_TOO_LONG")


def problem_of(message: Any) -> str | None:
    """Return the error frame for a message of unknown form, or None."""
    if not isinstance(message, dict):
        return error_frame("A message is a JSON object", "VALIDATION_ERROR")
    kind = message.get("type", "")
    if not isinstance(kind, str) or kind not in TYPES:
        return error_frame(f"Unknown message type: {str(kind)[:100]}", "UNKNOWN_TYPE")
    data = message.get("data", {})
    if not isinstance(data, dict) or (kind in ("step", "mcp") and "data" not in message):
        return error_frame("'data' must be an object", "VALIDATION_ERROR")
    if set(message) - {"type", "data"} or (kind in ("state", "close") and "data" in message):
        return error_frame("Unknown fields in the message", "VALIDATION_ERROR")
    problem = _step_problem(data) if kind == "step" else None
    return error_frame(problem, "VALIDATION_ERROR") if problem else None


def _step_problem(data: dict[str, Any]) -> str | None:
    if data.get("type", "call_tool") not in ("call_tool", "list_tools"):
        return "An action's type is call_tool or list_tools"
    if data.get("type") == "list_tools":
        return None
    if not isinstance(data.get("tool_name"), str):
        return "'tool_name' must be a text"
    if not isinstance(data.get("arguments", {}), dict):
        return "'arguments' must be an object"
    return None
