"""Who sends a request over MCP, and how one is refused before it reaches a tool. Shared by both servers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from mcp import types

from episodes.live.consumers import in_database
from experts.errors import ForeignOrigin
from experts.find import episode_tokens
from people.access import Actor
from people.errors import AppError, Unauthenticated
from people.http import respond
from people.known_tokens import TOKENS
from people.requests.bodies import Send, bearer_secret, header

Scope = dict[str, Any]
IN_ADDRESS = "token"
"""The parameter of an address that has the token of an episode."""


async def caller(scope: Scope) -> Actor:
    """Return whose token a request has. Raises for pages of other origins, and without a token that is known."""
    _refuse_foreign(scope)
    return await TOKENS.actor(_known_by(bearer_secret(scope)))


async def asker(scope: Scope) -> Actor:
    """Return who asks: the same, or the token of an episode, which can also be in the address.

    Most agents in a sandbox are given an address and no headers. No log has what follows its question mark.
    """
    _refuse_foreign(scope)
    named = parse_qs(scope["query_string"].decode("latin-1")).get(IN_ADDRESS, [""])[0]
    secret = _known_by(named if episode_tokens.is_episode_token(named) else bearer_secret(scope))
    if episode_tokens.is_episode_token(secret):
        return await in_database(episode_tokens.asker, secret)
    return await TOKENS.actor(secret)


def _refuse_foreign(scope: Scope) -> None:
    # against pages that reach this server by DNS rebinding, as the MCP specification asks
    if header(scope, b"origin") not in ("", settings.AWMWEB_PUBLIC_URL):
        raise ForeignOrigin


def _known_by(secret: str | None) -> str:
    if secret is None:
        raise Unauthenticated
    return secret


async def refuse(send: Send, error: AppError, allow: bytes = b"GET, POST, DELETE") -> None:
    more = {401: [(b"www-authenticate", b"Bearer")], 405: [(b"allow", allow)]}
    body = {"code": types.INVALID_REQUEST, "message": error.message, "data": {"code": error.code}}
    await respond(send, error.status, {"jsonrpc": "2.0", "id": None, "error": body}, more.get(error.status, []))
