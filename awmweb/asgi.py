"""The web process: static files, the waiting poll, appends and sockets beside Django, on one port.

The waiting poll and the append of steps are routed here because Django's middleware would keep a thread for each
request that waits.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")

from django.core.asgi import get_asgi_application

django_app = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import path, re_path
from starlette.staticfiles import StaticFiles

from episodes import intake
from episodes.consumers import WIRE, EpisodeConsumer, socket_token
from experts.consumers import AskWait, QueueConsumer

static = StaticFiles(directory=settings.STATICFILES_DIRS[0], packages=[("django_htmx", "static")])
waiting = AuthMiddlewareStack(URLRouter([path("api/v1/asks/<str:pk>", AskWait.as_asgi())]))
sockets = URLRouter(
    [
        path("ws/episodes/<str:pk>", EpisodeConsumer.as_asgi()),
        path("ws/queue", QueueConsumer.as_asgi()),
        re_path("", WebsocketDenier.as_asgi()),
    ]
)
sockets_of_people = AuthMiddlewareStack(sockets)


def is_ours(scope: dict[str, Any]) -> bool:
    """A cookie socket needs our Origin, else any page could listen with a person's cookie."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    return origin in {settings.AWMWEB_PUBLIC_URL, f"http://{host}", f"https://{host}"} if origin else False


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    where = scope["path"]
    if where.startswith("/static/"):
        inner = {**scope, "path": where, "root_path": scope.get("root_path", "") + "/static"}
        await static(inner, receive, _fresh(send))
    elif scope["method"] == "GET" and where.startswith("/api/v1/asks/") and "/" not in where[13:] and where[13:]:
        await waiting(scope, receive, send)
    elif intake.takes(scope):
        await intake.append_steps(scope, receive, send)
    else:
        await django_app(scope, receive, send)


def _fresh(send: Any) -> Any:
    """Browsers ask each time and get 304 mostly: no build step, so names carry no hash."""

    async def inner(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [
                *message.get("headers", []),
                (b"cache-control", b"no-cache"),
                (b"x-content-type-options", b"nosniff"),
            ]
            message = {**message, "headers": headers}
        await send(message)

    return inner


async def websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A bearer needs no Origin and no session; a cookie needs both."""
    scope = {**scope, WIRE: send}
    if socket_token(scope) is not None:
        await sockets(scope, receive, send)
    else:
        await (sockets_of_people if is_ours(scope) else WebsocketDenier.as_asgi())(scope, receive, send)


application = ProtocolTypeRouter({"http": http, "websocket": websocket})
