"""Writes: move all steps into a table of the other form, while steps are written and read.

A trigger writes each change of the table to the copy, too, from before the first row is copied. Rows are copied by
episode, in short transactions that record how far they came, so a killed move goes on there. When all are copied, both
tables are compared in one snapshot, and the copy takes the table's place in one short transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, connection, transaction

from awmweb.partitions import tables
from awmweb.partitions.tables import COLUMNS, NEXT, STEPS, WORDS_KEY, in_short, rows, run
from people.errors import AppError

STATE = "episodes_step_move"
BATCH = 20_000
"""Steps of one transaction, or one episode."""
LOCK_KEY = 7_390_076
BATCHES = """
WITH next AS (
    SELECT episode.id, sum(last_seq + 1) OVER (ORDER BY episode.id) - last_seq AS before FROM (
        SELECT id, last_seq FROM episodes_episode WHERE id > %s ORDER BY id LIMIT 2000
    ) episode
)
SELECT max(id) FROM next WHERE before <= %s
"""
COPY = f"""
INSERT INTO {NEXT} ({COLUMNS}) SELECT {COLUMNS} FROM {STEPS} WHERE episode_id > %s AND episode_id <= %s
ON CONFLICT (episode_id, seq) DO NOTHING
"""
SUMS = "SELECT count(*), sum(hashtextextended(body, seq)::numeric), sum(id) FROM {}"


class StepsMoving(AppError):
    """Another process moves the steps."""

    code = "busy"


class BehindPooler(AppError):
    """Steps are moved by one session of PostgreSQL, and a pooler gives each transaction another one. Set AWMWEB_POOLER
    to none and DATABASE_URL to PostgreSQL itself for this command."""

    code = "invalid"


class Settled(AppError):
    """The steps have this form."""

    code = "invalid"


class Differs(AppError):
    """The copy differs from the table, and was dropped. The table is as it was."""

    code = "internal"


@dataclass(frozen=True)
class StepMove:
    """How far a move has come."""

    to_partitions: bool
    last: str
    copied: int


def state() -> StepMove | None:
    """Return the move that has begun and not ended."""
    if not tables.exists(STATE):
        return None
    moves = rows(f"SELECT to_partitions, last, copied FROM {STATE}")
    return StepMove(*moves[0]) if moves else None


def move(now: datetime, *, to_partitions: bool, say: Callable[[str], object]) -> float:
    """Move all steps, from where an earlier call was killed; return the seconds of the last lock."""
    with _Alone():
        going = state()
        if going is not None and (going.to_partitions != to_partitions or _is_outdated()):
            _forget()
            say("An earlier move was given up.")
            going = None
        if going is None and tables.is_partitioned() == to_partitions:
            raise Settled("The steps are partitioned." if to_partitions else "The steps are not partitioned.")
        if going is None:
            _begin(now, to_partitions=to_partitions)
        for done, rate, share in _copy():
            say(f"{done:,} steps copied, {rate:,.0f} a second, {share:.0%}")
        say("Comparing both tables")
        _compare()
        run(f"ANALYZE {NEXT}")
        took = in_short(lambda: _end(to_partitions=to_partitions))
        if not to_partitions:
            run(f"ALTER TABLE episodes_stepwords VALIDATE CONSTRAINT {WORDS_KEY}")
        return took


def give_up() -> bool:
    """Take a move back that has not ended; return whether there was one."""
    with _Alone():
        going = state()
        if going is not None:
            _forget()
        return going is not None


class _Alone:
    """Hold the lock of all moves; PostgreSQL frees it when the process ends."""

    def __enter__(self) -> None:
        if settings.AWMWEB_POOLER != "none":
            raise BehindPooler
        if not rows("SELECT pg_try_advisory_lock(%s)", [LOCK_KEY])[0][0]:
            raise StepsMoving

    def __exit__(self, *_: object) -> None:
        rows("SELECT pg_advisory_unlock(%s)", [LOCK_KEY])


def _begin(now: datetime, *, to_partitions: bool) -> None:
    # in two transactions, each with one lock: two would meet those of writers crosswise
    make = tables.make_partitioned if to_partitions else tables.make_plain
    in_short(lambda: run(f"DROP TABLE IF EXISTS {NEXT}"))  # of a call that was killed between the two
    in_short(lambda: make(now))
    # waits for transactions that write steps: what they wrote is read by the copy, and what comes by the trigger
    in_short(
        lambda: run(
            tables.MIRROR,
            f"CREATE TABLE {STATE} (to_partitions boolean, last text, copied bigint)",
            f"INSERT INTO {STATE} VALUES ({to_partitions}, '', 0)",
        )
    )


def _end(*, to_partitions: bool) -> None:
    tables.take_place(partitioned=to_partitions)
    run(f"DROP TABLE {STATE}")


def _forget() -> None:
    in_short(lambda: run(tables.UNMIRROR, f"DROP TABLE {NEXT}", f"DROP TABLE {STATE}"))


def _is_outdated() -> bool:
    """Return whether a migration has changed the table since the copy was begun."""
    return tables.columns_of(STEPS) != tables.columns_of(NEXT)


def _copy() -> Iterator[tuple[int, float, float]]:
    going = state()
    assert going is not None
    last, copied, began, at_start = going.last, going.copied, time.monotonic(), going.copied
    (every,) = rows("SELECT coalesce(sum(last_seq + 1), 0) FROM episodes_episode")[0]
    shown_at = began
    while (upto := rows(BATCHES, [last, BATCH])[0][0]) is not None:
        copied += _copy_one(last, upto)
        last = upto
        if (now := time.monotonic()) - shown_at > 2:
            shown_at = now
            yield copied, (copied - at_start) / (now - began), min(copied / max(every, 1), 1)


def _copy_one(last: str, upto: str) -> int:
    for turn in range(5):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
                cursor.execute(COPY, [last, upto])
                count: int = cursor.rowcount
                cursor.execute(f"UPDATE {STATE} SET last = %s, copied = copied + %s", [upto, count])
                return count
        except IntegrityError:
            # an episode was erased between the reading of its steps and the commit
            if turn == 4:
                raise
    raise AssertionError("unreachable")


def _compare() -> None:
    """Raise if the tables differ. The trigger writes to both in one transaction, so one snapshot sees them equal."""
    with transaction.atomic():
        run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET LOCAL statement_timeout = 0")
        same = rows(SUMS.format(STEPS)) == rows(SUMS.format(NEXT))
    if not same:
        _forget()
        raise Differs
