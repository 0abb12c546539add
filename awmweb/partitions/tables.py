"""Reads and statements: the table of steps in both forms, and how one takes the place of the other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction

from awmweb.partitions.months import AHEAD, Month, between, month_of

STEPS, NEXT, BEFORE, REST = "episodes_step", "episodes_step_next", "episodes_step_before", "episodes_step_rest"
COLUMNS = "id, episode_id, seq, kind, body, cut, at"
LOCK_MS, TRIES = 800, 100
"""How long a change of a table waits for its lock, with everyone else behind it, and how often it tries."""
OLDEST = 240
"""The most months back that get a partition of their own; older episodes share the first one."""
MIRROR = f"""
CREATE OR REPLACE FUNCTION episodes_step_mirror() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM {NEXT} WHERE episode_id = OLD.episode_id AND seq = OLD.seq;
  ELSE
    -- also an UPDATE inserts: its row may not have been copied yet
    INSERT INTO {NEXT} ({COLUMNS}) VALUES (NEW.id, NEW.episode_id, NEW.seq, NEW.kind, NEW.body, NEW.cut, NEW.at)
    ON CONFLICT (episode_id, seq) DO UPDATE SET body = excluded.body, cut = excluded.cut;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER episodes_step_mirror AFTER INSERT OR UPDATE OR DELETE ON {STEPS}
FOR EACH ROW EXECUTE FUNCTION episodes_step_mirror();
"""
UNMIRROR = f"DROP TRIGGER episodes_step_mirror ON {STEPS}; DROP FUNCTION episodes_step_mirror();"
WORDS_KEY = "episodes_stepwords_step_id_fk_steps"
"""The foreign key of words after an undo. A partitioned table has no unique ID by itself that one could name."""
KEYS_OF_WORDS = f"""
SELECT conname FROM pg_constraint
 WHERE conrelid = 'episodes_stepwords'::regclass AND contype = 'f' AND confrelid = '{STEPS}'::regclass
"""


def rows(query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, list(values) or None)
        return list(cursor.fetchall())


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def in_short(change: Callable[[], None]) -> float:
    """Make a change of tables in one transaction that waits a short time for its locks, again and again; return how
    long the successful one took, locks included. Requests queue behind a lock that is waited for."""
    for turn in range(TRIES):
        began = time.monotonic()
        try:
            with transaction.atomic():
                run(f"SET LOCAL lock_timeout = {LOCK_MS}", "SET LOCAL statement_timeout = 0")
                change()
            return time.monotonic() - began
        except OperationalError as error:
            if turn == TRIES - 1 or "lock timeout" not in str(error):
                raise
            time.sleep(random.uniform(0.05, 0.4))
    raise AssertionError("unreachable")


def exists(table: str) -> bool:
    return bool(rows("SELECT to_regclass(%s)", [table])[0][0])


def is_partitioned(table: str = STEPS) -> bool:
    return bool(rows("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [table])[0][0])


def columns_of(table: str) -> list[str]:
    column_rows = rows(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = %s",
        [table],
    )
    return sorted(name for (name,) in column_rows)


def partitions() -> list[tuple[str, str, int, int]]:
    """Return name, bounds, estimated rows and bytes of each partition, by name."""
    return [
        (str(name), str(bounds), max(int(count), 0), int(size))
        for name, bounds, count, size in rows(
            f"""SELECT relname, pg_get_expr(relpartbound, pg_class.oid), reltuples, pg_total_relation_size(pg_class.oid)
                  FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
                 WHERE inhparent = '{STEPS}'::regclass ORDER BY relname"""
        )
    ]


def oldest(month: Month) -> Month:
    """Return the month of the first episode that has steps, or this one."""
    (first,) = rows(f"SELECT min(episode_id) FROM {STEPS}")[0]
    before = next((back for back in range(OLDEST) if month.later(-back).first <= (first or month.first)), OLDEST)
    return month.later(-before)


def make_partitioned(now: datetime) -> None:
    """Make the empty table of months. A row that no month takes goes to the last one, so no step is ever refused."""
    last = month_of(now).later(AHEAD)
    first = oldest(month_of(now))
    like = f"CREATE TABLE {NEXT} (LIKE {STEPS} INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS)"
    run(
        f"{like} PARTITION BY RANGE (episode_id)",
        # a unique index of a partitioned table contains its key
        f"ALTER TABLE {NEXT} ADD CONSTRAINT {NEXT}_pkey PRIMARY KEY (id, episode_id), "
        f"ADD CONSTRAINT {NEXT}_pair UNIQUE (episode_id, seq)",
        f"CREATE TABLE {BEFORE} PARTITION OF {NEXT} FOR VALUES FROM (MINVALUE) TO ('{first.first}')",
        f"CREATE TABLE {REST} PARTITION OF {NEXT} DEFAULT",
        *(partition(month, NEXT) for month in between(first, last)),
        _of_episodes(),
    )


def make_plain(_now: datetime) -> None:
    run(
        f"CREATE TABLE {NEXT} (LIKE {STEPS} INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS)",
        f"ALTER TABLE {NEXT} ADD CONSTRAINT {NEXT}_pkey PRIMARY KEY (id), "
        f"ADD CONSTRAINT {NEXT}_pair UNIQUE (episode_id, seq)",
        _of_episodes(),
    )


def partition(month: Month, parent: str = STEPS) -> str:
    bounds = f"FROM ('{month.first}') TO ('{month.later().first}')"
    return f"CREATE TABLE {month.table} PARTITION OF {parent} FOR VALUES {bounds}"


def _of_episodes() -> str:
    return (
        f"ALTER TABLE {NEXT} ADD CONSTRAINT {NEXT}_episode_id_fk FOREIGN KEY (episode_id) "
        "REFERENCES episodes_episode (id) DEFERRABLE INITIALLY DEFERRED"
    )


def take_place(*, partitioned: bool) -> None:
    """Put the full copy in the place of the table, in the caller's transaction."""
    # the key to episodes goes with the old table, which locks them, too
    run(f"LOCK TABLE episodes_episode, {STEPS}, episodes_stepwords IN ACCESS EXCLUSIVE MODE")
    run(*(f"ALTER TABLE episodes_stepwords DROP CONSTRAINT {name}" for (name,) in rows(KEYS_OF_WORDS)))
    run(
        f"SELECT setval(pg_get_serial_sequence('{NEXT}', 'id'), nextval(pg_get_serial_sequence('{STEPS}', 'id')))",
        UNMIRROR,
        f"DROP TABLE {STEPS}",
        f"ALTER TABLE {NEXT} RENAME TO {STEPS}",
        f"ALTER TABLE {STEPS} RENAME CONSTRAINT {NEXT}_pair TO step_seq_unique",
        f"ALTER TABLE {STEPS} RENAME CONSTRAINT {NEXT}_pkey TO {STEPS}_pkey",
        f"ALTER TABLE {STEPS} RENAME CONSTRAINT {NEXT}_episode_id_fk TO {STEPS}_episode_id_fk",
        f"ALTER SEQUENCE {NEXT}_id_seq RENAME TO {STEPS}_id_seq",
    )
    if not partitioned:
        run(
            f"ALTER TABLE episodes_stepwords ADD CONSTRAINT {WORDS_KEY} FOREIGN KEY (step_id) "
            f"REFERENCES {STEPS} (id) DEFERRABLE INITIALLY DEFERRED NOT VALID"
        )
