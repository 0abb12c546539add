"""Sizes of runs: their episodes counted up to a bound, so that a list of runs costs the same at any size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from awmclient.schema import LIVE_STATES

COUNTED = 10_000
SIZES = """
SELECT run.id, counted.number, counted.step,
       (SELECT count(*) FROM episodes_episode WHERE run_id = run.id AND state = ANY(%s) AND NOT origin = 'branch')
  FROM unnest(%s::text[]) run(id), LATERAL (
       SELECT count(*) AS number, max(training_step) AS step FROM (
              -- one more than are counted tells that there are more
              SELECT training_step FROM episodes_episode WHERE run_id = run.id AND NOT origin = 'branch'
               ORDER BY created_at DESC, id DESC LIMIT %s) newest) counted
"""

STATES = """
SELECT run.id, counted.state, counted.number
  FROM unnest(%s::text[]) run(id), LATERAL (
       SELECT state, count(*) AS number FROM (
              SELECT state FROM episodes_episode WHERE run_id = run.id AND NOT origin = 'branch'
               ORDER BY created_at DESC, id DESC LIMIT %s) newest GROUP BY state) counted
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
    with connection.cursor() as cursor:
        cursor.execute(SIZES, [list(LIVE_STATES), list(runs), COUNTED + 1])
        return {pk: RunSize(*size) for pk, *size in cursor.fetchall()}


def states_of(runs: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the number of episodes by state, of the newest `COUNTED` of each run, in one statement."""
    found: dict[str, dict[str, int]] = {pk: {} for pk in runs}
    with connection.cursor() as cursor:
        cursor.execute(STATES, [list(runs), COUNTED])
        for pk, state, number in cursor.fetchall():
            found[pk][state] = number
    return found
