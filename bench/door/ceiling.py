"""The limit of single appends: an ASGI app that authenticates, reads the body, responds, and commits nothing.

`streaming.py` compares appends with it: no Python server that takes the same requests, with the same check of the
token, answers more of them. It runs this under uvicorn; by itself it does nothing.
"""

from __future__ import annotations

from typing import Any

from awmweb import asgi as asgi  # sets Django up, and makes this process as large as the real one
from people.http import respond
from people.known_tokens import TOKENS
from people.requests.bodies import Body, Receive, Send, header

MOST_BYTES = 1024 * 1024


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    await TOKENS.actor(header(scope, b"authorization").removeprefix("Bearer "))
    with Body(scope, receive, MOST_BYTES, "bench") as body:
        await body.read()
    await respond(send, 200, {"acknowledged": 0})
