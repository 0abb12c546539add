"""*Test endpoint*: a server that drops tools, refuses them or is slow is told from one whose model calls them."""

import asyncio
import json
import socket
from contextlib import suppress

import pytest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from awmclient.choosing import testing
from awmclient.choosing.chat import EndpointConfig
from awmclient.choosing.testing import check_endpoint
from tests.awmclient.openai_server import OpenAIServer, error, tool_call


def counted(message, prompt_tokens=400, ending="stop"):
    if isinstance(message, str):
        message = {"role": "assistant", "content": message}
    choice = {"index": 0, "message": message, "finish_reason": ending}
    return JSONResponse({"choices": [choice], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 3}})


CALL = tool_call("ready", {"word": "yes"})
IN_TEXT = '<tool_call>{"name": "ready", "arguments": {"word": "yes"}}</tool_call>'
BROKEN = tool_call("ready", {})
BROKEN["tool_calls"][0]["function"]["arguments"] = "{oops"


@pytest.mark.parametrize(
    ("reply", "ok", "words"),
    [
        (counted(CALL), True, "toy: called the tool ready, 400 tokens of prompt"),
        (counted(CALL, 0), True, "toy: called the tool ready"),
        (counted(IN_TEXT), True, "in its text: give the server a parser of tool calls"),
        (counted("ready", 39), False, "the server dropped the tool. It has"),
        (counted("ready"), False, "it got the tool and did not call it, 400 tokens of prompt."),
        (counted("Let me see", ending="length"), False, "cut at its limit of tokens before a call. Raise max_tokens"),
        (counted(BROKEN), False, "its call cannot be read"),
        (error(400, "toy does not support tools"), False, "The server takes no tools"),
        (error(401, "no key"), False, "Set AWMWEB_AGENT_API_KEY"),
        (error(404, "no such model"), False, "Correct AWMWEB_AGENT_BASE_URL or AWMWEB_AGENT_MODEL."),
        (error(503, "Loading model"), False, "503: Loading model. Try again when the server has started"),
    ],
)
async def test_test_says_whether_tools_work_and_what_to_set(reply, ok, words):
    server = OpenAIServer(lambda body: reply)
    await server.start()
    try:
        result = await check_endpoint(EndpointConfig(server.base_url, "toy"), "AWMWEB_AGENT_")
    finally:
        await server.kill()
    assert (result.ok, words in result.message) == (ok, True), result.message
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["ready"] and len(server.bodies) == 1
    assert len(json.dumps(server.bodies[0]["tools"])) > 700, "short tools could not be told from none"


PARALLEL = "The server has 4 slots: as many episodes ask it at a time, unless AWMWEB_AGENT_PARALLEL is set"


@pytest.mark.parametrize(
    ("props", "status", "words"),
    [
        (b'{"total_slots": 4}', 200, PARALLEL),
        (b'{"total_slots": 1}', 200, "The server has 1 slot: as many episodes "),
        *(
            (props, 200, "")
            for props in (b'{"total_slots": true}', b'{"total_slots": 99999}', b"{}", b"[]", b"null", b"x")
        ),
        (b'{"error": "no key"}', 401, ""),
    ],
)
async def test_test_names_slots_where_the_server_has_them(props, status, words):
    server, heads = OpenAIServer(lambda body: counted(CALL), "k"), []

    async def answer(request):
        heads.append(request.headers["authorization"])
        return Response(props, status)

    server.app.router.routes.append(Route("/props", answer))
    await server.start()
    try:
        result = await check_endpoint(EndpointConfig(server.base_url, "toy", "k"), "AWMWEB_AGENT_")
    finally:
        await server.kill()
    assert result.ok and heads == ["Bearer k"]
    assert words in result.message and ("slot" in result.message) == bool(words), result.message


async def test_server_that_trickles_its_slots_is_left(monkeypatch):
    """Each byte comes in time, and the whole of them never."""
    monkeypatch.setattr(testing, "LOOK_S", 0.2)

    async def drop(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            with suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0.01)

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await testing.slots_of(EndpointConfig(f"http://127.0.0.1:{port}/v1", "toy")) is None


async def test_test_has_the_time_of_the_endpoint(monkeypatch):
    limits, real = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: limits.append(seconds) or real(seconds))
    endpoint = EndpointConfig("http://127.0.0.1:9/v1", "toy", timeout_s=900)
    result = await check_endpoint(endpoint, "AWMWEB_AGENT_")
    assert 900 in limits and "Start the server, or correct AWMWEB_AGENT_BASE_URL." in result.message


async def test_slow_endpoint_says_which_setting_is_its_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = EndpointConfig(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "toy", timeout_s=0.5)
        result = await check_endpoint(endpoint, "AWMWEB_AGENT_TUNED_")
    assert result.message.startswith("no answer within 0.5 s. Raise AWMWEB_AGENT_TUNED_TIMEOUT_S if")
