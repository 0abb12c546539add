"""Reads: which episodes an export looks at, as a query and as a snapshot that never changes.

Owns the meaning of filters. A snapshot names each episode with the length of its record and the outcomes that counted
when it was taken, so that the same snapshot gives the same files wherever and whenever they are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Q, QuerySet
from django.db.models.functions import MD5, Coalesce, Collate
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from episodes.models import LIVE_STATES, Episode, ExpertMode, Origin, Run
from exports.recipe import Recipe
from people.access import Actor, may_export, scoped
from people.errors import Invalid
from people.models import Project

_EXACT = {
    "arm": "arm",
    "scenario": "scenario",
    "split": "split",
    "policy": "policy_name",
    "policy_kind": "policy_kind",
    "environment": "environment",
    "group_key": "group_key",
    "checkpoint": "checkpoint",
    "id": "pk",
}
_CHOICES = {"expert": ExpertMode.values, "origin": Origin.values}
_WHOLE = {"task_idx": "task_idx", "training_step": "training_step", "seed": "seed"}
WHOLE_MAX = 2**31 - 1


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
    rows = scoped(Episode.objects.exclude(state__in=LIVE_STATES), project)
    for name, values in recipe.filter.items():
        rows = rows.filter(_condition(project, name, values))
    return rows


def _condition(project: Project, name: str, values: tuple[str, ...]) -> Q:
    if any("\x00" in value for value in values):
        raise Invalid(f"Unknown filter value: {name}.")
    if name == "run":
        return Q(run__in=_runs(project, values))
    if name == "outcome":
        return Q(outcomes__reward_type__in=values, outcomes__source__in=["verifier", "attested"])
    if name in _EXACT:
        return Q(**{f"{_EXACT[name]}__in": values})
    if name in _CHOICES:
        if unknown := sorted(set(values) - set(_CHOICES[name])):
            raise Invalid(f"Unknown filter value: {name}={unknown[0]}. Use one of {', '.join(_CHOICES[name])}.")
        return Q(**{f"{name}__in": values})
    if name in _WHOLE:
        return Q(**{f"{_WHOLE[name]}__in": [_whole(name, value) for value in values]})
    moment = max(_moment(name, value) for value in values)
    return Q(ended_at__gte=moment) if name == "since" else Q(ended_at__lt=moment)


def _runs(project: Project, values: tuple[str, ...]) -> list[str]:
    """Runs by id or by name: a name is what pages show."""
    found = list(scoped(Run.objects.filter(Q(pk__in=values) | Q(name__in=values)), project).values_list("pk", "name"))
    known = {text for pair in found for text in pair}
    if unknown := [value for value in values if value not in known]:
        raise Invalid(f"Unknown filter value: run={unknown[0]}. No run has this name or id.")
    return [pk for pk, _ in found]


def _whole(name: str, value: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) <= WHOLE_MAX):
        raise Invalid(f"Unknown filter value: {name}={value}. Use a whole number.")
    return int(value)


def _moment(name: str, value: str) -> datetime:
    try:
        day = parse_date(value) if len(value) == 10 else None
        moment = datetime(day.year, day.month, day.day) if day else parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None:
        raise Invalid(f"Unknown filter value: {name}={value}. Use a date such as 2026-11-22.")
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


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
