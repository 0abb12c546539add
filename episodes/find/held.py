"""Reads: which episodes are on legal hold.

A hold covers an episode with its branches, because these hold copies of its steps, and with the episodes above it,
because a branch goes with its parent. Called by all that erases, after `people.record.holding.guard`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC

from django.http import QueryDict
from django.utils import timezone

from episodes.find import narrowing
from episodes.models import Episode
from people.access import scoped, system
from people.errors import AppError
from people.models import Hold, Project
from people.requests.forms import texts_of


def held_among(project: Project, ids: Collection[str]) -> dict[str, Hold]:
    """Return those of these episodes that a hold covers, each with one of its holds."""
    rows = list(scoped(Hold.objects.filter(released_at=None), project).order_by("placed_at"))
    if not rows or not ids:
        return {}
    kin = _kin(ids)
    holds: dict[str, Hold] = {}
    for hold in rows:
        subjects = _subjects(hold, {one for those in kin.values() for one in those})
        holds |= {pk: hold for pk, those in kin.items() if pk not in holds and (subjects is None or subjects & those)}
    return holds


def filters_of(query: str) -> dict[str, list[str]]:
    """Return the filters of a saved view, without those of its look."""
    terms = QueryDict(query.removeprefix("?"))
    return {
        name: values
        for name in terms
        if name in narrowing.FILTERS and (values := [*filter(None, texts_of(terms, name))])
    }


def _subjects(hold: Hold, among: Collection[str]) -> set[str] | None:
    """Return the episodes among these that a hold names; None for all."""
    if hold.place == Hold.Place.PROJECT:
        return None
    if hold.place == Hold.Place.EPISODE:
        return {hold.subject}
    try:
        with timezone.override(UTC):
            matching = narrowing.matching(system(hold.project), filters_of(hold.query))
            return set(matching.filter(pk__in=list(among)).order_by().values_list("pk", flat=True))
    except AppError:
        # a filter that cannot be read, such as of a run that was deleted: all may have been meant
        return None


def _kin(ids: Collection[str]) -> Mapping[str, set[str]]:
    """Return of each episode itself, those above it and those below it."""
    kin = {pk: {pk} for pk in ids}
    above = {pk: {pk} for pk in ids}
    while above:
        rows = Episode.every.filter(pk__in=list(above), fork__isnull=False).values_list("pk", "fork__parent_id")
        above = _spread(kin, above, rows)
    below = {pk: {pk} for pk in ids}
    while below:
        rows = Episode.every.filter(fork__parent__in=list(below)).values_list("fork__parent_id", "pk")
        below = _spread(kin, below, rows)
    return kin


def _spread(
    kin: dict[str, set[str]], level: Mapping[str, set[str]], rows: Collection[tuple[str, str]]
) -> dict[str, set[str]]:
    """Add the other end of each pair to the kin of those that reached the first one; return the new ends."""
    further: dict[str, set[str]] = {}
    for first, other in rows:
        for pk in level[first]:
            kin[pk].add(other)
            further.setdefault(other, set()).add(pk)
    return further
