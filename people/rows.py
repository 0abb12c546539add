"""Reads: a model's row from a raw SQL statement.

For the few statements that run for each episode. The ORM takes longer to build them than the database to answer, and
longer still to sort out the columns of `Model.objects.raw`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model

M = TypeVar("M", bound=Model)


class ModelRows(Generic[M]):
    """Rows of a model without some fields, which are loaded on access."""

    def __init__(self, model: type[M], *, without: Collection[str] = (), only: Collection[str] = ()) -> None:
        every = model._meta.concrete_fields
        fields = [field for field in every if field.name not in without and (not only or field.name in only)]
        self._model, self._names = model, [field.attname for field in fields]
        readers = [getattr(field, "from_db_value", None) for field in fields]
        self._read = [(place, read) for place, read in enumerate(readers) if read is not None]
        self._columns = [str(field.column) for field in fields]
        self.width = len(fields)

    def columns(self, table: str = "") -> str:
        """Return the columns that a statement must select first, in the order that `made` expects."""
        return ", ".join(f"{table}.{name}" if table else name for name in self._columns)

    def first(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> M | None:
        """Return the first row of a statement, or None."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            row = cursor.fetchone()
        return None if row is None else self.made(row)

    def made(self, row: Sequence[Any]) -> M:
        """Return the object of a row, which can have further columns."""
        found = list(row[: self.width])
        for place, read in self._read:
            # As the ORM does after a query: a field such as `JsonText` is plain text until here.
            found[place] = read(found[place], None, connection)
        return self._model.from_db(connection.alias, self._names, found)
