"""A model's row from and for a raw SQL statement.

For the few statements that run for each episode or ask. The ORM takes longer to build them than the database to
answer, and longer still to sort out the columns of `Model.objects.raw`.
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
        self._model, self._fields, self._names = model, fields, [field.attname for field in fields]
        readers = [getattr(field, "from_db_value", None) for field in fields]
        self._read = [(place, read) for place, read in enumerate(readers) if read is not None]
        self._columns = [f'"{field.column}"' for field in fields]
        self.width = len(fields)

    def columns(self, table: str = "") -> str:
        """Return the columns that a statement must select first, in the order that `made` expects."""
        return ", ".join(f"{table}.{name}" if table else name for name in self._columns)

    def stored(self, rows: Sequence[M]) -> tuple[str, list[Any]]:
        """Return the statement that inserts new rows, and its values. It is one part of a larger statement.

        Rows count as stored from now on: a transaction that fails drops them with all else.
        """
        values = []
        for row in rows:
            values += [field.get_db_prep_save(field.pre_save(row, True), connection) for field in self._fields]
            row._state.adding, row._state.db = False, connection.alias
        places = f"({', '.join(['%s'] * self.width)})"
        every = ", ".join([places] * len(rows))
        return f'INSERT INTO "{self._model._meta.db_table}" ({self.columns()}) VALUES {every}', values

    def first(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> M | None:
        """Return the first row of a statement, or None."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            row = cursor.fetchone()
        return None if row is None else self.made(row)

    def made(self, row: Sequence[Any]) -> M:
        """Return the object of a row, which can have further columns."""
        values = list(row[: self.width])
        for place, read in self._read:
            # As the ORM does after a query: a field such as `JsonText` is plain text until here.
            values[place] = read(values[place], None, connection)
        return self._model.from_db(connection.alias, self._names, values)
