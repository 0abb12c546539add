"""The append of steps as plain ASGI: `POST /api/v1/episodes/{id}/steps` of a bearer, below Django's middleware.

Owns reading the body within its limits, and the answer. The rules are those of `people.http` and the types those of
`api.append_steps`, which documents this call; the writing is `committer.py`'s. A request that waits for its commit
holds no thread and no connection. Called by `awmweb/asgi.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from django.db import Error as DatabaseError
from pydantic import ValidationError

from awmclient.schema import MAX_STEP_BYTES, StepBatch
from episodes.committer import committer
from episodes.entries import Entry, entries_of_batch
from people.errors import AppError, Away, Busy, TooLarge
from people.http import AGAIN, RETRY_AFTER_S, TOKENS, envelope, misshapen, read_object

log = logging.getLogger(__name__)
PATH = re.compile(r"/api/v1/episodes/([^/]+)/steps")
READING_BYTES = 64 * 1024 * 1024
DRAINED_BYTES = 64 * 1024 * 1024
LARGE_BYTES = 64 * 1024
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_reading = 0


class HungUp(Exception):
    """The caller is gone; nobody is left to answer."""


def takes(scope: dict[str, Any]) -> bool:
    """Whether a request is ours: an append that shows a token. Anything else is Django's."""
    return scope["method"] == "POST" and PATH.fullmatch(scope["path"]) is not None and _secret(scope) is not None


async def append_steps(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """1. who is it, 2. the body, 3. its types, 4. the commit, 5. the answer."""
    global _reading
    declared = _declared(scope)
    try:
        if _reading + declared > READING_BYTES:
            raise Busy
        _reading += declared
        try:
            status, answer = 200, {"acknowledged": await _append(scope, receive)}
        finally:
            _reading -= declared
    except AppError as error:
        status, answer = error.status, envelope(error)
    except DatabaseError as error:
        log.warning("database away: %s", error)
        status, answer = 503, envelope(Away())
    except HungUp:
        return
    except Exception:
        log.exception("an append failed")
        status, answer = 500, envelope(AppError("Something broke on our side; it is in the log.", code="internal"))
    await _respond(send, status, answer)


async def _append(scope: dict[str, Any], receive: Receive) -> int:
    actor = await TOKENS.actor(_secret(scope) or "")
    raw = await _body(scope, receive)
    entries = await asyncio.to_thread(_entries, raw) if len(raw) > LARGE_BYTES else _entries(raw)
    found = PATH.fullmatch(scope["path"])
    return await committer.submit(actor, found[1] if found else "", entries)


def _entries(raw: bytes) -> list[Entry]:
    body = read_object(raw, MAX_STEP_BYTES)
    try:
        batch = StepBatch.model_validate(body)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    return entries_of_batch(body["steps"], batch.steps)


async def _body(scope: dict[str, Any], receive: Receive) -> bytes:
    """The whole body. What is too large is read to its end and dropped, so that the caller gets to hear it."""
    parts: list[bytes] = []
    size, more = 0, _declared(scope) <= DRAINED_BYTES
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HungUp
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size <= MAX_STEP_BYTES:
            parts.append(part)
        elif size > DRAINED_BYTES:
            break
    if size > MAX_STEP_BYTES or _declared(scope) > DRAINED_BYTES:
        raise TooLarge
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _header(scope: dict[str, Any], wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


def _declared(scope: dict[str, Any]) -> int:
    said = _header(scope, b"content-length")
    return min(int(said), DRAINED_BYTES + 1) if said.isdecimal() and len(said) < 20 else 0


def _secret(scope: dict[str, Any]) -> str | None:
    kind, _, secret = _header(scope, b"authorization").partition(" ")
    return secret if kind.lower() == "bearer" else None


async def _respond(send: Send, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status in AGAIN:
        headers.append((b"retry-after", RETRY_AFTER_S.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
