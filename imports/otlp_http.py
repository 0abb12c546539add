"""`POST /v1/traces`: the call of OpenTelemetry's exporters, outside of `/api/v1`, because they fix its address.

Owns what such a request goes through: token, turn, encoding, size, answer in the encoding of the request. Errors are
those of OTLP: an exporter repeats a request after 429, 502, 503 and 504, and drops it after any other refusal.

Turns are taken in the event loop (`in_turn`, called by `awmweb/asgi.py`), before the body is read and before a thread
is taken: the threads serve all projects.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from imports.readers import otlp
from imports.record import collecting
from people.access import Actor, bearer, may_record
from people.errors import AppError, NotFound, TooLarge, Unauthenticated
from people.http import AGAIN, RETRY_AFTER_S, as_refusal, sender_of
from people.record.members import token_of
from people.requests import addresses
from people.requests.bodies import Receive, Send, header
from people.requests.turns import SenderTurns
from people.text.in_words import bytes_in_words
from people.text.json_text import parse_json

BODY_MAX = 8 * 1024 * 1024
"""A request as it is sent."""
UNPACKED_MAX = 32 * 1024 * 1024
"""A request without its gzip."""
TOGETHER, LINE, WAIT_S = 2, 8, 5.0
"""Requests that one process reads together, as each can take several times its size; those of one sender that wait for
their turn, and how long. Any more are 429 immediately."""
PATH = "/v1/traces"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
GRPC = {400: 3, 401: 16, 403: 7, 404: 5, 409: 9, 413: 8, 415: 3, 422: 3, 429: 8}
"""Codes of `google.rpc` by HTTP status."""
OF_SENDER, OF_ALL = SenderTurns(1, LINE), SenderTurns(TOGETHER)
"""A sender's request has its body before it joins those of others: a body can be slow."""
ALL = "all"
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]
WithBody = Callable[[App, dict[str, Any], Receive, Send], Awaitable[None]]


class OtherEncoding(AppError):
    """Send application/x-protobuf or application/json, plain or with gzip."""

    code = "encoding"
    status = 415


class BadGzip(AppError):
    """The body is not gzip."""

    code = "bad_gzip"
    status = 400


def takes(scope: dict[str, Any]) -> bool:
    return scope["method"] == "POST" and addresses.split(scope["path"])[1] == PATH


async def in_turn(with_body: WithBody, app: App, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve a known sender in their turn, and a stranger immediately, who is refused anyway: 1. the sender's turn,
    2. the body, 3. a turn among all senders, 4. a thread."""

    async def among_all(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            async with OF_ALL.turn(ALL, WAIT_S):
                await app(scope, receive, send)
        except AppError as error:
            await _refuse(scope, send, error)

    try:
        sender = await sender_of(scope)
        if not sender:
            return await with_body(app, scope, receive, send)
        async with OF_SENDER.turn(sender, WAIT_S):
            await with_body(among_all, scope, receive, send)
    except (AppError, DatabaseError) as error:
        await _refuse(scope, send, error)


async def _refuse(scope: dict[str, Any], send: Send, error: Exception) -> None:
    """Send a refusal below Django, in the encoding of the request."""
    answer = _refused(header(scope, b"content-type").partition(";")[0].strip().lower(), error)
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.items()]
    headers.append((b"content-length", str(len(answer.content)).encode()))
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


@csrf_exempt
@require_POST
def receive_traces(request: HttpRequest) -> HttpResponse:
    """1. who is it, 2. the body, unpacked within its limit, 3. keep the spans, 4. name what was left out."""
    kind = request.content_type
    try:
        actor = _sender(request)
        if kind not in (PROTOBUF, JSON):
            raise OtherEncoding
        may_record(actor)  # before anything is read for it
        raw = _body(request)
        spans = otlp.of_protobuf(raw) if kind == PROTOBUF else otlp.of_json(parse_json(raw))
        collecting.take(actor, spans)
        return _answer(kind, otlp.answer_of(spans.left_out))
    except Exception as error:
        return _refused(kind, error)


def _refused(kind: str | None, error: Exception) -> HttpResponse:
    refused = as_refusal(error)
    answer = _answer(kind, {"code": GRPC.get(refused.status, 14), "message": refused.message}, refused.status)
    if refused.status in AGAIN:
        answer["Retry-After"] = RETRY_AFTER_S
    return answer


def _sender(request: HttpRequest) -> Actor:
    """Return who sends: a bearer alone, because an exporter has no session."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    token = token_of(secret) if kind.lower() == "bearer" else None
    if token is None:
        raise Unauthenticated("Send a token of scope agent in the Authorization header.")
    # as under any address of others: the token must not learn that the project exists
    if token.project.slug != getattr(request, "slug", token.project.slug):
        raise NotFound
    return bearer(token)


def _body(request: HttpRequest) -> bytes:
    """Return the body without its gzip."""
    # not `request.body`, which refuses what is larger than a form
    raw = request.read(BODY_MAX + 1)
    if len(raw) > BODY_MAX:
        raise TooLarge(f"A request has at most {bytes_in_words(BODY_MAX)}. Send fewer spans at a time.")
    packed = request.headers.get("Content-Encoding", "").lower()
    if packed in ("", "identity"):
        return raw
    if packed != "gzip":
        raise OtherEncoding
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(raw, UNPACKED_MAX + 1)
    except zlib.error as error:
        raise BadGzip from error
    if len(plain) > UNPACKED_MAX:
        raise TooLarge(f"A request has at most {bytes_in_words(UNPACKED_MAX)} unpacked. Send fewer spans at a time.")
    if not unpacker.eof:
        raise BadGzip("The gzip of the body is cut off.")
    return plain


def _answer(kind: str | None, body: dict[str, Any], status: int = 200) -> HttpResponse:
    if kind == PROTOBUF:
        return HttpResponse(otlp.as_protobuf(body), content_type=PROTOBUF, status=status)
    return HttpResponse(json.dumps(body), content_type=JSON, status=status)
