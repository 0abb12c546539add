"""One socket per watched episode. It never takes a write; after a `gap` the page catches up over HTTP.

Owns permission at connect and the order "listen, then read what is stored, then pass on what comes", by which a watcher
misses nothing. Agents hear the agent's topic only.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.db import close_old_connections

from episodes import events, trajectory
from episodes.hub import SocketListener, hub
from episodes.models import Episode
from episodes.wire import writer_of
from people.access import Actor, bearer, current_memberships, is_id, person, sees_outcomes
from people.errors import AppError, NotFound, Unauthenticated
from people.http import TOKENS
from people.members import token_of

REFUSED = {401: 4401, 403: 4403, 404: 4404}
FIRST_PAGE = 200
RIGHT_S = 10
"""How often an open socket's right is looked at again: who was removed hears nothing after this."""
WIRE = "awmweb.send"
"""Where `awmweb/asgi.py` leaves the server's own `send`, which middleware may wrap."""
P = ParamSpec("P")
R = TypeVar("R")


def socket_token(scope: dict[str, Any]) -> str | None:
    headers = dict(scope.get("headers", []))
    kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return secret if kind.lower() == "bearer" else None


def actor_for(scope: dict[str, Any], project_id: str | None = None) -> Actor:
    """Who connects: a bearer, or a person by session cookie, as a member of the given project or of the chosen one."""
    secret = socket_token(scope)
    if secret is not None:
        token = token_of(secret)
        if token is None:
            raise Unauthenticated
        return bearer(token)
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        raise Unauthenticated
    mine = current_memberships(user)
    slug = scope["session"].get("project")
    found = (
        mine.filter(project_id=project_id).first()
        if project_id
        else mine.filter(project__slug=slug).first() or mine.first()
    )
    if found is None:
        raise NotFound
    return person(found)


async def in_database(visit: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """One short visit to the database in any thread; the connection goes back at once."""
    return await sync_to_async(_visit, thread_sensitive=False)(functools.partial(visit, *args, **kwargs))


def _visit(visit: Callable[[], R]) -> R:
    close_old_connections()
    try:
        return visit()
    finally:
        close_old_connections()


class LiveConsumer(AsyncWebsocketConsumer):
    """Shared course of a live socket: admit, listen, first frames, then every hint."""

    listener: SocketListener | None = None
    pump: asyncio.Task[None] | None = None
    guard: asyncio.Task[None] | None = None
    topics: tuple[str, ...] = ()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Without Channels' visit to the database thread around every message: ours close their own connections."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def websocket_disconnect(self, message: dict[str, Any]) -> None:
        await self.disconnect(message["code"])
        raise StopConsumer

    async def connect(self) -> None:
        try:
            self.topics = tuple(await self.admitted())
        except AppError as refused:
            await self.accept()
            await self.close(code=REFUSED.get(refused.status, 4400), reason=refused.code)
            return
        await self.accept()
        self.listener = SocketListener(writer_of(self.scope.get(WIRE)), self._drain_soon)
        self.pump = asyncio.create_task(self._begin(self.listener))
        self.guard = asyncio.create_task(self._guard())

    async def _guard(self) -> None:
        """Close once the right has ended; a database that is away ends no right."""
        while True:
            await asyncio.sleep(RIGHT_S)
            try:
                if tuple(await self.admitted()) != self.topics:  # of another project now
                    raise NotFound
            except AppError as refused:
                if self.listener is not None:
                    hub().drop(self.listener, *self.topics)
                await self.close(code=REFUSED.get(refused.status, 4400), reason=refused.code)
                return
            except DatabaseError:
                continue

    async def admitted(self) -> list[str]:
        """Check the right and name the topics. A bearer may be known already. Raises `AppError`."""
        secret = socket_token(self.scope)
        known = await TOKENS.actor(secret) if secret is not None else None
        return await in_database(self.admit, known)

    def admit(self, known: Actor | None) -> list[str]:
        """The same with the database at hand."""
        raise Unauthenticated

    async def first_frames(self) -> AsyncIterator[str]:
        """What a new listener hears first, each piece read when the one before has left."""
        return
        yield ""

    async def _begin(self, listener: SocketListener) -> None:
        """Listen, then read what is stored, then pass on what comes: so nothing is missed."""
        await hub().add(listener, *self.topics)
        async for payload in self.first_frames():
            await self.send(text_data=payload)
        await self._drain(listener)

    async def _drain(self, listener: SocketListener) -> None:
        while (text := listener.take()) is not None:
            await self.send(text_data=text)
        listener.flowing()
        self.pump = None

    def _drain_soon(self) -> None:
        assert self.listener is not None
        self.pump = asyncio.create_task(self._drain(self.listener))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A socket never takes a write; whatever comes is left unread."""

    async def disconnect(self, code: int) -> None:
        if self.listener is not None:
            hub().drop(self.listener, *self.topics)
        for task in (self.guard, self.pump):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


class EpisodeConsumer(LiveConsumer):
    """`/ws/episodes/{id}?since=N`."""

    sees_all = False

    def admit(self, known: Actor | None) -> list[str]:
        pk = self.scope["url_route"]["kwargs"]["pk"]
        if known is None:
            named = Episode.objects.filter(pk=pk).values_list("project_id", flat=True)
            project_id = named.first() if is_id(pk) else None
            if project_id is None:
                raise NotFound
            known = actor_for(self.scope, project_id)
        trajectory.visible_episode(known, pk)
        self.sees_all = sees_outcomes(known)
        return [events.episode_topic(pk), events.people_topic(pk)] if self.sees_all else [events.episode_topic(pk)]

    async def first_frames(self) -> AsyncIterator[str]:
        """Everything after `since`, in pages, as one frame each."""
        pk, since = self.scope["url_route"]["kwargs"]["pk"], self._since()
        while True:
            told = await in_database(trajectory.told_after, pk, since, FIRST_PAGE, verification=self.sees_all)
            yield events.steps_frame(pk, [text for _, text in told])
            if len(told) < FIRST_PAGE:
                return
            since = told[-1][0]

    def _since(self) -> int:
        raw = parse_qs(self.scope.get("query_string", b"").decode()).get("since", ["0"])[0]
        return int(raw) if raw.isdecimal() and len(raw) < 10 else 0
