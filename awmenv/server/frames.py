"""A gate in front of openenv's sockets: every text that is not a usable message gets an error frame, and the session
lives on.

openenv ends a session on some malformed input (a JSON list, a binary frame, a deep nesting); this ASGI wrapper answers
those itself and passes the rest on untouched. Also counts the last activity of each connection for the idle limit.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

TYPES = ("reset", "step", "state", "close", "mcp")
MAX_DEPTH = 100


class FrameGate:
    """Wraps the app; only /ws and /mcp sockets are looked into."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket" or scope["path"] not in ("/ws", "/mcp"):
            await self.app(scope, receive, send)
            return
        check = ws_problem if scope["path"] == "/ws" else mcp_problem

        async def checked() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                answer = check(message.get("text"))
                if answer is None:
                    return message
                await send({"type": "websocket.send", "text": json.dumps(answer)})

        await self.app(scope, checked, send)


def ws_problem(text: str | None) -> dict[str, Any] | None:
    """The error frame for a text that openenv would choke on, or None."""
    frame, problem = _parsed(text)
    if problem is not None:
        return _error(problem, "INVALID_JSON")
    if not isinstance(frame, dict):
        return _error("A message is a JSON object", "VALIDATION_ERROR")
    kind = frame.get("type", "")
    if not isinstance(kind, str) or kind not in TYPES:
        return _error(f"Unknown message type: {str(kind)[:100]}", "UNKNOWN_TYPE")
    data = frame.get("data", {})
    if not isinstance(data, dict) or (kind in ("step", "mcp") and "data" not in frame):
        return _error("'data' must be an object", "VALIDATION_ERROR")
    if set(frame) - {"type", "data"} or (kind in ("state", "close") and "data" in frame):
        return _error("Unknown fields in the message", "VALIDATION_ERROR")
    return _error(problem, "VALIDATION_ERROR") if kind == "step" and (problem := _step_problem(data)) else None


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


def mcp_problem(text: str | None) -> dict[str, Any] | None:
    """The same for JSON-RPC."""
    frame, problem = _parsed(text)
    if problem is not None:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": f"Parse error: {problem}"}}
    if not isinstance(frame, dict):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid request: not an object"}}
    return None


def _parsed(text: str | None) -> tuple[Any, str | None]:
    if text is None:
        return None, "binary frames are not understood"
    try:
        frame = json.loads(text)
        # What cannot be written again cannot be answered: lone surrogates, which hide in escapes, and deep nesting.
        text.encode("utf-8")
        if "\\u" in text:
            json.dumps(frame, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return None, "lone surrogates are not text"
    except (ValueError, RecursionError) as error:
        return None, f"Invalid JSON: {str(error)[:200]}"
    return (frame, None) if _depth(text) <= MAX_DEPTH else (None, f"nested deeper than {MAX_DEPTH}")


def _depth(text: str) -> int:
    """An upper bound of the nesting, without walking the value: brackets inside strings count too."""
    deepest = level = 0
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    for char in text:
        if char in "[{":
            level += 1
            deepest = max(deepest, level)
        elif char in "]}":
            level -= 1
    return deepest


def _error(message: str, code: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}
