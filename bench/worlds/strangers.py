"""A plain OpenEnv server that breaks the protocol, in a process of its own: how is the first part of the path.

    python bench/worlds/strangers.py PORT

Prints nothing; the kind `counts` answers each step with the frames that the kinds have received.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

KINDS = {
    "not_a_number": "no number",
    "text_for_reward": "no number",
    "fifty_megabytes": "more than 4 MB",
    "endless_reset": "no response from the environment server within 1 s",
    "other_tools": "changed its tools",
    "no_frames": "invalid frame",
    "other_schema": "does not keep the schema",
}
"""Each kind, and words of the fault that it must bring."""
CALLS = {"action": {"title": "CallToolAction", "properties": {"tool_name": {}, "arguments": {}}}}
ACTIONS = {"action": {"title": "LookAction", "properties": {"place": {"type": "string"}}}}
REFUSED = {"message": "Unfit.", "code": "validation_error", "errors": [{"type": "missing", "loc": ["spot"], "msg": ""}]}
BIG = "x" * (50 << 20)
LOOK = {"name": "look", "description": "Look.", "inputSchema": {"type": "object"}}
received: Counter[str] = Counter()


def schema(kind: str) -> dict[str, Any]:
    """Return the answer of this kind to `/schema`: of all but one these are calls of tools."""
    return ACTIONS if kind == "other_schema" else CALLS


def step(kind: str) -> str:
    reward: Any = {"not_a_number": float("nan"), "text_for_reward": "<b>great</b>"}.get(kind, 0.0)
    if kind == "fifty_megabytes":
        return BIG
    if kind == "other_schema":
        return json.dumps({"type": "error", "data": REFUSED})
    seen = {"tool_name": "look", "result": "nothing", "error": None}
    whole = {"type": "observation", "data": {"observation": seen, "reward": reward, "done": False}}
    return "]" if kind == "no_frames" else json.dumps(whole)


async def talk(socket: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):  # a client that has seen enough hangs up
        await answer(socket)


async def answer(socket: ServerConnection) -> None:
    kind = socket.request.path.split("/")[1] if socket.request else ""
    steps = 0
    async for text in socket:
        asked = json.loads(text)["type"]
        received[kind] += 1
        if kind == "counts":
            await socket.send(json.dumps({"type": "observation", "data": dict(received)}))
        elif asked == "mcp":
            tools = [LOOK, *([{**LOOK, "name": "more"}] if kind == "other_tools" and steps else [])]
            tools = [] if kind == "other_schema" else tools
            await socket.send(json.dumps({"type": "mcp", "data": {"result": {"tools": tools}}}))
        elif asked == "reset":
            await asyncio.sleep(3600 if kind == "endless_reset" else 0)
            await socket.send(json.dumps({"type": "observation", "data": {"observation": {}, "done": False}}))
        else:
            steps += 1
            await socket.send(step(kind))


async def main(port: int) -> None:
    async with serve(talk, "127.0.0.1", port, ping_interval=None):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
