"""Reads: a row of a model from a statement in words.

For the few statements that are made of each played episode. The ORM takes longer to write them than the database to
answer them, and longer still to sort out the columns of what `Model.objects.raw` returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model

M = TypeVar("M", bound=Model)


class Row(Generic[M]):
    """Rows of a model without the fields that are left out, which are read when they are asked for."""

    def __init__(self, model: type[M], *, without: Collection[str] = (), only: Collection[str] = ()) -> None:
        every = model._meta.concrete_fields
        fields = [field for field in every if field.name not in without and (not only or field.name in only)]
        self._model, self._names = model, [field.attname for field in fields]
        readers = [getattr(field, "from_db_value", None) for field in fields]
        self._read = [(place, read) for place, read in enumerate(readers) if read is not None]
        self._columns = [str(field.column) for field in fields]
        self.width = len(fields)

    def columns(self, table: str = "") -> str:
        """Return what a statement has to select first, in the order that `made` expects."""
        return ", ".join(f"{table}.{name}" if table else name for name in self._columns)

    def one(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> M | None:
        """Return the first row that a statement answers with, or None."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            row = cursor.fetchone()
        return None if row is None else self.made(row)

    def made(self, row: Sequence[Any]) -> M:
        """Return the object of a row, which may have more columns than these."""
        found = list(row[: self.width])
        for place, read in self._read:
            found[place] = read(found[place], None, connection)
        return self._model.from_db(connection.alias, self._names, found)
