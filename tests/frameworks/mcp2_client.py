"""A client of the MCP SDK 2.x, in an environment of its own: prints what it sees, one JSON value a line.

`python mcp2_client.py URL TOKEN`: it finds the version, asks, lets calls be approved, and runs a task whose expert asks
back. SDK 2.x has no tasks and takes no other result of a call than a tool's, so those requests go past its checks.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


def say(name: str, value: Any) -> None:
    print(json.dumps([name, value]), flush=True)


async def user(context: Any, params: Any) -> ElicitResult:
    say("asked", params.message)
    return ElicitResult(action="accept", content={"answer": "The one in Rome."})


async def main(url: str, token: str) -> None:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=90) as http:
        async with Client(streamable_http_client(url, http_client=http), elicitation_callback=user) as client:

            async def send(method: str, **params: Any) -> dict[str, Any]:
                return await client.session._dispatcher.send_raw_request(method, params, {})

            say("version", client.protocol_version)
            say("tools", [one.name for one in (await client.list_tools()).tools])
            say("advice", (await client.call_tool("ask_expert", {"question": "Into which one?"})).structured_content)
            calls = {"calls": [{"name": "refund", "arguments": {"order": 7}}]}
            say("decision", (await client.call_tool("request_approval", calls)).structured_content)
            arguments = {"question": "With which one?", "deadline_s": 90}
            made = await send("tools/call", name="ask_expert", arguments=arguments, task={"ttl": 60000})
            task = made["task"]["taskId"]
            say("result", (await send("tasks/result", taskId=task))["structuredContent"])
            say("status", (await send("tasks/get", taskId=task))["status"])
            say("listed", task in [one["taskId"] for one in (await send("tasks/list"))["tasks"]])


asyncio.run(main(*sys.argv[1:]))
