"""The queue's socket, and the long poll of an ask, which holds no thread and no database connection.

Owns what ends a wait: a hint from the hub, the deadline or the end of the poll. The waiting request closes an expired
ask itself, through `closing.close_if_due`, so no other process is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from channels.generic.http import AsyncHttpConsumer
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone

from awmclient.schema import AskView
from episodes import events
from episodes.live.consumers import LiveConsumer, actor_for, in_database
from episodes.live.hub import Listener, hub
from experts.api import get_ask, looked_at
from experts.events import ask_topic
from experts.find.reading import more_to_take, open_asks
from experts.models import Ask
from experts.who.eligibility import open_of, out_for
from notices.events import person_topic
from people.access import Actor, is_id, may_see_queue
from people.errors import AppError, NotFound
from people.http import refuse, respond
from people.known_tokens import TOKENS
from people.requests.bodies import bearer_secret

LOOK_AGAIN_S = 20.0
"""A wait reads its ask at least this often, with the right to it: who has left is refused within a minute."""


class QueueConsumer(LiveConsumer):
    """The socket `/ws/queue`: changes of asks and of live episodes of the project."""

    def admit(self) -> list[str]:
        self.actor = actor_for(self.scope)
        may_see_queue(self.actor)
        project = self.actor.project.pk
        mine = [person_topic(project, self.actor.key)] if self.actor.person is not None else []
        return [events.queue_topic(project), *mine]

    async def first_frames(self) -> AsyncIterator[str]:
        yield json.dumps(
            # without the context, which can be long and which no row shows
            {"type": "queue", **await in_database(_open_now, self.actor), "now": events.stamp(timezone.now())}
        )


def _open_now(actor: Actor) -> dict[str, Any]:
    asks, now = open_asks(actor), timezone.now()
    return {
        "asks": [ask.model_dump(mode="json", exclude={"context"}) for ask in asks],
        "more": more_to_take(actor, asks),
        # what the badge leaves out, beside what needs a skill that its reader has not
        "declined": out_for(actor, open_of(actor, now)),
    }


class AskWait(AsyncHttpConsumer):
    """Serves `api.get_ask`, for bearers and for sessions of people."""

    async def handle(self, body: bytes) -> None:
        try:
            await respond(self.send, 200, await self._wait())
        except (AppError, DatabaseError) as error:
            await refuse(self.send, error)

    async def _wait(self) -> AskView:
        seconds = get_ask.read_query(self.scope["query_string"]).wait
        pk = self.scope["url_route"]["kwargs"]["ask_id"]
        return await until_closed(pk, partial(self._read, pk), seconds)

    async def _read(self, pk: str) -> AskView:
        secret = bearer_secret(self.scope)
        actor = await TOKENS.actor(secret) if secret is not None else None
        return await in_database(_read_once, self.scope, pk, actor)


class Dated(Protocol):
    @property
    def deadline_at(self) -> datetime: ...


Seen = TypeVar("Seen", bound=Dated)


async def until_closed(pk: str, read: Callable[[], Awaitable[AskView]], seconds: float) -> AskView:
    """Return the ask once it is closed, or its current state when the time is up."""
    return await until_news(pk, read, lambda view: view.status == "open", seconds)


async def until_news(
    pk: str, read: Callable[[], Awaitable[Seen]], waits: Callable[[Seen], bool], seconds: float
) -> Seen:
    """Return what is read of an ask once that is nothing to wait for, or its current state when the time is up.

    Keeps neither a thread nor a connection between two reads. A hint, the deadline or the next heartbeat wakes it; each
    read closes an expired ask.
    """
    end = asyncio.get_running_loop().time() + seconds
    # listen before the first read: a change in between would otherwise be missed
    async with hub().listening(ask_topic(pk)) as listener:
        view = await read()
        while waits(view) and (left := end - asyncio.get_running_loop().time()) > 0:
            # a wait counts as a heartbeat, so one longer than the heartbeat interval must be recorded in between
            soon = min(left, settings.AWMWEB_HEARTBEAT_S / 3, LOOK_AGAIN_S)
            await _news(listener, min(soon, _until(view.deadline_at)))
            view = await read()
    return view


def _read_once(scope: dict[str, Any], pk: str, token_actor: Actor | None) -> AskView:
    """Read the ask and release the database connection before the wait continues.

    For an open ask this is one read and a heartbeat, since hundreds of loops can wait concurrently.
    """
    return looked_at(token_actor or _member_of(scope, pk), pk)


def _member_of(scope: dict[str, Any], pk: str) -> Actor:
    """Return the person as a member of the ask's project."""
    project = Ask.objects.filter(pk=pk).values_list("project_id", flat=True).first() if is_id(pk) else None
    # who it is comes first: a stranger cannot learn from the code whether an ask exists
    if project is None:
        actor_for(scope)
        raise NotFound
    return actor_for(scope, project)


def _until(deadline_at: datetime) -> float:
    # a moment after the deadline, so that the next read finds the ask due
    return max(0.01, (deadline_at - timezone.now()).total_seconds() + 0.005)


async def _news(listener: Listener, seconds: float) -> None:
    """Wait for a hint, at most this long."""
    try:
        await asyncio.wait_for(listener.get(), seconds)
    except TimeoutError:
        return
