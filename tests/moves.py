"""Records every change of a state column, with the functions that were at work, and compares it with the tables.

A trigger of the test database raises a notice for each change, also one of a statement in SQL. The driver hands it over
while the function that caused it is on the stack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created
from psycopg.errors import Diagnostic

from experts.models import Ask
from tools.states import MACHINES

TABLES = {model._meta.db_table: moves for model, moves in MACHINES.items()}
MARK = "moved"


def column(model: Any) -> str:
    return "status" if model is Ask else "state"


@dataclass
class Seen:
    """What was observed: changes that a row of a table allows, by that row's function, and those that none does."""

    allowed: set[tuple[str, str, str, str]] = field(default_factory=set)
    others: list[str] = field(default_factory=list)

    def note(self, table: str, before: str, after: str, at_work: set[str]) -> None:
        by = [one.by for one in TABLES[table] if (before, after) in one.pairs() and one.by in at_work]
        self.allowed |= {(table, before, after, name) for name in by}
        if not by:
            self.others.append(f"{table}: {before or '(new)'} to {after}, by {sorted(at_work)}")


@contextmanager
def recorded() -> Iterator[Seen]:
    """Observe the tables of `MACHINES`. Caller has the database; threads of others are not observed."""
    seen = Seen()

    def hear(notice: Diagnostic) -> None:
        mark, _, said = (notice.message_primary or "").partition(" ")
        if mark == MARK:
            table, before, after = said.split("/")
            seen.note(table, before, after, _at_work())

    with connection.cursor() as cursor:
        for model in MACHINES:
            cursor.execute(_trigger(model))
    heard = []

    def listen(**_: Any) -> None:
        heard.append(connection.connection)
        connection.connection.add_notice_handler(hear)

    # what is observed may close the connection; the next one is observed, too
    connection_created.connect(listen)
    listen()
    try:
        yield seen
    finally:
        connection_created.disconnect(listen)
        for one in heard:
            one.remove_notice_handler(hear)
        with connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"DROP TRIGGER {MARK} ON {table}")


def _trigger(model: Any) -> str:
    table, name = model._meta.db_table, column(model)
    return f"""
    CREATE OR REPLACE FUNCTION {MARK}_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE before text := '';
    BEGIN
      IF TG_OP = 'UPDATE' THEN before := OLD.{name}; END IF;
      IF before <> NEW.{name} THEN RAISE NOTICE '{MARK} {table}/%/%', before, NEW.{name}; END IF;
      RETURN NULL;
    END $$;
    CREATE OR REPLACE TRIGGER {MARK} AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {MARK}_{table}();
    """


def _at_work() -> set[str]:
    """Return the dotted names of the product's functions on the stack."""
    found, frame = set(), sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in ("episodes", "experts", "runs", "exports", "imports", "people"):
            found.add(f"{module}.{frame.f_code.co_name}")
        frame = frame.f_back
    return found
