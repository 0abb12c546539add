"""Who sends a request over MCP, and how one is refused before it reaches a tool. Shared by both servers."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from mcp import types

from experts.errors import ForeignOrigin
from people.access import Actor
from people.errors import AppError, Unauthenticated
from people.http import respond
from people.known_tokens import TOKENS
from people.requests.bodies import Send, bearer_secret, header

Scope = dict[str, Any]


async def caller(scope: Scope) -> Actor:
    """Return whose token a request has. Raises for pages of other origins, and without a token that is known."""
    # against pages that reach this server by DNS rebinding, as the MCP specification asks
    if header(scope, b"origin") not in ("", settings.AWMWEB_PUBLIC_URL):
        raise ForeignOrigin
    secret = bearer_secret(scope)
    if secret is None:
        raise Unauthenticated
    return await TOKENS.actor(secret)


async def refuse(send: Send, error: AppError, allow: bytes = b"GET, POST, DELETE") -> None:
    more = {401: [(b"www-authenticate", b"Bearer")], 405: [(b"allow", allow)]}
    body = {"code": types.INVALID_REQUEST, "message": error.message, "data": {"code": error.code}}
    await respond(send, error.status, {"jsonrpc": "2.0", "id": None, "error": body}, more.get(error.status, []))
