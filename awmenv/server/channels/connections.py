"""All connections and their episodes: a socket's own, or one made over HTTP that sockets attach to.

Owns IDs, capacity, and the end of unused ones. `control` and `agent` act for a connection. An ID is 192 random bits and
finds only what was made over HTTP: a socket's own episode is private to it, and ends with it.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from dataclasses import dataclass, field

from awmenv.errors import AwmenvError
from awmenv.server.session.environment import WorldEnvironment
from awmenv.server.session.shared import World

log = logging.getLogger("awmenv.connections")


class Full(AwmenvError):
    """Every session slot of the server is taken."""

    code = "capacity_reached"


class NotThere(AwmenvError):
    """An ID that finds nothing, or something that cannot be used now."""

    code = "session_error"


RELEASED_S = 2.0
"""How long a socket waits for the one before it to be released."""


@dataclass(eq=False)
class Connection:
    """One environment and its users: `holder` is the socket attached now, `keyed` the one that has shown the key."""

    environment: WorldEnvironment
    made_over_http: bool
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    holder: object | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    keyed: object | None = None
    closing: bool = False
    used_at: float = field(default_factory=time.monotonic)

    @property
    def attached(self) -> bool:
        return self.holder is not None or not self.made_over_http


class Connections:
    """All connections, on the server's loop."""

    def __init__(self, world: World, most: int, detached_s: float) -> None:
        self.world = world
        self.most = most
        self._detached_s = detached_s
        self._open: set[Connection] = set()
        self._by_id: dict[str, Connection] = {}

    @property
    def count(self) -> int:
        return len(self._open)

    def open(self, *, over_http: bool = False) -> Connection:
        """Create an environment for a socket, or for a client that gets its ID. Raises `Full`."""
        if len(self._open) >= self.most:
            raise Full(f"Server at capacity: {len(self._open)}/{self.most} sessions active")
        connection = Connection(WorldEnvironment(self.world), over_http)
        self._open.add(connection)
        if over_http:
            self._by_id[connection.id] = connection
        return connection

    def stored(self, session_id: str) -> Connection:
        """Return a connection that was made over HTTP, for an agent's request. Raises `NotThere`."""
        connection = self._by_id.get(session_id)
        if connection is None:
            raise NotThere(f"Unknown session_id: {session_id[:100]}")
        connection.used_at = time.monotonic()
        return connection

    async def attach(self, session_id: str, holder: object) -> Connection:
        """Attach a control socket to a connection made over HTTP, one after the other. Raises `NotThere`.

        The socket before it may have closed a moment ago, and the server not yet be done with it: a loop whose line
        dropped can come back immediately.
        """
        connection = self.stored(session_id)
        if connection.holder is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.released.wait(), RELEASED_S)
            # Asked again, because the connection can have ended during the wait.
            connection = self.stored(session_id)
        if connection.holder is not None:
            raise NotThere("This session has an attached WebSocket already")
        # The new socket has to show the key itself.
        connection.holder, connection.keyed = holder, None
        connection.released.clear()
        return connection

    def leave(self, connection: Connection, holder: object) -> None:
        """Release a socket: its own episode ends; one created over HTTP waits for the next socket."""
        if not connection.made_over_http:
            self._end(connection)
            return
        if connection.holder is holder:
            connection.holder = None
            connection.released.set()
        connection.used_at = time.monotonic()
        if connection.closing and connection.holder is None:
            self._end(connection)

    def lose(self, connection: Connection, holder: object) -> None:
        """End the episode of a socket that closed during a response, and the process that works on it.

        One made over HTTP finishes its call, and another socket can continue with it from now on.
        """
        if connection.made_over_http:
            self.leave(connection, holder)
        else:
            self._end(connection)

    def close(self, connection: Connection) -> bool:
        """Close one that was made over HTTP; False if it ends once its socket has left."""
        connection.closing = True
        if not connection.attached:
            self._end(connection)
        return not connection.attached

    def _end(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._by_id.pop(connection.id, None)
        connection.environment.close()

    async def watch(self) -> None:
        """Close unused connections that were made over HTTP and have no socket, until cancelled."""
        while True:
            await asyncio.sleep(min(5.0, self._detached_s / 4))
            before = time.monotonic() - self._detached_s
            # A copy, because `_end` removes entries.
            for connection in list(self._by_id.values()):
                if not connection.attached and connection.used_at < before:
                    log.info("a session made over HTTP ends: unused for %g s", self._detached_s)
                    self._end(connection)
