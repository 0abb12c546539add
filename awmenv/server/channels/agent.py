"""The agent's channel, /mcp: JSON-RPC 2.0 by socket or by POST, with the scenario's tools and nothing else.

Owns openenv's methods of it: the tools of a session, and opening and closing sessions over HTTP. A control tool gets
the same error as an unknown one. Leaves IDs to `connections`, and the result of a call to `environment`.
"""

import logging
import time
from typing import Any

import orjson
from fastapi import WebSocket

from awmenv.server import strict
from awmenv.server.channels import pacing
from awmenv.server.channels.connections import Connection, Connections, Full, NotThere
from awmenv.server.session.environment import NOT_STARTED, ToolRefused

log = logging.getLogger("awmenv.agent")

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, SERVER_ERROR = (
    -32700, -32600, -32601, -32602, -32603, -32000,
)  # fmt: skip
FIELDS = {"jsonrpc", "id", "method", "params"}


class RpcError(Exception):
    """A request that ends in an error: its code, and its message for the agent."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


async def serve(socket: WebSocket, connections: Connections) -> None:
    """Serve one agent's socket, with an environment of its own, until it closes."""
    await socket.accept()
    try:
        connection = connections.open()
    except Full as full:
        await socket.send_text(_failed(None, _full(full, connections)).decode())
        await socket.close()
        return

    async def answer_text(text: str | None) -> str:
        # A binary frame gets the error of a text that is no JSON: one byte that is none takes its place.
        return (await answered(text.encode() if text is not None else b"\xff", connections, connection)).decode()

    try:
        await pacing.converse(socket, answer_text, lambda: connections.lose(connection, socket))
    finally:
        connections.leave(connection, socket)


async def answered(body: bytes, connections: Connections, own: Connection | None = None) -> bytes:
    """Return the response to one request, as JSON. Every request gets one."""
    try:
        request = strict.read(body, pacing.FRAME)
    except strict.Unreadable as error:
        return _failed(None, RpcError(PARSE_ERROR, f"Parse error: {error}"))
    return await answer(request, connections, own)


async def answer(request: Any, connections: Connections, own: Connection | None) -> bytes:
    """Return the response to a parsed request."""
    identity = request.get("id") if isinstance(request, dict) else None
    try:
        result = await _result(_checked(request), connections, own)
    except RpcError as refused:
        return _failed(identity if isinstance(identity, str | int) else None, refused)
    except Exception:
        # The last handler before the socket: an internal error must neither end the session nor reach an agent.
        log.exception("a request of an agent failed")
        return _failed(identity, RpcError(INTERNAL_ERROR, "The server failed on this request"))
    return orjson.dumps({"jsonrpc": "2.0", "id": identity, "result": result})


def _checked(request: Any) -> dict[str, Any]:
    if not isinstance(request, dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: not an object")
    if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
        raise RpcError(INVALID_REQUEST, 'Invalid request: "jsonrpc" is "2.0", and "method" a text')
    # Not by `isinstance`: a boolean is an int.
    if set(request) - FIELDS or type(request.get("id")) not in (str, int, type(None)):
        raise RpcError(INVALID_REQUEST, 'Invalid request: "id" is a text or a number, and other fields are not known')
    if not isinstance(request.get("params", {}), dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: params must be an object")
    return request


async def _result(request: dict[str, Any], connections: Connections, own: Connection | None) -> dict[str, Any]:
    method, params = request["method"], request.get("params", {})
    if method == "openenv/session/create":
        return {"session_id": own.id if own else _created(connections)}
    if method == "openenv/session/close":
        return _closed(params, connections, own)
    if method not in ("tools/list", "tools/call"):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
    connection = own or (_connection_of(params, connections) if params.get("session_id") else None)
    if method == "tools/list":
        return {"tools": connection.environment.tools_for_agent() if connection else []}
    name = params.get("name")
    if not name:
        raise RpcError(INVALID_PARAMS, "Missing 'name' in params")
    if connection is None:
        raise RpcError(INTERNAL_ERROR, NOT_STARTED)
    try:
        return await connection.environment.agent_call(name, params.get("arguments", {}))
    except ToolRefused as refused:
        raise RpcError(INTERNAL_ERROR, str(refused)) from refused
    finally:
        connection.used_at = time.monotonic()


def _created(connections: Connections) -> str:
    try:
        return connections.open(over_http=True).id
    except Full as full:
        raise _full(full, connections) from full


def _full(full: Full, connections: Connections) -> RpcError:
    return RpcError(SERVER_ERROR, str(full), {"active_sessions": connections.count, "max_sessions": connections.most})


def _closed(params: dict[str, Any], connections: Connections, own: Connection | None) -> dict[str, Any]:
    session_id = params.get("session_id")
    if not session_id:
        raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
    if own is not None and session_id == own.id:
        raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
    connection = _connection_of(params, connections)
    if connections.close(connection):
        return {"session_id": session_id, "closed": True}
    return {"session_id": session_id, "closed": False, "closing": True}


def _connection_of(params: dict[str, Any], connections: Connections) -> Connection:
    try:
        return connections.stored(str(params["session_id"]))
    except NotThere as nothing:
        raise RpcError(INVALID_PARAMS, str(nothing)) from nothing


def _failed(identity: str | int | None, refused: RpcError) -> bytes:
    error = {"code": refused.code, "message": strict.clean(str(refused)), "data": refused.data}
    return orjson.dumps({"jsonrpc": "2.0", "id": identity, "error": error})
