"""The web process: static files, the long poll, appends, MCP and sockets beside Django, on one port.

The long poll, the append of steps and MCP are routed here because Django's middleware would keep a thread for each
waiting request.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import gzip
import io
import logging
import mimetypes
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")

import django

# Before the imports below: they load models, which need Django's apps.
django.setup(set_prefix=False)

from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http.request import split_domain_port, validate_host
from django.urls import path, re_path, set_script_prefix
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from awmclient.nouns.pictures import PICTURE_BYTES
from awmenv import spans
from awmweb import kept_files, logs, urls  # noqa: F401  # or the first request would import it
from awmweb.embedded import gate
from episodes.live import intake, reading
from episodes.live.consumers import PROJECT, WIRE, EpisodeConsumer
from episodes.record.pictures import TOO_LARGE as PICTURE_TOO_LARGE
from experts.api import get_ask
from experts.consumers import AskWait, QueueConsumer
from experts.mcp import desk as mcp_desk
from experts.mcp import server as mcp
from experts.rules.file_types import MOST_BYTES, TOO_LARGE
from imports import otlp_http
from imports.record.importing import UPLOAD_MAX
from people import measures
from people.errors import AWAY, AppError, ForeignHost, NotFound, TooLarge
from people.http import refuse, sender_of
from people.requests import addresses
from people.requests.bodies import Body, HungUp, bearer_secret, has_body, header, replayed

log = logging.getLogger(__name__)
STATEMENT_S = 15
"""The longest statement of a request: pages, the API and sockets. Workers and commands have no such limit."""
OPTIONS = settings.DATABASES["default"]["OPTIONS"]
if settings.AWMWEB_POOLER == "none":
    # a pooler's sessions are shared, so there it has the limit (docs/production.md)
    OPTIONS["options"] = f"{OPTIONS.get('options', '')} -c statement_timeout={STATEMENT_S}s".strip()
# By default a thread waits up to 5 ms for the interpreter lock of a busy event loop, after every response of the
# database. The committer's thread would delay all waiting appends by that.
sys.setswitchinterval(0.0005)
UPLOADS = ("/imports/", "/api/v1/imports")
# The boundaries and other fields of the form come on top of the files.
UPLOAD_BYTES = UPLOAD_MAX + 64 * 1024
FILES = (
    (re.compile(r"/api/v1/asks/[^/]+/attachments"), MOST_BYTES, TOO_LARGE),
    (re.compile(r"/api/v1/episodes/[^/]+/blobs"), PICTURE_BYTES, PICTURE_TOO_LARGE),
)
"""Addresses whose body is a file, with its most bytes and the refusal of more."""
files = StaticFiles(directory=settings.STATICFILES_DIRS[0], packages=[("django_htmx", "static")])
static = GZipMiddleware(files, minimum_size=1024, compresslevel=6)
ROUTE = "awmweb.route"
"""Where a request's scope has the template of its address: an address itself would make a figure for each object."""
UNTRACED = ("/static/", "/health", "/metrics")
RUN = re.compile(r"(?:/api/v1)?/runs/([0-9a-z]{20})(?=/|$)")
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
THREADS = 64
"""Requests that Django serves at the same time in a process; further ones wait. Its database connections are fewer."""
VENDOR = "vendor/"
"""Third-party files, whose names contain their version."""
FOREVER = b"public, max-age=31536000, immutable"
waiting = AuthMiddlewareStack(URLRouter([path(get_ask.route, AskWait.as_asgi())]))
denied = WebsocketDenier.as_asgi()
sockets = URLRouter(
    [
        path("ws/episodes/<str:pk>", EpisodeConsumer.as_asgi()),
        path("ws/queue", QueueConsumer.as_asgi()),
        re_path("", denied),
    ]
)
sockets_of_people = AuthMiddlewareStack(sockets)


class OneThread(ASGIHandler):
    """Django's handler, with all of a request in one thread of a pool: middleware, view and the end of its response.

    All our views are plain functions. Django would start a thread for each request, and go there and back for each of
    twelve parts of middleware; that took two thirds of the time of a small request.
    """

    threads = ThreadPoolExecutor(THREADS, "request")

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = io.BytesIO((await receive())["body"])  # `replayed` has the whole of it
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        response = await loop.run_in_executor(self.threads, context.run, self._respond, scope, body)
        if not response.streaming:  # it is closed and still has its content
            await self.send_response(response, send)
            return
        if not response.is_async:
            response.streaming_content = _in_turns(response.streaming_content)
        try:
            await self.send_response(response, send)
        finally:
            await sync_to_async(response.close, thread_sensitive=False)()

    def _respond(self, scope: dict[str, Any], body: Any) -> Any:
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        request, refused = self.create_request(scope, body)
        response: Any = refused if request is None else self.get_response(request)
        response._handler_class = type(self)
        if request is not None and (match := request.resolver_match) is not None:
            scope[ROUTE] = match.route
        if response.streaming:
            close_old_connections()  # those of this thread; its content is read in others
        else:
            response.close()
            body.close()
        return response


async def _in_turns(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read blocks one by one, each in any thread: Django would read all of them first, in a thread that all share."""
    following = sync_to_async(lambda: next(blocks, None), thread_sensitive=False)
    while (block := await following()) is not None:
        yield block


django_app = OneThread()


def names_us(scope: dict[str, Any]) -> bool:
    """Return whether a request is addressed to this server.

    Without this check, a page whose host name resolves to our address (DNS rebinding) could reach the routes beside
    Django. A request without a host passes, as for Django.
    """
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if not hosts and (server := scope.get("server")):
        hosts = [f"[{server[0]}]" if ":" in server[0] else server[0]]
    # Two Host headers become one name with a comma, which no allowed host matches.
    return _is_allowed(",".join(hosts), tuple(settings.ALLOWED_HOSTS))


@functools.lru_cache(maxsize=64)
def _is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed)


def is_ours(scope: dict[str, Any]) -> bool:
    """Return whether an Origin is ours. Otherwise any page could open a socket with a person's cookie."""
    origin, host = header(scope, b"origin"), header(scope, b"host")
    return origin in {settings.AWMWEB_PUBLIC_URL, f"http://{host}", f"https://{host}"} if origin else False


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve a request, and measure it; one whose client left has status 0."""
    began, status = time.perf_counter(), 0

    async def noted(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    about = logs.ids_of(scope["path"])
    entered = logs.enter(**about)
    try:
        if spans.are_on() and not scope["path"].startswith(UNTRACED):
            await _traced(scope, receive, noted, about, lambda: status)
        else:
            await _routed(scope, receive, noted)
    finally:
        logs.leave(entered)
        method, route = scope["method"], scope.get(ROUTE, "")
        measures.count("awmweb_requests_total", method if method in METHODS else measures.OTHER, route, str(status))
        measures.observe("awmweb_request_seconds", time.perf_counter() - began, route)


async def _traced(
    scope: dict[str, Any], receive: Any, send: Any, about: dict[str, Any], status: Callable[[], int]
) -> None:
    """Serve a request in a span. It has the template of its address: an address can be a secret, or hold search words.

    A span of the client's is not its parent: anyone can send any.
    """
    project, where = addresses.split(scope["path"])
    run = RUN.match(where)
    about = {**about, "project": project, **({"run": run[1]} if run else {})}
    method = scope["method"] if scope["method"] in METHODS else measures.OTHER
    with spans.span(method, spans.SERVER, carried="", method=method, **about):
        try:
            await _routed(scope, receive, send)
        finally:
            route = scope.get(ROUTE, "")
            spans.note(f"{method} {route}".strip(), route=route, status=status(), failed=status() >= 500)


async def _routed(scope: dict[str, Any], receive: Any, send: Any) -> None:
    where = addresses.split(scope["path"])[1]
    if not names_us(scope):
        await refuse(send, ForeignHost())
    elif scope["path"].startswith("/static/"):
        scope[ROUTE] = "static"
        await _static(scope, receive, send)
    elif intake.takes(scope):
        scope[ROUTE] = intake.APPEND.route
        await intake.append_steps(scope, receive, send)
    elif scope["path"] == "/mcp":
        scope[ROUTE] = "mcp"
        await mcp.serve(scope, receive, send)
    elif scope["path"] == "/mcp/desk":
        scope[ROUTE] = "mcp/desk"
        await mcp_desk.serve(_routed, scope, receive, send)
    elif reading.takes(scope):
        await reading.in_turn(_django, scope, receive, send)
    elif otlp_http.takes(scope):
        scope[ROUTE] = "v1/traces"  # also of one that is refused before Django has it
        await otlp_http.in_turn(_with_body, django_app, scope, receive, send)
    elif get_ask.key_in(scope["method"], where) is not None:
        scope[ROUTE] = get_ask.route
        await _with_body(waiting, in_project(scope), receive, send)
    else:
        await _django(scope, receive, send)


def in_project(scope: dict[str, Any]) -> dict[str, Any]:
    """Take the project off an address for the routes of Channels, as `awmweb.middleware.InProject` does for Django."""
    slug, _ = addresses.split(scope["path"])
    return {**scope, "root_path": f"/projects/{slug}", PROJECT: slug} if slug else scope


async def _static(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve one static file, also of another version; any other path is not found."""
    version, name = kept_files.version_of(scope["path"])
    try:
        if version and not kept_files.ours.has(version, name):
            await _of_other_version(version, name, scope, send)
            return
        kept = FOREVER if version or name.startswith(VENDOR) else b"no-cache"
        root = scope["path"].removesuffix(f"/{name}")
        below = {**scope, "root_path": scope.get("root_path", "") + root}
        await static(below, receive, _cached(send, kept))
    except (HTTPException, OSError):
        await refuse(send, NotFound("File not found."))


async def _of_other_version(version: str, name: str, scope: dict[str, Any], send: Any) -> None:
    packed = await sync_to_async(kept_files.read, thread_sensitive=False)(version, name)
    if packed is None:
        raise HTTPException(404)
    accepts = "gzip" in header(scope, b"accept-encoding")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = [(b"content-type", kind.encode()), *([(b"content-encoding", b"gzip")] if accepts else [])]
    await _cached(send, FOREVER)({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": packed if accepts else gzip.decompress(packed)})


async def _django(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await _with_body(django_app, scope, receive, send)


async def _with_body(app: Any, scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body within its limit, once its sender is known.

    Errors of the session's own database query are refused here, too.
    """
    where = addresses.split(scope["path"])[1]
    of_file = next((one for one in FILES if scope["method"] == "POST" and one[0].fullmatch(where)), None)
    sender = ""
    try:
        # Only a body costs memory, so only its sender is looked up here.
        sender = await sender_of(scope) if has_body(scope) else ""
        most = UPLOAD_BYTES if where in UPLOADS else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        most = of_file[1] if of_file is not None else most
        with Body(scope, receive, most, sender) as body:
            await app(scope, replayed(await body.read(), receive), send)
    except HungUp:
        return
    except (AppError, DatabaseError) as error:
        is_large = of_file is not None and sender and isinstance(error, TooLarge)
        await refuse(send, TooLarge(of_file[2]) if of_file is not None and is_large else error)


def _cached(send: Any, how: bytes) -> Any:
    """Add the caching header of a file. An address without a version is asked for each time, mostly with a 304."""

    async def inner(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [
                *message.get("headers", []),
                (b"cache-control", how),
                (b"x-content-type-options", b"nosniff"),
            ]
            message = {**message, "headers": headers}
        await send(message)

    return inner


async def websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Accept a socket: a bearer needs no Origin and no session; a cookie needs both."""
    # The server's own `send`, by which the hub finds the transport that takes prepared frames.
    scope = {**in_project(scope), WIRE: send}
    logs.enter(**logs.ids_of(scope["path"]))  # a socket has its own task, which ends with it
    try:
        if not names_us(scope):
            await denied(scope, receive, send)
        elif bearer_secret(scope) is not None:
            await sockets(scope, receive, send)
        else:
            await (sockets_of_people if is_ours(scope) else denied)(scope, receive, send)
    except AWAY as error:
        log.warning("database unavailable while a socket connects: %s", error)
        await send({"type": "websocket.http.response.start", "status": 503, "headers": [(b"retry-after", b"1")]})
        await send({"type": "websocket.http.response.body", "body": b""})


def _end_by_return() -> None:
    """Have SIGTERM end this process by a return. uvicorn, which shuts down first, sends itself the signal again, and
    by default that would lose the last spans."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


application = ProtocolTypeRouter({"http": http, "websocket": websocket})

# Everything loaded so far stays. Each collection would scan it for cycles and block the event loop for 150 ms.
gc.collect()
gc.freeze()
# A request makes thousands of objects that end with it; by default each would be searched for cycles several times.
gc.set_threshold(20_000, 20, 20)
# Last: all of the above loads while the database starts.
gate.wait()
kept_files.keep(kept_files.ours.look())
measures.start("web")
if settings.AWMWEB_TRACES_TO:
    spans.start("web", settings.VERSION, settings.AWMWEB_TRACES_TO)
    _end_by_return()
