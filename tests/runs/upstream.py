"""A stand-in of an upstream AWM server: OpenEnv's frames, and none of awmweb's extensions.

It refuses what upstream's protocol does not have, so that a test sees what is sent to it. Its one scenario has two
tools; it can end after a number of calls, as a server that is stopped does.
"""

from __future__ import annotations

import asyncio
import json
import threading
from http import HTTPStatus

from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.http11 import Response

RESET = {
    "scenario",
    "task_idx",
    "task",
    "reward_config",
    "llm_base_url",
    "llm_api_key",
    "llm_model",
    "seed",
    "episode_id",
}
ACTION = {"type", "tool_name", "arguments"}
TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}}}
    for name in ("add_row", "count_rows")
]


class Upstream:
    """The server, in a thread of its own. `ends_after` drops a connection after this many tool calls, once."""

    def __init__(self, key=""):
        self.key, self.strange, self.resets, self.ends_after, self.verified = key, [], 0, None, []
        self.drift = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = self._loop.create_future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.start()
        self._ready.wait(10)

    def stop(self):
        self._loop.call_soon_threadsafe(self._stop.set_result, None)
        self._thread.join(10)

    async def _serve(self):
        async with serve(self._session, "127.0.0.1", 0, process_request=self._http) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self._ready.set()
            await self._stop

    def _http(self, _connection, request):
        if self.key and request.headers.get("X-Key") != self.key:
            return self._json({}, HTTPStatus.FORBIDDEN)
        said = {"/health": {"status": "healthy"}, "/metadata": {"name": "agent_world_model_env", "version": "0.1.0"}}
        return self._json(said[request.path]) if request.path in said else None

    def _json(self, said, status=HTTPStatus.OK):
        body = json.dumps(said).encode()
        return Response(status, status.phrase, Headers({"Content-Length": str(len(body)), "Connection": "close"}), body)

    async def _session(self, socket):
        rows = []
        async for text in socket:
            frame = json.loads(text)
            data = frame.get("data") or {}
            self.strange += sorted(set(data) - (RESET if frame["type"] == "reset" else ACTION))
            if frame["type"] == "reset":
                rows, said = [], {"reward_type": "reset_ok", "task": "Write words.", "num_tools": len(TOOLS)}
                self.resets += 1
            elif data["type"] == "list_tools":
                said = {"tools": TOOLS}
            else:
                said = self._call(rows, data["tool_name"], data["arguments"])
                if said is None:
                    await socket.close(1011)
                    return
            body = {"observation": {"metadata": {}, **said}, "reward": said.get("reward"), "done": False}
            await socket.send(json.dumps({"type": "observation", "data": body}))

    def _call(self, rows, name, arguments):
        if name == "verify":
            self.verified.append(arguments)
            is_right = arguments.get("final_answer") == " ".join(rows)
            return {"reward_type": "complete" if is_right else "others", "reward": float(is_right)}
        if name == "done":
            return {"reward_type": "episode_done"}
        if self.ends_after == len(rows):
            self.ends_after = None
            return None
        if name == "add_row":
            rows.append(arguments["word"])
        return {"reward_type": "tool_call_ok", "tool_name": name, "tool_result": str(len(rows) + self.drift)}
