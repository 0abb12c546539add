"""One socket per watched episode. It never takes a write; after a `gap` the page catches up over HTTP.

Owns permission at connect and the order "listen, then read what is stored, then pass on what comes", by which a watcher
misses nothing. Agents hear the agent's topic only.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.db import close_old_connections

from episodes import events
from episodes.live.hub import GAP_FRAME, Hub, SocketListener, hub
from episodes.live.live_html import Showings, pictures_frame, showings
from episodes.live.wire import Payload, SocketWriter
from episodes.models import Episode
from episodes.show import windows
from episodes.visible import trajectory
from episodes.visible.lens import Lens, hears_all, lens_of, through
from people import measures
from people.access import (
    SESSION_PROJECT,
    Actor,
    bearer,
    current_memberships,
    is_id,
    may_read,
    person,
    sees_outcomes,
)
from people.errors import AWAY, AppError, Away, Busy, NotFound, Unauthenticated
from people.record.members import token_of
from people.requests.bodies import bearer_secret
from people.requests.forms import number_in
from people.requests.turns import REPLAYS
from people.revalidation import Right, ended, right_of

log = logging.getLogger(__name__)
# codes from 4000 on are free for applications (RFC 6455)
REFUSED = {401: 4401, 403: 4403, 404: 4404}
TRY_AGAIN, BROKEN = 1013, 1011
FIRST_PAGE = 200
SEEN_BYTES = 64 * 1024
"""A larger frame is not read for a lens, which would keep the event loop; its steps are fetched, as after any gap."""
SOCKET_WAIT_S = 10.0
"""How long a socket waits for stored steps while others of its sender read, before it has to try again."""
RIGHT_S = 2.0
"""How often the rights of open sockets are looked at again: who was removed hears nothing after this."""
BEAT = Payload('{"type":"beat"}')
CLOSING_S = 10.0
LOOKED_AT = ("project", "origin", "scenario", "task_idx", "task")
"""What a lens hangs on."""
WIRE = "awmweb.send"
"""Where `awmweb/asgi.py` leaves the server's own `send`, which middleware may wrap."""
PROJECT = "awmweb.project"
"""Where `awmweb/asgi.py` leaves the slug of an address in a project."""
P = ParamSpec("P")
R = TypeVar("R")


def actor_for(scope: dict[str, Any], project_id: str | None = None) -> Actor:
    """Return who connects: a bearer, or a person by session cookie, as a member of the given project, else of the last
    used one. An address in a project admits to that one only.
    """
    slug = scope.get(PROJECT, "")
    secret = bearer_secret(scope)
    # a token decides even if a session cookie comes along: with a wrong one the session does not count
    if secret is not None:
        token = token_of(secret)
        if token is None:
            raise Unauthenticated
        if slug and slug != token.project.slug:
            raise NotFound
        return bearer(token)
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        raise Unauthenticated
    mine = current_memberships(user, scope["session"])
    if slug or project_id:
        named = {**({"project__slug": slug} if slug else {}), **({"project_id": project_id} if project_id else {})}
        membership = mine.filter(**named).first()
    else:
        membership = mine.filter(project__slug=scope["session"].get(SESSION_PROJECT)).first() or mine.first()
    if membership is None:
        raise NotFound
    return person(membership)


async def in_database(visit: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Visit the database briefly in any thread; the connection goes back immediately."""
    # not thread-sensitive: that is one thread for the process, in which all sockets would queue
    return await sync_to_async(_visit, thread_sensitive=False)(functools.partial(visit, *args, **kwargs))


def _visit(visit: Callable[[], R]) -> R:
    # before the visit, too: this thread's connection can have broken since its last one
    close_old_connections()
    try:
        return visit()
    finally:
        close_old_connections()


class LensListener(SocketListener):
    """The listener of a socket that gets only what its lens shows; sockets of equal lenses share their frames."""

    def __init__(self, lens: Lens, line: SocketWriter, on_stall: Callable[[], None]) -> None:
        super().__init__(line, on_stall)
        self._lens = lens

    def put(self, payload: Payload) -> None:
        super().put(payload.seen(self._lens, self._through))

    def _through(self, text: str) -> str:
        if len(text) > SEEN_BYTES:
            return GAP_FRAME
        frame = json.loads(text)
        if frame["type"] != "steps":
            return text
        sent = [json.dumps(step, separators=(",", ":")) for step in frame["steps"]]
        seen = [through(self._lens, step) for step in sent]
        # equal means that nothing is hidden: then `Payload.seen` shares the bytes of the full frame
        return text if seen == sent else events.steps_frame(frame["episode"], seen)


class LiveConsumer(AsyncWebsocketConsumer):
    """Shared course of a live socket: admit, listen, first frames, then every hint."""

    actor: Actor
    topics: tuple[str, ...] = ()
    listens: Callable[[SocketWriter, Callable[[], None]], SocketListener] = SocketListener
    listener: SocketListener | None = None
    pump: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Run one task for each socket, without those that Channels starts to hear a channel layer as well, and without
        its visit to the database thread around every message: ours close their own connections.
        """
        self.scope, self.base_send = scope, send
        self.line = SocketWriter(scope[WIRE])
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                if message["type"] == "websocket.connect":
                    await self.connect()
        finally:
            self.leave()

    async def connect(self) -> None:
        try:
            self.topics = tuple(await in_database(self.admit))
        except AppError as refused:
            # accepted first: of a refused handshake a browser sees neither code nor reason
            await self.accept()
            return await self.shut(refused)
        await self.accept()
        self.listener = self.listens(self.line, self._drain_soon)
        guard().watch(self)
        self.pump = asyncio.create_task(self._talk(self._begin))

    def right(self) -> Right:
        """Return what the permission hangs on."""
        session = self.scope.get("session")
        return right_of(self.actor, session.session_key if session is not None else "")

    def admit(self) -> list[str]:
        """Check the right, note the actor and name the topics, with the database at hand. Raises `AppError`."""
        raise Unauthenticated

    def source(self) -> Hub | Showings:
        """Return where the listener hears from."""
        return hub()

    async def first_frames(self) -> AsyncIterator[str]:
        """Yield what a new listener hears first, each piece read when the one before has left."""
        return
        # never reached; it makes this an asynchronous generator
        yield ""

    async def _begin(self, listener: SocketListener) -> None:
        """Listen, then read what is stored, then pass on what comes: so nothing is missed."""
        await self.source().add(listener, *self.topics)
        async for text in self.first_frames():
            await self.line.send(Payload(text))
        await self._drain(listener)

    async def _drain(self, listener: SocketListener) -> None:
        while (payload := listener.take()) is not None:
            await self.line.send(payload)
        listener.flowing()
        self.pump = None

    def _drain_soon(self) -> None:
        self.pump = asyncio.create_task(self._talk(self._drain))

    async def _talk(self, words: Callable[[SocketListener], Awaitable[None]]) -> None:
        """Send frames, and never fall silent on an open socket: what cannot be said closes it, and the page connects
        again.
        """
        assert self.listener is not None
        try:
            await words(self.listener)
        except OSError:
            return  # the socket has closed
        except Exception as error:
            if not isinstance(error, (*AWAY, AppError)):
                log.exception("a live socket failed")
            await self.shut(error)

    async def shut(self, reason: Exception) -> None:
        """Close and say why. A refusal is final to a page; after anything else it tries again."""
        # the pump can be the caller, and must not cancel itself before the close has left
        self.leave(pumping=True)
        code, word = _closing(reason)
        with contextlib.suppress(OSError):
            await self.close(code=code, reason=word)

    async def cut_off(self, refusal: AppError) -> None:
        """Close, whether the other side reads or not."""
        try:
            # the close frame waits behind what a stalled reader does not take
            await asyncio.wait_for(self.shut(refusal), CLOSING_S)
        except TimeoutError:
            self.line.abort()

    def asked(self, name: str) -> str:
        """Return a value of the query string."""
        query: str = self.scope.get("query_string", b"").decode("latin-1")
        return parse_qs(query).get(name, [""])[0]

    def leave(self, pumping: bool = False) -> None:
        """Hear nothing any more."""
        guard().forget(self)
        if self.listener is not None:
            self.source().drop(self.listener, *self.topics)
        if self.pump is not None and not pumping:
            self.pump.cancel()


def _closing(reason: Exception) -> tuple[int, str]:
    if isinstance(reason, Busy):
        return TRY_AGAIN, Busy.code
    if isinstance(reason, AppError):
        return REFUSED.get(reason.status, 4400), reason.code
    if isinstance(reason, AWAY):
        return TRY_AGAIN, Away.code
    return BROKEN, "internal"


class Guard:
    """Looks at the rights of all open sockets of an event loop over and over; who may not listen any more hears nothing
    after that. One look for all, since thousands of sockets would ask the database thousands of times. Keeps their
    beat, too."""

    def __init__(self) -> None:
        self._rights: dict[LiveConsumer, Right] = {}
        self._tasks: dict[Callable[[], Any], asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def watch(self, consumer: LiveConsumer) -> None:
        self._rights[consumer] = consumer.right()
        for loop in (self._run, self._beat):
            if loop not in self._tasks or self._tasks[loop].done():
                self._tasks[loop] = asyncio.create_task(loop())

    def forget(self, consumer: LiveConsumer) -> None:
        self._rights.pop(consumer, None)

    def watched(self) -> int:
        return len(self._rights)

    async def _beat(self) -> None:
        """Tell the sockets that asked for it that they are alive, also while the database is unavailable."""
        while self._rights:
            await asyncio.sleep(events.BEAT_S)
            for consumer in list(self._rights):
                if consumer.listener is not None and consumer.asked("beat") == "1":
                    consumer.listener.put(BEAT)

    async def _run(self) -> None:
        """Look until no one is left to look at."""
        while self._rights:
            await asyncio.sleep(RIGHT_S)
            try:
                # a set: the sockets of one token or session share one look
                lost = await in_database(ended, set(self._rights.values()))
            except DatabaseError:
                continue  # a missing database ends no right
            # a copy, because closing a socket removes it
            for consumer, right in list(self._rights.items()):
                if right in lost:
                    self._close(consumer, lost[right])

    def _close(self, consumer: LiveConsumer, refusal: AppError) -> None:
        """Close on its own: a socket that takes nothing must not hold up the others."""
        consumer.leave()
        # the event loop keeps only weak references to tasks: an unreferenced one can vanish unfinished
        task = asyncio.create_task(consumer.cut_off(refusal))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


_guards: WeakKeyDictionary[asyncio.AbstractEventLoop, Guard] = WeakKeyDictionary()


def guard() -> Guard:
    """Return the guard of the running event loop; a web process has one."""
    return _guards.setdefault(asyncio.get_running_loop(), Guard())


measures.watch("awmweb_sockets_open", lambda: sum(one.watched() for one in list(_guards.values())))


class EpisodeConsumer(LiveConsumer):
    """`/ws/episodes/{id}?since=N`; our own live page asks for `pictures=1`, which no agent gets."""

    lens: Lens

    def admit(self) -> list[str]:
        pk = self.scope["url_route"]["kwargs"]["pk"]
        episode = Episode.every.only(*LOOKED_AT).filter(pk=pk).first() if is_id(pk) else None
        # who it is comes first: a stranger cannot learn from the code whether an episode exists
        self.actor = actor_for(self.scope, episode.project_id if episode is not None else None)
        may_read(self.actor)
        if episode is None or episode.project_id != self.actor.project.pk:
            raise NotFound
        self.lens = lens_of(self.actor, episode)
        if not hears_all(self.lens) and not self._in_pictures():
            self.listens = functools.partial(LensListener, self.lens)
        topics = [events.episode_topic(pk), events.people_topic(pk)]
        return topics if Lens.OUTCOME in self.lens else topics[:1]

    def source(self) -> Hub | Showings:
        return showings(self.lens) if self._in_pictures() else hub()

    async def first_frames(self) -> AsyncIterator[str]:
        """Yield everything after `since`, page by page; to a page in pictures only up to where it goes."""
        pk, since = self.scope["url_route"]["kwargs"]["pk"], self._since()
        if self._in_pictures():
            yield pictures_frame(pk, await in_database(windows.last_of, self.lens, pk))
            return
        while True:
            # after a restart all sockets of a sender connect together: their replays take turns
            async with REPLAYS.turn(self.actor.key, SOCKET_WAIT_S):
                stored, more = await in_database(trajectory.sent_after, self.lens, pk, since, FIRST_PAGE)
            for part in list(events.parted([text for _, text in stored])) or [[]]:
                yield events.steps_frame(pk, part)
            if not more:
                return
            since = stored[-1][0]

    def _since(self) -> int:
        return number_in(self.asked("since")) or 0

    def _in_pictures(self) -> bool:
        return sees_outcomes(self.actor) and self.asked("pictures") == "1"
