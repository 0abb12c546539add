"""Reads: which episodes an export looks at, as a query and as a snapshot that never changes.

A snapshot names each episode with the length of its record, the outcomes and the ruling that counted when it was taken,
so that the same snapshot gives the same files wherever and whenever they are made. Leaves the meaning of filters to
`episodes.selection`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Q, QuerySet
from django.db.models.functions import MD5, Coalesce, Collate

from awmclient.schema import LIVE_STATES
from episodes import visibility
from episodes.models import Episode
from episodes.selection import filtered
from episodes.splits import task_key
from exports.recipe import Recipe
from people.access import Actor, may_export
from people.models import Project
from reviews import correcting, court


@dataclass(frozen=True, slots=True)
class Entry:
    """One episode of a snapshot: its id, its task, the number of its last step, the ids of its outcomes, what the
    court found wrong with its task, and the ids of corrections."""

    episode: str
    task: str
    last_seq: int
    outcomes: tuple[int, ...]
    ruling: str = ""
    corrections: tuple[str, ...] = ()

    def line(self) -> str:
        known = [self.episode, self.task, self.last_seq, list(self.outcomes)]
        known += [self.ruling] if self.ruling or self.corrections else []
        known += [list(self.corrections)] if self.corrections else []
        return json.dumps(known, separators=(",", ":")) + "\n"

    @classmethod
    def read(cls, line: str) -> Entry:
        episode, task, last_seq, outcomes, *more = json.loads(line)
        ruling, corrections = more[0] if more else "", more[1] if len(more) > 1 else ()
        return cls(episode, task, last_seq, tuple(outcomes), ruling, tuple(corrections))


def selected(actor: Actor, recipe: Recipe) -> QuerySet[Episode]:
    """Return the ended episodes that match the recipe's filters, without those that the actor has to judge blind: what
    an export holds tells outcomes. Raises `Invalid`, which names filter and value."""
    may_export(actor)
    return visibility.told(actor, matching(actor.project, recipe))


def may_open(actor: Actor) -> None:
    """Ask for exports, and read files that hold outcomes: who may export and has nothing to judge blind."""
    may_export(actor)
    visibility.refuse_while_blind(actor)


def matching(project: Project, recipe: Recipe) -> QuerySet[Episode]:
    return filtered(project, recipe.filter).exclude(state__in=LIVE_STATES)


def snapshot(
    rows: QuerySet[Episode], ruled: Mapping[str, str], corrected: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Entry]:
    """Yield the entries of these episodes, those of one task together; the order follows from the rows alone.

    `ruled`: what the court found wrong, by task key. `corrected`: the ids of corrections, by episode.
    """
    of_texts = any(key.startswith("text/") for key in ruled)  # few are; only then is each task's text read
    verdicts = ArrayAgg("outcomes__pk", filter=Q(outcomes__isnull=False), distinct=True, order_by="outcomes__pk")
    ordered = rows.annotate(verdicts=Coalesce(verdicts, []), text=MD5("task"))
    ordered = ordered.order_by(Collate("scenario", "C"), F("task_idx").asc(nulls_first=True), "text", "pk")
    columns = ("pk", "scenario", "task_idx", "text", "last_seq", "verdicts", *(["task"] if of_texts else []))
    for pk, scenario, task_idx, text, last_seq, outcomes, *said in ordered.values_list(*columns).iterator(5000):
        task = f"{scenario}/{task_idx}" if scenario and task_idx is not None else text
        ruling = ruled.get(task_key(scenario, task_idx, *said), "")
        yield Entry(pk, task, last_seq, tuple(outcomes), ruling, tuple((corrected or {}).get(pk, ())))


def entries_of(project: Project, recipe: Recipe, rows: QuerySet[Episode]) -> Iterator[Entry]:
    """Return the snapshot of these episodes with what people said of them that this recipe counts."""
    corrected = correcting.blind_of(rows) if "corrections" in recipe.include else {}
    return snapshot(rows, court.at_fault(project), corrected)


def filters_of(given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the filters of a query string or of `K=V` arguments; a name that comes twice has two values."""
    found: dict[str, list[str]] = {}
    for name, value in given:
        if value:
            found.setdefault(name, []).append(value)
    return dict(found)
