"""One request to a dashboard: build it, send it, retry while that is safe, parse the envelope.

Owns URL, token, timeouts, retries and the parsing of refusals. Leaves the calls to the modules beside it. The
token is in an object that never prints it, and no redirect is followed, so it reaches no other host.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from awmclient.errors import Invalid, Refused, Unreachable, refusal
from awmclient.words.encoding import encode

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
CONNECT_S = 5.0
READ_S = 30.0
AGAIN = (408, 429, 503)
"""Codes of requests without effect: a slow body, too many requests, an unavailable database."""
FULL, FULL_S = "no_space", 3600.0
"""The code of a dashboard whose disk is full, and for how long space is waited for: a person has to make it."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Reply:
    """A successful response of the dashboard."""

    status: int
    body: dict[str, Any]
    content: bytes = b""
    """What came instead of JSON, where that was asked for."""


@dataclass(frozen=True)
class _Failure:
    """Why a request goes again, and the pause that the dashboard asked for."""

    why: str
    pause_s: float | None = None
    is_full: bool = False


class _Bearer(httpx.Auth):
    """An authentication that adds the token to a request, and to nothing else."""

    def __init__(self, token: str) -> None:
        token = token.strip()
        # A line break in the token would begin another header.
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise Invalid("The token is empty or has invalid characters.")
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request

    def __repr__(self) -> str:
        return "Bearer(***)"


def root_of(url: str) -> str:
    """Turn `http://host:8000/` into `http://host:8000/api/v1`; a user and password in the URL are dropped."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid("The dashboard's URL must start with http:// or https:// and name a host.")
    path = parts.path.rstrip("/").removesuffix("/api/v1")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], f"{path}/api/v1", "", ""))


def is_loopback(url: str) -> bool:
    """Return whether the host is this machine. Requests to it ignore a proxy from the environment."""
    return urlsplit(url).hostname in _LOOPBACK


@cache
def version() -> str:
    """Return the version of the installed wheel with its commit; in a checkout `unknown`."""
    try:
        wheel = metadata.distribution("awmclient")
    except metadata.PackageNotFoundError:
        return "unknown"
    here = Path(__file__).resolve().parent.parent
    return wheel.version if Path(str(wheel.locate_file("awmclient"))).resolve() == here else "unknown"


class Wire:
    """The connection of one dashboard object; safe for many tasks of one event loop."""

    def __init__(self, url: str, token: str, *, retry_s: float = 60.0, verify: bool | str = True) -> None:
        self.root = root_of(url)
        self.retry_s = retry_s
        self._http = httpx.AsyncClient(
            auth=_Bearer(token),
            follow_redirects=False,
            verify=verify,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            # Each long poll holds a connection: with a limit, many asks would hold up appends.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            trust_env=not is_loopback(self.root),
            headers={"User-Agent": f"awmclient/{version()}", "Accept": "application/json"},
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        *,
        wants_bytes: bool = False,
        retry_s: float | None = None,
        read_s: float = READ_S,
    ) -> Reply:
        """Send until there is a response, for at most `retry_s`; for an hour to a dashboard whose disk is full, if the
        caller leaves the time to us. Each call can be repeated: it has a key, or changes nothing twice."""
        content = body if body is None or isinstance(body, bytes) else encode(body)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        give_up, waits_for_space = _now() + (self.retry_s if retry_s is None else retry_s), retry_s is None
        pause = FIRST_PAUSE_S
        while True:
            result = await self._once(method, path, content, kind, read_s, wants_bytes)
            if isinstance(result, Reply):
                return result
            if result.is_full and waits_for_space:
                give_up, waits_for_space = _now() + FULL_S, False
            # With jitter, so that many loops that lost one dashboard do not return together. Of a full one the pause
            # that it asks for is a beginning: it can stay full for long.
            own = pause * (0.5 + random.random())  # noqa: S311
            asked_for = result.pause_s or 0.0  # 0 is none: it would send as many requests as fit into a second
            wait = max(own, asked_for) if result.is_full or not asked_for else max(asked_for, FIRST_PAUSE_S)
            if _now() + wait > give_up:
                raise Unreachable(f"{method} {path}: {result.why}")
            await asyncio.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _once(
        self,
        method: str,
        path: str,
        content: bytes | None,
        kind: str,
        read_s: float,
        wants_bytes: bool,
    ) -> Reply | _Failure:
        """Try once."""
        headers = {} if content is None else {"Content-Type": kind}
        timeout = httpx.Timeout(read_s, connect=CONNECT_S)
        try:
            answer = await self._http.request(
                method, self.root + path, content=content, headers=headers, timeout=timeout
            )
        except httpx.TransportError as error:
            return _Failure(_cause(error))
        except httpx.HTTPError as error:  # an unreadable response, such as invalid compression
            raise Refused(f"{method} {path}: {_cause(error)}", "unreadable", 502) from None
        if answer.status_code in AGAIN or answer.status_code >= 500:
            code, message = _refusal(_json(answer))
            is_full = code == FULL
            why = message if is_full else f"the dashboard answered {answer.status_code}"
            return _Failure(why, retry_after(answer), is_full)
        return _read_reply(method, path, answer, wants_bytes)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _cause(error: httpx.HTTPError) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def retry_after(answer: httpx.Response) -> float | None:
    """Parse seconds or an HTTP date; invalid values count as missing."""
    value = answer.headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _read_reply(method: str, path: str, answer: httpx.Response, wants_bytes: bool = False) -> Reply:
    status = answer.status_code
    if 300 <= status < 400:
        # Without its query, which can have a secret.
        target = urlsplit(answer.headers.get("Location", ""))
        where = f"{target.scheme}://{target.hostname}" if target.hostname else target.path or "another place"
        raise Refused(f"{method} {path}: the dashboard redirects to {where}. Use its final URL", "redirected", status)
    if wants_bytes and status < 300:
        return Reply(status, {}, answer.content)
    body = _json(answer)
    if status >= 400:
        code, message = _refusal(body)
        raise refusal(status, code, message or f"{method} {path}: the dashboard answered {status}")
    if not isinstance(body, dict):
        raise Refused(f"{method} {path}: this address is not an awmweb dashboard", "not_a_dashboard", status)
    return Reply(status, body)


def _refusal(body: Any) -> tuple[Any, str]:
    """Return code and message of a refusal's envelope; None and nothing of any other body."""
    error = body.get("error") if isinstance(body, dict) else None
    return (error.get("code"), str(error.get("message") or "")) if isinstance(error, dict) else (None, "")


def _json(answer: httpx.Response) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
