"""The control channel, /ws: openenv's messages, one response for each, in order.

Owns their forms. Every text gets a response and the session continues, whatever the text is. If the connection has a
control key, metadata for people goes only to sockets that have shown it. The actions are `environment`'s.
"""

import logging
from typing import Any

import orjson
from fastapi import WebSocket
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.serialization import deserialize_action
from pydantic import ValidationError

from awmenv.models import CONTROL_TOOLS
from awmenv.server import strict
from awmenv.server.channels import agent, pacing
from awmenv.server.channels.connections import Connection, Connections, Full, NotThere
from awmenv.server.session.wire import WorldObservation, error_frame, frame, observation_data

log = logging.getLogger("awmenv.control")

TYPES = ("reset", "step", "state", "close", "mcp")


async def serve(socket: WebSocket, connections: Connections) -> None:
    """Serve one socket until it closes: an episode of its own, or one made over HTTP that it names."""
    await socket.accept()
    wanted = socket.query_params.get("session_id")
    try:
        connection = await connections.attach(wanted, socket) if wanted else connections.open()
    except (Full, NotThere) as refused:
        counts = {"active_sessions": connections.count, "max_sessions": connections.most}
        more = counts if isinstance(refused, Full) else {}
        await socket.send_text(error_frame(str(refused), refused.code.upper(), **more))
        await socket.close()
        return
    try:
        await pacing.converse(
            socket,
            lambda text: answered(text, connection, connections, socket),
            lambda: connections.lose(connection, socket),
        )
    finally:
        connections.leave(connection, socket)


async def answered(text: str | None, connection: Connection, connections: Connections, holder: object) -> str | None:
    """Return the response frame to a text; None for a request to close."""
    if text is None:
        return error_frame("Invalid JSON: binary frames are not supported", "INVALID_JSON")
    try:
        message = strict.read(text.encode(), pacing.FRAME)
    except strict.Unreadable as error:
        return error_frame(str(error), "INVALID_JSON")
    problem = problem_of(message)
    if problem is not None:
        return problem
    if message["type"] == "close":
        return None
    try:
        return await _done(message["type"], message.get("data", {}), connection, connections, holder)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return error_frame("Invalid message", "VALIDATION_ERROR", errors=details)
    except Exception:
        # The last handler before the socket: an internal error ends no session.
        log.exception("a message on /ws failed")
        return error_frame("The server failed on this message", "EXECUTION_ERROR")


async def _done(
    kind: str, data: dict[str, Any], connection: Connection, connections: Connections, holder: object
) -> str:
    environment = connection.environment
    if kind == "state":
        return frame("state", environment.state.model_dump())
    if kind == "mcp":
        return frame("mcp", orjson.Fragment(await agent.answer(data, connections, connection)))
    if kind == "reset":
        data.pop("self", None)
        offered, observation = data.get("control_key"), await environment.reset_async(**data)
    else:
        action = deserialize_action(data, CallToolAction)
        offered = None
        if isinstance(action, CallToolAction) and action.tool_name in CONTROL_TOOLS:
            offered = action.arguments.get("control_key")
        if environment.has_key and connection.keyed is not holder:
            action.metadata = {}  # only the control side makes calls of a record again
        observation = await environment.step_async(action)
    return frame("observation", observation_data(_visible(observation, offered, connection, holder)))


def _visible(observation: WorldObservation, offered: Any, connection: Connection, holder: object) -> WorldObservation:
    """Return what this socket can see of it: with a key, metadata requires that the socket has shown it."""
    environment = connection.environment
    if offered is not None and environment.has_key and environment.holds_key(offered):
        connection.keyed = holder
    if environment.has_key and connection.keyed is not holder and observation.reward_type != "reset_error":
        observation.metadata = {}
    return observation


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
