"""One socket per watched episode. It never takes a write; after a `gap` the page catches up over HTTP.

Owns permission at connect and the order "listen, then read what is stored, then pass on what comes", by which a watcher
misses nothing. Agents hear the agent's topic only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from episodes import events, trajectory
from episodes.hub import Listener, hub
from episodes.models import Episode
from people.access import Actor, bearer, current_memberships, person, sees_outcomes
from people.errors import AppError, NotFound, Unauthenticated
from people.members import token_of

REFUSED = {401: 4401, 403: 4403, 404: 4404}
FIRST_PAGE = 200


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


class LiveConsumer(AsyncWebsocketConsumer):
    """Shared course of a live socket: admit, listen, first frames, then every hint."""

    pump: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        try:
            topics = await database_sync_to_async(self.admit)()
        except AppError as refused:
            await self.accept()
            await self.close(code=REFUSED.get(refused.status, 4400), reason=refused.code)
            return
        await self.accept()
        self.pump = asyncio.create_task(self._pump(topics))

    def admit(self) -> list[str]:
        """Check the right and name the topics. Raises `AppError`."""
        raise Unauthenticated

    async def first_frames(self) -> AsyncIterator[str]:
        """What a new listener hears first, each piece read when the one before has left."""
        return
        yield ""

    async def _pump(self, topics: list[str]) -> None:
        async with hub().listening(*topics) as listener:
            async for payload in self.first_frames():
                await self.send(text_data=payload)
            await self._pass_on(listener)

    async def _pass_on(self, listener: Listener) -> None:
        while True:
            await self.send(text_data=await listener.get())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A socket never takes a write; whatever comes is left unread."""

    async def disconnect(self, code: int) -> None:
        if self.pump is not None:
            self.pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.pump


class EpisodeConsumer(LiveConsumer):
    """`/ws/episodes/{id}?since=N`."""

    episode: Episode
    actor: Actor

    def admit(self) -> list[str]:
        pk = self.scope["url_route"]["kwargs"]["pk"]
        project_id = Episode.objects.filter(pk=pk).values_list("project_id", flat=True).first()
        if project_id is None:
            raise NotFound
        self.actor = actor_for(self.scope, project_id)
        self.episode = trajectory.visible_episode(self.actor, pk)
        topics = [events.episode_topic(pk)]
        return [*topics, events.people_topic(pk)] if sees_outcomes(self.actor) else topics

    async def first_frames(self) -> AsyncIterator[str]:
        """Everything after `since`, in pages, as one frame each."""
        since = self._since()
        while True:
            told = await database_sync_to_async(trajectory.told_after)(
                self.episode, since, FIRST_PAGE, verification=sees_outcomes(self.actor)
            )
            yield events.steps_frame(self.episode.pk, [text for _, text in told])
            if len(told) < FIRST_PAGE:
                return
            since = told[-1][0]

    def _since(self) -> int:
        raw = parse_qs(self.scope.get("query_string", b"").decode()).get("since", ["0"])[0]
        return int(raw) if raw.isdecimal() and len(raw) < 10 else 0
