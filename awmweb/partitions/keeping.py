"""Writes: partitions of months to come, and months that leave the table of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from awmweb.partitions import tables
from awmweb.partitions.months import AHEAD, Month, between, month_named, month_of
from awmweb.partitions.tables import COLUMNS, REST, STEPS, in_short, partitions, rows, run
from episodes.models import Episode, EpisodeWords, StepWords
from people.errors import AppError
from people.models import Project
from people.record.holding import refuse_any_hold

AT_A_TIME = 200


class Undetachable(AppError):
    """This month cannot be detached."""

    code = "invalid"


@dataclass(frozen=True)
class Detached:
    """What was done: the table that is now by itself, its episodes, and the seconds of the lock."""

    table: str
    episodes: int
    locked_s: float


def months() -> list[Month]:
    """Return the months with a partition."""
    return sorted(month for name, *_ in partitions() if (month := month_named(name)) is not None)


def ensure(now: datetime) -> list[Month]:
    """Make partitions up to some months ahead; return the new ones. Without partitions it does nothing."""
    if not tables.is_partitioned():
        return []
    have = months()
    start = have[-1].later() if have else month_of(now)
    new = list(between(start, month_of(now).later(AHEAD)))
    for month in new:
        in_short(lambda month=month: _make(month))  # type: ignore[misc]
    return new


def _make(month: Month) -> None:
    """Make the partition of a month. If beat did not run for long, earlier steps are in the default partition."""
    run(
        f"LOCK TABLE {STEPS} IN ACCESS EXCLUSIVE MODE",
        f"CREATE TEMPORARY TABLE of_month ON COMMIT DROP AS SELECT {COLUMNS} FROM {REST} "
        f"WHERE episode_id >= '{month.first}' AND episode_id < '{month.later().first}'",
        f"DELETE FROM {REST} WHERE episode_id >= '{month.first}' AND episode_id < '{month.later().first}'",
        # checks of foreign keys wait for the end of the transaction, and tables with such checks cannot be changed
        "SET CONSTRAINTS ALL IMMEDIATE",
        tables.partition(month),
        f"INSERT INTO {STEPS} ({COLUMNS}) SELECT {COLUMNS} FROM of_month",
    )


def detach(month: Month, now: datetime, say: Callable[[str], object]) -> Detached:
    """Take the steps of the episodes of a month out of the product. They stay in a table of their own.

    Each part can be repeated: a call that was killed goes on in the next one.
    """
    partitioned = month in months()
    if not partitioned and not tables.exists(month.table):
        raise Undetachable(f"There is no partition of {month}.")
    if month >= month_of(now):
        raise Undetachable(f"{month} is not over.")
    every = Episode.every.filter(pk__gte=month.first, pk__lt=month.later().first)
    live = every.live().count()
    if live:
        raise Undetachable(f"{live} episodes of {month} have not ended.")
    for project in Project.objects.filter(episodes__in=every).distinct():
        with transaction.atomic():
            refuse_any_hold(project)
    ids = list(every.order_by("pk").values_list("pk", flat=True))
    parts = [ids[at : at + AT_A_TIME] for at in range(0, len(ids), AT_A_TIME)]
    # first: an episode with this mark takes no step and is in no new dataset
    for part in parts:
        Episode.every.filter(pk__in=part, steps_erased_at=None).update(steps_erased_at=now)
    took = in_short(lambda: _take_out(month)) if partitioned else 0.0
    say(f"{month.table} is detached; taking its words out of the search")
    for part in parts:
        StepWords.objects.filter(episode__in=part)._raw_delete("default")
        EpisodeWords.objects.filter(episode__in=part)._raw_delete("default")
    return Detached(month.table, len(ids), took)


def _take_out(month: Month) -> None:
    run(f"ALTER TABLE {STEPS} DETACH PARTITION {month.table}")
    keys = rows(
        "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass "
        "AND confrelid = 'episodes_episode'::regclass",
        [month.table],
    )
    run(*(f"ALTER TABLE {month.table} DROP CONSTRAINT {name}" for (name,) in keys))
    # who erases an episode erases these steps as well; not checked again, as the key of before held
    run(
        f"ALTER TABLE {month.table} ADD CONSTRAINT {month.table}_episode FOREIGN KEY (episode_id) "
        "REFERENCES episodes_episode (id) ON DELETE CASCADE NOT VALID"
    )


def detached() -> list[str]:
    """Return the tables of months that left."""
    table_rows = rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition AND relname ~ %s "
        "AND relnamespace = current_schema()::regnamespace ORDER BY relname",
        [r"^episodes_step_\d{4}_\d\d$"],
    )
    return [str(name) for (name,) in table_rows]
