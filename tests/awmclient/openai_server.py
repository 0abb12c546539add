"""An endpoint that speaks the OpenAI chat protocol over real HTTP, for tests and for demos without a model.

`reply` decides what it says: called with the request's body, it returns an assistant message (a dict, which can hold
the `finish_reason` of its choice), plain words, or a starlette `Response` to give as it is.
`python -m tests.awmclient.openai_server PORT` serves one that says "ready".
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.awmclient.http_dashboard import Served

Reply = Callable[[dict[str, Any]], dict[str, Any] | str | Response]


def tool_call(name: str, arguments: dict[str, Any], call_id: str = "call_a") -> dict[str, Any]:
    """An assistant message that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def error(status: int, message: str, **headers: str) -> Response:
    body = {"error": {"message": message, "type": "error", "code": None}}
    return JSONResponse(
        body, status_code=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


class OpenAIServer(Served):
    """`bodies` holds the requests, `heads` their headers and `queries` their query strings."""

    def __init__(self, reply: Reply, key: str = "") -> None:
        self.reply, self.key = reply, key
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.queries: list[dict[str, str]] = []
        super().__init__(Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])]))

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.heads.append(dict(request.headers))
        self.queries.append(dict(request.query_params))
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key and sent != self.key:
            return error(401, f"Incorrect API key provided: {sent}.")
        said = self.reply(body)
        if isinstance(said, Response):
            return said
        message = {"role": "assistant", "content": said} if isinstance(said, str) else said
        why = message.get("finish_reason") or ("tool_calls" if message.get("tool_calls") else "stop")
        choice = {"index": 0, "message": message, "finish_reason": why}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model"),
        }
        return JSONResponse({**answer, "choices": [choice], "usage": usage})


@contextlib.contextmanager
def answering(*servers: OpenAIServer) -> Iterator[None]:
    """Serve from a thread, for tests that are not coroutines."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield
    finally:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.kill(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


if __name__ == "__main__":
    uvicorn.run(OpenAIServer(lambda body: "ready").app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
