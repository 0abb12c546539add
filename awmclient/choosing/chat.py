"""A policy that asks a chat model over the OpenAI protocol, and the client of its endpoint.

Owns requests to a model endpoint, their retries and their errors. Leaves messages to `conversation.py` and reading
calls to `toolcalls.py`. Called by our worker, by `testing.py` and by expert models. A key never
leaves through repr, error or log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast
from urllib.parse import parse_qsl, urlsplit

import httpx

from awmclient.choosing.options import fields_of, options_in
from awmclient.client.wire import is_loopback, retry_after
from awmclient.errors import EndpointError, MalformedCall
from awmclient.nouns.values import ASK_TOOL, ToolProtocol
from awmclient.policies import Turn, View
from awmclient.words.blotting import blotted, secrets_of
from awmclient.words.conversation import as_text, messages, offered
from awmclient.words.encoding import encode
from awmclient.words.endings import is_stopped, reason_of
from awmclient.words.textcalls import text_calls
from awmclient.words.thinking import FIELDS, MODES, ReasoningField, ReasoningMode, behind_thoughts, read_reasoning
from awmclient.words.toolcalls import Call, as_written, calls_of, json_at, native_calls

TRIES = 4
"""Requests that end with an error of the endpoint, such as a 500, before it is believed."""
AWAY = frozenset({429, 502, 503})
"""Statuses of an endpoint that is overloaded, starts or is replaced: it is asked again until its time is up."""
NO_ANSWER = "no answer within"
"""How the words of an endpoint begin that did not answer in its time."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
LOOK_S = 5.0
"""The most that a look takes for whether an endpoint takes requests."""
_WORDS = 1500
_plain_endpoints: set[tuple[str, str]] = set()
"""Address and model of endpoints that refuse `response_format`, as far as this process asked them."""
_READY = {"role": "user", "content": "Answer with the single word: ready"}


@dataclass(frozen=True)
class EndpointConfig:
    """Where a model is asked. `base_url` ends before `/chat/completions`; `query` carries Azure's `api-version`.

    >>> EndpointConfig("http://127.0.0.1:8001/v1", model="my-model", api_key="secret")
    EndpointConfig(base_url='http://127.0.0.1:8001/v1', model='my-model')
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = field(default=120.0, repr=False)
    reasoning: ReasoningMode = field(default="none", repr=False)
    """How much of a model's earlier reasoning it gets back."""
    reasoning_field: ReasoningField = field(default="", repr=False)
    """Where; *tags* also says that it writes `<think>` into its text."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What every request has beside messages and tools, as `options.py` reads it."""

    @classmethod
    def from_environment(cls, prefix: str, environ: Mapping[str, str] = os.environ) -> Self | None:
        """Read `PREFIX` + BASE_URL, API_KEY, MODEL, HEADERS, QUERY, TIMEOUT_S, REASONING, REASONING_FIELD, OPTIONS;
        None if none is set.

        A bad value raises a `ValueError` that names the variable and never contains its value.
        """
        how = ("TIMEOUT_S", "REASONING", "REASONING_FIELD", "OPTIONS")
        names = ("BASE_URL", "API_KEY", "MODEL", "HEADERS", "QUERY", *how)
        settings = [environ.get(prefix + name, "").strip() for name in names]
        if not any(settings):
            return None
        base_url, api_key, model, headers, query, timeout_s, reasoning, reasoning_field, options = settings
        for name, value in (("BASE_URL", base_url), ("MODEL", model)):
            if not value:
                raise ValueError(f"{prefix}{name} is missing")
        return cls(
            base_url=_address(prefix + "BASE_URL", base_url),
            model=model,
            api_key=_header_value(prefix + "API_KEY", api_key),
            headers=_pairs(prefix + "HEADERS", headers),
            query=_pairs(prefix + "QUERY", query, plain=True),
            timeout_s=_seconds(prefix + "TIMEOUT_S", timeout_s),
            reasoning=cast(ReasoningMode, _one_of(prefix + "REASONING", reasoning or "none", MODES)),
            reasoning_field=cast(ReasoningField, _one_of(prefix + "REASONING_FIELD", reasoning_field, FIELDS)),
            options=_options(prefix + "OPTIONS", options),
        )

    def without_secrets(self, answer: Any) -> Any:
        """Return a response of the endpoint, a text or any JSON value, without its key, header and query values."""
        return blotted(answer, secrets_of(self.api_key, self.headers, self.query))

    async def away(self) -> str:
        """Return why the endpoint takes no request now, in its own words; empty if it does.

        One request for one token. An endpoint that refuses it for another reason, or is slow, takes requests.
        """
        refusals = [""]

        async def note(why: str) -> None:
            refusals.append(why)

        client = ChatClient(self, tries=1, timeout_s=min(self.timeout_s, LOOK_S), on_away=note)
        with contextlib.suppress(EndpointError):
            await client.complete([_READY], max_tokens=1)
        return refusals[-1]


def _address(name: str, value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name} is not an http or https address")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{name} contains a password or a query. Use API_KEY and QUERY")
    return value.rstrip("/").removesuffix("/chat/completions")


def _header_value(name: str, value: str) -> str:
    # A line break would begin another header.
    if not value.isascii() or not (value.isprintable()):
        raise ValueError(f"{name} has characters that are invalid in a header")
    return value


def _pairs(name: str, value: str, *, plain: bool = False) -> dict[str, str]:
    """Return a JSON object of strings; a query may also be written `a=b&c=d`."""
    if not value:
        return {}
    if plain and not value.startswith("{"):
        return dict(parse_qsl(value.lstrip("?"), keep_blank_values=True))
    try:
        pairs = json.loads(value)
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, dict) or not all(isinstance(item, str | int) for item in pairs.values()):
        raise ValueError(f'{name} is not a JSON object of strings, such as {{"X-Name": "value"}}')
    return {key: _header_value(name, str(item)) for key, item in pairs.items()}


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value or 120)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= 86_400:
        raise ValueError(f"{name} is not a number of seconds")
    return seconds


def _options(name: str, value: str) -> dict[str, Any]:
    try:
        return options_in(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise ValueError(f"{name} is none of {', '.join(one for one in allowed if one)}")
    return value


class ChatClient:
    """A client of chat completions at one endpoint; retries what is worth retrying.

    An endpoint without room (it refuses connections, or answers with a status of `AWAY`) is asked until its time is up,
    any other error `TRIES` times; `tries` bounds both. `on_away` gets the reason of each such refusal, and "" once the
    endpoint answers after one.
    """

    def __init__(
        self,
        endpoint: EndpointConfig,
        *,
        tries: int | None = None,
        timeout_s: float | None = None,
        on_away: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._endpoint, self._tries, self._on_away = endpoint, tries, on_away
        self._timeout_s = timeout_s or endpoint.timeout_s

    async def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the assistant's message, with the response's `usage` and `finish_reason`: the endpoint's word for why
        it stopped, or None.

        Raises `EndpointError` with the endpoint's own message. `options` go into the request (`tools`, `temperature`,
        `response_format`), and replace those of the endpoint.
        """
        own = fields_of(self._endpoint.options)
        body = {"model": self._endpoint.model, "messages": list(messages), **own, **options}
        try:
            # Over all tries: httpx limits each read, which an endpoint that trickles never exceeds.
            async with asyncio.timeout(self._timeout_s) as limit:
                return self._message(await self._post(body, limit))
        except TimeoutError:
            raise EndpointError(f"{NO_ANSWER} {self._timeout_s:g} s", "timeout") from None

    async def complete_json(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return as `complete` does, and ask for a JSON object where the endpoint knows `response_format`.

        An endpoint that refuses the field (400, 422) is asked without it, now and later.
        """
        place = (self._endpoint.base_url, self._endpoint.model)
        if "response_format" in (*options, *self._endpoint.options) or place in _plain_endpoints:
            return await self.complete(messages, **options)
        try:
            return await self.complete(messages, response_format={"type": "json_object"}, **options)
        except EndpointError as refusal:
            if not refusal.message.startswith(("the endpoint answered 400:", "the endpoint answered 422:")):
                raise
        reply = await self.complete(messages, **options)
        _plain_endpoints.add(place)
        return reply

    async def _post(self, body: dict[str, Any], limit: asyncio.Timeout) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        if self._endpoint.api_key:
            headers["Authorization"] = f"Bearer {self._endpoint.api_key}"
        # Last, so that an endpoint with another scheme can replace `Authorization`.
        headers |= self._endpoint.headers
        url, content = f"{self._endpoint.base_url.rstrip('/')}/chat/completions", encode(body)
        limits = httpx.Timeout(self._timeout_s, connect=min(10.0, self._timeout_s / 2))
        give_up = time.monotonic() + self._timeout_s
        # A redirect would take the key to another host.
        async with httpx.AsyncClient(timeout=limits, follow_redirects=False, trust_env=not is_loopback(url)) as http:
            errors = refusals = 0
            for attempt in itertools.count(1):
                answer, why, has_no_room = await self._sent(http, url, headers, content)
                # Any other refusal, such as that of a wrong key, would only come again.
                if answer is not None and answer.status_code != 429 and answer.status_code < 500:
                    if refusals and self._on_away is not None:
                        await self._on_away("")
                    return answer
                if has_no_room and self._on_away is not None:
                    await self._on_away(self._said(_refusal(answer) if answer is not None else why))
                errors, refusals = errors + (not has_no_room), refusals + has_no_room
                pause = _pause(attempt, answer)
                is_last = attempt == self._tries or errors == TRIES
                if is_last or time.monotonic() + pause > give_up:
                    break
                await asyncio.sleep(pause)
                if has_no_room and self._tries is None:  # waiting takes nothing from the time to answer
                    limit.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
        # The last response, even if it is an error: its words name the cause.
        if answer is not None:
            return answer
        raise EndpointError(self._said(why), "unreachable")

    async def _sent(
        self, http: httpx.AsyncClient, url: str, headers: Mapping[str, str], content: bytes
    ) -> tuple[httpx.Response | None, str, bool]:
        """Return the response, why there is none, and whether the endpoint takes no request now."""
        try:
            answer = await http.post(url, params=dict(self._endpoint.query) or None, headers=headers, content=content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"cannot reach {self._endpoint.base_url}: {type(error).__name__}: {error}"
            return None, why, isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return answer, "", answer.status_code in AWAY

    def _message(self, answer: httpx.Response) -> dict[str, Any]:
        """Return the assistant's message without the endpoint's secrets.

        Callers can then record or show any part of it.
        """
        if answer.status_code != 200:
            raise EndpointError(self._said(_refusal(answer)), "refused")
        try:
            body = json.loads(answer.content)
            message, usage = body["choices"][0]["message"], body.get("usage")
            why = body["choices"][0].get("finish_reason")
            cleaned = self._endpoint.without_secrets({"message": message, "usage": usage, "finish_reason": why})
            cleaned["finish_reason"] = reason_of(cleaned["finish_reason"])
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            words = f"the endpoint's answer is no chat completion: {self._said(answer.text)}"
            raise EndpointError(words, "not_a_chat_endpoint") from None
        if not isinstance(message, dict):
            raise EndpointError("the endpoint's answer holds no message", "not_a_chat_endpoint")
        return {**cleaned.pop("message"), **cleaned}

    def _said(self, words: str) -> str:
        """Return an error in the endpoint's own words.

        It is truncated last: half a secret would not be found.
        """
        text = str(self._endpoint.without_secrets(words.strip()))[:_WORDS]
        # a database takes neither of these
        return text.encode("utf-8", "replace").decode().replace("\x00", "") or "(an empty answer)"


def _pause(attempt: int, answer: httpx.Response | None) -> float:
    asked_for = retry_after(answer) if answer is not None else None
    if asked_for:  # none of 0: the endpoint would get all our requests of its busiest second
        return max(asked_for, FIRST_PAUSE_S)
    return min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S) * (0.5 + random.random())  # noqa: S311


def _refusal(answer: httpx.Response) -> str:
    return f"the endpoint answered {answer.status_code}: {_own_words(answer).strip() or '(an empty answer)'}"


def _own_words(answer: httpx.Response) -> str:
    """Return the endpoint's own error message, wherever its format puts it."""
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        return answer.text
    for value in (body.get("error"), body.get("message"), body.get("detail")) if isinstance(body, dict) else ():
        words = value.get("message") if isinstance(value, dict) else value
        if isinstance(words, str) and words.strip():
            return words
    return answer.text


class ChatPolicy:
    """Lets a chat model choose. Tools are sent natively; calls that a model writes into its words are read, too.

        policy = ChatPolicy("http://127.0.0.1:8001/v1", model="my-model", api_key=key)
        result = await rollout(policy, environment, dash, task="Cancel order 7", expert="plain")

    The first argument is a base URL or an `EndpointConfig`; `options` go into every request, such as `temperature`.
    A server that refuses, loads or is overloaded is waited for, as long as `timeout_s`; `on_away` gets each refusal.
    """

    def __init__(
        self,
        endpoint: EndpointConfig | str,
        *,
        model: str = "",
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        options: Mapping[str, Any] | None = None,
        on_away: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        if isinstance(endpoint, str):
            endpoint = EndpointConfig(endpoint, model, api_key, headers or {}, query or {}, timeout_s)
        self.endpoint = endpoint
        self._client, self._options = ChatClient(endpoint, on_away=on_away), dict(options or {})

    def __repr__(self) -> str:
        return f"ChatPolicy({self.endpoint!r})"

    async def act(self, view: View) -> Turn:
        options = dict(self._options)
        if view.tools:
            options["tools"] = offered(view.tools, expert=False)  # the loop has added the expert's
        sent = messages(view.steps, self.endpoint.reasoning, self.endpoint.reasoning_field)
        message = await self._client.complete(sent, **options)
        return _turn(message, view, sent, tags=self.endpoint.reasoning_field == "tags")


def _turn(message: Mapping[str, Any], view: View, sent: Sequence[Mapping[str, Any]], *, tags: bool = False) -> Turn:
    content, reasoning = read_reasoning(message, tags=tags)
    usage = message.get("usage")
    why = message.get("finish_reason")
    common: dict[str, Any] = {"content": content, "reasoning": reasoning, "finish_reason": why}
    common["usage"] = usage if isinstance(usage, dict) else None
    native = calls_of(message)
    # What is not made is kept as the model wrote it.
    unmade = {**common, "content": "\n\n".join(part for part in (content, as_written(native)) if part)}
    if is_stopped(why):
        # Not even its calls: a server can close the JSON of one that was cut.
        return Turn(**unmade)
    protocol: ToolProtocol = "native" if native else "text"
    try:
        # Native calls decide: beside them a text can quote the tags of a call.
        calls = native_calls(native) or _calls_in(content, view, sent)
    except MalformedCall as error:
        return Turn(malformed=error.message, **unmade)
    if not view.has_tools and not any(call.name == ASK_TOOL for call in calls):
        return _action(common)
    if calls:
        return Turn(calls=calls, tool_protocol=protocol, **common)
    return Turn(answer=content, **{**common, "content": ""})


def _calls_in(content: str, view: View, sent: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return the calls that the model wrote into its words. In an environment of actions JSON is an action."""
    names = [tool.name for tool in view.tools or ()] if view.has_tools else None
    calls = text_calls(content, names)
    made = [call for message in sent for call in message.get("tool_calls") or ()]
    # a result can repeat a call that the agent made: making it again quotes nothing
    earlier = [(call["function"]["name"], call["function"]["arguments"]) for call in made]
    if all((call.name, as_text(call.arguments)) in earlier for call in calls):
        return calls
    # advice suggests calls, which are to be made
    asked = {call["id"] for call in made if call["function"]["name"] == ASK_TOOL}
    results = [message for message in sent if message["role"] == "tool" and message["tool_call_id"] not in asked]
    return text_calls(content, names, [message["content"] for message in results])


def _action(common: dict[str, Any]) -> Turn:
    """Parse a JSON object as the next action of an environment without tools; anything else is the answer."""
    # Models often put JSON into a fence.
    text = behind_thoughts(common["content"]).strip()
    text = text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        action, end = json_at(text, 0, "The action")
    except MalformedCall:
        action, end = None, 0
    action = None if text[end:] else action
    rest = {**common, "content": ""}
    return Turn(action=action, **rest) if isinstance(action, dict) else Turn(answer=common["content"], **rest)
