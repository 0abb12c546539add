"""The cursor of Django's statements: parameters go to the server apart, unless there are more than it takes.

Called by `people.apps`, which puts it into the settings of the database.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql.base import CursorMixin
from psycopg import ClientCursor, Cursor

PARAMETERS_MAX = 60_000
"""PostgreSQL takes 65,535."""


class BindingCursor(CursorMixin, Cursor[Any]):
    """Writes very many parameters into the text, as for the IDs of a large run."""

    def execute(self, query: Any, params: Any = None, **how: Any) -> Any:
        if params is not None and len(params) > PARAMETERS_MAX:
            query, params = ClientCursor(self.connection).mogrify(query, params), None
        return super().execute(query, params, **how)
