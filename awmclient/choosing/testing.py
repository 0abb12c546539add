"""*Test endpoint*: whether a model server takes a tool and lets its model call it, and what to set if not.

One request, or two where the endpoint gets reasoning back, each in the endpoint's own time, and a look at its slots.
Called by the page *Models* and by anyone who has an `EndpointConfig`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from awmclient.choosing.chat import LOOK_S, NO_ANSWER, ChatClient, EndpointConfig
from awmclient.client.wire import is_loopback
from awmclient.errors import EndpointError, MalformedCall
from awmclient.words.textcalls import text_calls
from awmclient.words.thinking import read_reasoning, with_reasoning
from awmclient.words.toolcalls import calls_of, native_calls

NAME = "ready"
CHARS_PER_TOKEN = 8
"""A prompt with fewer tokens than characters of tools divided by this has no tools in it: texts have about four."""
SLOTS_MOST = 10_000
"""The highest limit of episodes that ask one model at a time."""
NO_WORD = (401, 403, 408, 429)
"""Answers that say nothing of a server's slots: someone between refused, or is busy."""
_MANUAL = (
    "Report that you are ready. This description is as long as those of real tools, so that the number of tokens that "
    "a server counts says whether its template gave the tool to the model. A tool of an application has a name, a "
    "purpose, and arguments with their types, bounds and meaning; a list of twenty such tools has several thousand "
    "tokens, nearly all of what an agent reads at its start. A template without a place for tools leaves them out "
    "without a word, and the model then answers in prose, as if no tool had been offered to it."
)
_TOOL = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": _MANUAL,
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
_CALL_IT = {"role": "user", "content": f'Call the tool `{NAME}` with the word "yes".'}
_SERVING = "see docs/serving.md"


@dataclass(frozen=True)
class EndpointCheck:
    """The result of a test: whether the endpoint can be used, and in words what it answered and what to set."""

    ok: bool
    message: str
    duration_s: float = 0.0
    slots: int | None = None
    """How many requests its server answers at a time, as `slots_of`."""


async def check_endpoint(endpoint: EndpointConfig, prefix: str = "") -> EndpointCheck:
    """Offer a tool and see whether it is called. `prefix` is that of the endpoint's settings, to name them."""
    start = time.monotonic()
    # one try: who tests wants the first answer
    client = ChatClient(endpoint, tries=1)
    try:
        message = await client.complete([_CALL_IT], tools=[_TOOL])
        if endpoint.reasoning != "none":
            await client.complete(_history(endpoint, message))
    except EndpointError as error:
        return EndpointCheck(False, explained(error.message, prefix), time.monotonic() - start)
    took = time.monotonic() - start
    ok, words = _judged(endpoint, message)
    slots = await slots_of(endpoint)
    return EndpointCheck(ok, f"{endpoint.model}: {words}{_in_parallel(slots, prefix)}", took, slots)


async def slots_of(endpoint: EndpointConfig) -> int | None:
    """Return how many requests the server answers at a time, as llama.cpp's says under `/props`; 0 for a server that
    does not say, and None for one that does not respond or is still loading."""
    url = f"{endpoint.base_url.rstrip('/').removesuffix('/v1')}/props"
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    try:
        # over the whole answer: httpx limits each read, which a server that trickles never exceeds
        async with asyncio.timeout(LOOK_S), httpx.AsyncClient(trust_env=not is_loopback(url)) as http:
            answer = await http.get(url, params=dict(endpoint.query) or None, headers=headers | dict(endpoint.headers))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
        return None
    if answer.is_server_error or answer.status_code in NO_WORD:
        return None
    try:
        slots = json.loads(answer.content)["total_slots"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return 0
    # not isinstance: a bool is an int in Python
    return slots if type(slots) is int and 0 < slots <= SLOTS_MOST else 0


def _in_parallel(slots: int | None, prefix: str) -> str:
    if not slots:
        return ""
    setting = f": as many episodes ask it at a time, unless {prefix}PARALLEL is set" if prefix else ""
    return f". The server has {slots:,} slot{'' if slots == 1 else 's'}{setting}"


def _judged(endpoint: EndpointConfig, message: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether a reply shows that the model got the tool and can call it, and the reply in words."""
    content, reasoning = read_reasoning(message, tags=endpoint.reasoning_field == "tags")
    words, sent = content.strip()[:200] or "(no words)", len(json.dumps(_TOOL))
    count = prompt_tokens(message)
    size = "" if count is None else f", {count:,} tokens of prompt"
    thinks = reasoning is not None and endpoint.reasoning == "none"
    note = " (it thinks; REASONING is none, so it gets none of it back)" if thinks else ""
    try:
        native = native_calls(calls_of(message))
        called = [call.name for call in native or text_calls(content, [NAME])]
    except MalformedCall as error:
        return False, f"its call cannot be read: {error.message}{note}"
    if NAME in called:
        inside = "" if native else f", in its text: give the server a parser of tool calls, {_SERVING}"
        return True, f"called the tool {NAME}{size}{inside}{note}"
    if count is not None and count < sent / CHARS_PER_TOKEN:
        return False, (
            f"the server dropped the tool. It has {sent:,} characters, and the whole prompt {count:,} tokens. "
            f"Set a chat template with tools, {_SERVING}. Its answer: {words}"
        )
    if message.get("finish_reason") == "length":
        return False, f"it was cut at its limit of tokens before a call. Raise max_tokens in OPTIONS. It wrote: {words}"
    return False, (
        f"it got the tool and did not call it{size}. Give the server a parser of tool calls, {_SERVING}, or take a "
        f"model that was trained on tools. Its answer: {words}{note}"
    )


def prompt_tokens(message: Mapping[str, Any]) -> int | None:
    """Return how many tokens of prompt the endpoint counted; None if it counted none."""
    usage = message.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    # not isinstance: a bool is an int in Python
    return count if type(count) is int and count > 0 else None


def explained(words: str, prefix: str) -> str:
    """Return an error of an endpoint, and what to set or start after it."""
    advice = to_set(words, prefix)
    return f"{words}. {advice}" if advice else words


def to_set(words: str, prefix: str) -> str:
    """Return what to set or start after this error of an endpoint, as a sentence; empty if its words say all.

    >>> to_set("no answer within 120 s", "AWMWEB_AGENT_")
    'Raise AWMWEB_AGENT_TIMEOUT_S if the server is slow, busy, or loads the model with the first request.'
    """
    if words.startswith(NO_ANSWER):
        return f"Raise {prefix}TIMEOUT_S if the server is slow, busy, or loads the model with the first request."
    if words.startswith("cannot reach"):
        return f"Start the server, or correct {prefix}BASE_URL."
    status = words.removeprefix("the endpoint answered ")[:3]
    if status in ("401", "403"):
        return f"Set {prefix}API_KEY or {prefix}HEADERS."
    if status == "404":
        return f"Correct {prefix}BASE_URL or {prefix}MODEL."
    if status in ("400", "422", "500") and "tool" in words.lower():
        return f"The server takes no tools: give it a parser of tool calls and a template with tools, {_SERVING}."
    if status in ("429", "502", "503", "504"):
        return "Try again when the server has started or has room; runs wait for it."
    return ""


def _history(endpoint: EndpointConfig, message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a conversation that holds the reasoning of this message, or made-up reasoning if it has none."""
    content, reasoning = read_reasoning(message, tags=endpoint.reasoning_field == "tags")
    reply = {"role": "assistant", "content": content or "ready"}
    thought = reasoning or {"text": "One word.", "form": "field"}
    return [_CALL_IT, with_reasoning(reply, thought, endpoint.reasoning_field), _CALL_IT]
