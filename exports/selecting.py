"""Reads: which episodes an export looks at, as a query and as a snapshot that never changes.

A snapshot names each episode with the length of its record and the outcomes that counted when it was taken, so that
the same snapshot gives the same files wherever and whenever they are made. Leaves the meaning of filters to
`episodes.selection`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Q, QuerySet
from django.db.models.functions import MD5, Coalesce, Collate

from episodes.models import LIVE_STATES, Episode
from episodes.selection import filtered
from exports.recipe import Recipe
from people.access import Actor, may_export
from people.models import Project


@dataclass(frozen=True, slots=True)
class Entry:
    """One episode of a snapshot: its id, its task, the number of its last step, and the ids of its outcomes."""

    episode: str
    task: str
    last_seq: int
    outcomes: tuple[int, ...]

    def line(self) -> str:
        return json.dumps([self.episode, self.task, self.last_seq, list(self.outcomes)], separators=(",", ":")) + "\n"

    @classmethod
    def read(cls, line: str) -> Entry:
        episode, task, last_seq, outcomes = json.loads(line)
        return cls(episode, task, last_seq, tuple(outcomes))


def selected(actor: Actor, recipe: Recipe) -> QuerySet[Episode]:
    """Return the ended episodes that match the recipe's filters. Raises `Invalid`, which names filter and value."""
    may_export(actor)
    return matching(actor.project, recipe)


def matching(project: Project, recipe: Recipe) -> QuerySet[Episode]:
    return filtered(project, recipe.filter).exclude(state__in=LIVE_STATES)


def snapshot(rows: QuerySet[Episode]) -> Iterator[Entry]:
    """Yield the entries of these episodes, those of one task together; the order follows from the rows alone."""
    verdicts = ArrayAgg("outcomes__pk", filter=Q(outcomes__isnull=False), distinct=True, order_by="outcomes__pk")
    ordered = rows.annotate(verdicts=Coalesce(verdicts, []), text=MD5("task"))
    ordered = ordered.order_by(Collate("scenario", "C"), F("task_idx").asc(nulls_first=True), "text", "pk")
    columns = ("pk", "scenario", "task_idx", "text", "last_seq", "verdicts")
    for pk, scenario, task_idx, text, last_seq, outcomes in ordered.values_list(*columns).iterator(chunk_size=5000):
        task = f"{scenario}/{task_idx}" if scenario and task_idx is not None else text
        yield Entry(pk, task, last_seq, tuple(outcomes))


def filters_of(given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the filters of a query string or of `K=V` arguments; a name that comes twice has two values."""
    found: dict[str, list[str]] = {}
    for name, value in given:
        if value:
            found.setdefault(name, []).append(value)
    return dict(found)
