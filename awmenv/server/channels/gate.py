"""The gate in front of every route: it checks origins and host names, and limits the rate of requests.

There is no sign-in here, so a web page in a person's browser is the one stranger that reaches a loopback port. A
browser always sends its origin and the host name it used: both are checked, for HTTP and for sockets. Other programs
send no origin.
"""

import asyncio
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from awmenv.server import strict
from awmenv.server.channels import pacing
from awmenv.server.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("awmenv.gate")

WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
SMALL = strict.Bounds(size=4 << 10, values=100)  # of any route but the agent's
BODY_S = 30.0
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
MAX_NOTED = 100


class RequestRefused(Exception):
    """A refused request; its status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Gate:
    """The ASGI wrapper around the app."""

    def __init__(self, app: Asgi, settings: Settings) -> None:
        self.app = app
        self._hosts = {name for name in (settings.host.lower(), *settings.allowed_hosts) if name}
        self._origins = set(settings.allowed_origins)
        self._admission = pacing.Admission()
        self._noted: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            self._check(scope)
            if scope["type"] == "http" and scope["method"] in WITH_BODY:
                receive = await _received(scope, receive)
        except RequestRefused as refused:
            self._note(refused)
            await _refuse(scope, send, refused)
            return
        if scope["type"] == "http" and scope["path"] != "/mcp":
            await self._admission.served(_run(self.app, scope, receive, send))
        else:
            await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        # Of two Host headers a proxy could read the other one.
        if len(hosts) > 1 or (hosts and not self._is_ours(hosts[0])):
            # A stranger's name may resolve to our address, so that its page has our origin (DNS rebinding).
            raise RequestRefused(421, f"no host {hosts[0][:100]!r} here (AWMENV_ALLOWED_HOSTS)")
        for name, value in scope["headers"]:
            origin = value.decode("latin-1")
            if name == b"origin" and not self._is_allowed(origin, hosts[0] if hosts else ""):
                raise RequestRefused(403, f"a page of {origin[:100]!r} is not allowed here (AWMENV_ALLOWED_ORIGINS)")

    def _is_ours(self, host: str) -> bool:
        """Return whether a host is a loopback name, a configured name, or an address, which DNS cannot redirect."""
        name, _port = _place(f"//{host}", "http")
        if not name:
            return False
        if name == "localhost" or name.endswith(".localhost") or name in self._hosts or "*" in self._hosts:
            return True
        return _is_address(name) or any(entry.startswith(".") and name.endswith(entry) for entry in self._hosts)

    def _is_allowed(self, origin: str, host: str) -> bool:
        """Return whether an origin is allowed: this server's own, or one from the settings; never `null`."""
        if "*" in self._origins or origin.lower() in self._origins:
            return True
        scheme = urlsplit(origin).scheme
        ours, theirs = _place(f"//{host}", scheme), _place(origin, scheme)
        return scheme in ("http", "https") and bool(theirs[0]) and ours == theirs

    def _note(self, refused: RequestRefused) -> None:
        """Log each reason of a refusal once."""
        if refused.reason not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted.add(refused.reason)
            log.warning("refused: %s", refused.reason)


def _place(address: str, scheme: str) -> tuple[str, int | None]:
    """Return name and port, by default the scheme's port; an empty name if it is malformed."""
    try:
        parts = urlsplit(address)
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return "", None
        return (parts.hostname or "").removesuffix("."), parts.port or PORTS.get(scheme)
    except ValueError:
        return "", None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _run(app: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


async def _received(scope: Scope, receive: Receive) -> Receive:
    """Return the whole body as an app reads it, if it is small and arrives in time."""
    most = pacing.FRAME.size if scope["path"] == "/mcp" else SMALL.size
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    # Cut first: converting thousands of digits takes quadratic time.
    if length.isdigit() and int(length[:20]) > most:
        raise RequestRefused(413, f"a body can have at most {most >> 10} KiB")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    break
                body += message.get("body", b"")
                if len(body) > most:
                    raise RequestRefused(413, f"a body can have at most {most >> 10} KiB")
                if not message.get("more_body", False):
                    break
    except TimeoutError as error:
        raise RequestRefused(408, f"the body did not arrive within {BODY_S:g} s") from error
    if body and scope["path"] != "/mcp":  # what reads it there checks it
        try:
            strict.read(bytes(body), SMALL)
        except strict.Unreadable as error:
            raise RequestRefused(400, f"a body is JSON: {error}") from error
    is_read = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            # Afterwards the server's own channel, on which an app gets the disconnect.
            return await receive()
        is_read = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return replay


async def _refuse(scope: Scope, send: Send, refused: RequestRefused) -> None:
    body = json.dumps({"detail": refused.reason}).encode()
    headers = [
        # The rest of a refused body is never read, so the connection cannot be used again.
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close"),
    ]  # fmt: skip
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        kind = "websocket.http.response"
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
