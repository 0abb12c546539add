"""Reads of stored steps over HTTP: each waits for its sender's turn and holds it until its answer was taken.

Four pages of 4 MB, or steps of 8 MB, are all that one sender can have under way in a web process; a fifth waits for a
moment and is 429 then. Owns which requests these are and how long an answer may take to leave. Leaves the answer to
Django and the rule of turns to `people/requests/turns.py`. Called by `awmweb/asgi.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from django.db import Error as DatabaseError

from people.errors import AppError
from people.http import refuse, sender_of
from people.requests import addresses
from people.requests.bodies import Receive, Send
from people.requests.turns import READS

log = logging.getLogger(__name__)
STEPS = re.compile(r"/api/v1/episodes/[^/]+/steps(/[^/]+)?")
EPISODE = re.compile(r"/episodes/[^/]+/")
WAIT_S = 2.0
TAKEN_S = 120.0
"""A reader that has not taken its answer by then is cut off: lost connections would keep the turns of the others."""
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def takes(scope: dict[str, Any]) -> bool:
    """Return whether a request reads whole steps: a page of them or one, by the API or as raw text
    from the live page."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    where = addresses.split(scope["path"])[1]
    if EPISODE.fullmatch(where):
        return "raw" in parse_qs(scope["query_string"].decode("latin-1"))
    return STEPS.fullmatch(where) is not None


async def in_turn(app: App, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer a known sender in their turn, and a stranger immediately, who is refused anyway."""
    try:
        sender = await sender_of(scope)
        if not sender:
            return await app(scope, receive, send)
        async with READS.turn(sender, WAIT_S):
            await _taken(app, scope, receive, send)
    except (AppError, DatabaseError) as error:
        await refuse(send, error)


async def _taken(app: App, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Return once the answer has left; Django sends it in small parts, each of which waits for the one before."""
    try:
        async with asyncio.timeout(TAKEN_S):
            await app(scope, receive, send)
    except TimeoutError:
        # the server closes a connection whose answer stops in the middle
        log.warning("a reader did not take %s within %g s", scope["path"], TAKEN_S)
