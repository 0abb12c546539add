"""Sizes of runs: their episodes counted up to a bound, so that a list of runs costs the same at any size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection
from psycopg import sql

from awmclient.schema import LIVE_STATES

COUNTED = 10_000
SIZES = """
SELECT {run}, counted.number, counted.step,
       (SELECT count(*) FROM episodes_episode WHERE run_id = {run} AND state IN ({live}) AND NOT origin = 'branch')
  FROM (SELECT count(*) AS number, max(training_step) AS step FROM (
               -- one more than are counted tells that there are more
               SELECT training_step FROM episodes_episode WHERE run_id = {run} AND NOT origin = 'branch'
                ORDER BY created_at DESC, id DESC LIMIT {counted} + 1) newest) counted
"""
STATES = """
SELECT {run}, state, count(*) FROM (
       SELECT state FROM episodes_episode WHERE run_id = {run} AND NOT origin = 'branch'
        ORDER BY created_at DESC, id DESC LIMIT {counted}) newest GROUP BY state
"""


@dataclass(frozen=True)
class RunSize:
    """The episodes of a run up to one more than `COUNTED`, the last training step among them, and the live ones."""

    episodes: int = 0
    training_step: int | None = None
    live: int = 0

    @property
    def counted_max(self) -> int:
        return COUNTED

    @property
    def is_over(self) -> bool:
        return self.episodes > COUNTED


def sizes_of(runs: Collection[str]) -> dict[str, RunSize]:
    """Return the sizes of runs by ID, in one statement."""
    return {pk: RunSize(*size) for pk, *size in _of_each(SIZES, runs)}


def states_of(runs: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the number of episodes by state, of the newest `COUNTED` of each run, in one statement."""
    counts: dict[str, dict[str, int]] = {pk: {} for pk in runs}
    for pk, state, number in _of_each(STATES, runs):
        counts[pk][state] = number
    return counts


def _of_each(select: str, runs: Collection[str]) -> list[Any]:
    """Run a query for each run, together. Each is planned for its own run: by a mean size PostgreSQL would read a large
    one as a whole to sort it, where an index has the order."""
    live = ", ".join(f"'{state}'" for state in LIVE_STATES)
    if not runs:
        return []
    each = [select.format(run=sql.Literal(pk).as_string(), live=live, counted=COUNTED) for pk in runs]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"({one})" for one in each))
        return list(cursor.fetchall())
