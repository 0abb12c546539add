"""Django's backend for PostgreSQL with two changes: parameters of a statement go to the server apart, unless there are
more than it takes, and a pooled connection is checked without a statement.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any, ClassVar

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import ClientCursor, Connection, Cursor
from psycopg_pool import ConnectionPool

PARAMETERS_MAX = 60_000
"""PostgreSQL takes 65,535."""


class BindingCursor(base.CursorMixin, Cursor[Any]):
    """Writes very many parameters into the text, as for the IDs of a large run."""

    def execute(self, query: Any, params: Any = None, **how: Any) -> Any:
        if params is not None and len(params) > PARAMETERS_MAX:
            query, params = ClientCursor(self.connection).mogrify(query, params), None
        return super().execute(query, params, **how)


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's access to the database, by a connection from the pool of this process."""

    _connection_pools: ClassVar[dict[str, ConnectionPool[Any]]]
    _configure_connection: Callable[[Connection[Any]], None]

    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": BindingCursor}

    @property
    def pool(self) -> ConnectionPool[Any] | None:
        # Django gives its pool a check that asks the server, and offers no way to choose another one
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not options:
            return None
        if self.alias not in self._connection_pools:
            made = ConnectionPool(
                kwargs=self.get_connection_params() | {"autocommit": True},
                open=False,
                configure=self._configure_connection,
                check=check_line,
                **options,
            )
            # of two threads that make one, the first counts
            self._connection_pools.setdefault(self.alias, made)
        return self._connection_pools[self.alias]


def check_line(connection: Connection[Any]) -> None:
    """Raise an error if the server has closed a waiting connection, as a restart does.

    A server says nothing on a waiting connection but that it ends. To ask it would cost each request a round trip.
    """
    line = select.poll()
    line.register(connection.fileno(), select.POLLIN)
    if line.poll(0):
        ConnectionPool.check_connection(connection)
