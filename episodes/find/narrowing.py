"""Reads: the episodes that match a list's filters, for one actor.

Owns the filters that an actor can use. `selection.py` has the filters over the record. Filters by reviews belong to the
app that stores these, which registers in `AppConfig.ready()`. Called by the list's page and the API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from django.db.models import Q, QuerySet

from awmclient.schema import NOT_COUNTED
from episodes.find import selection
from episodes.find.search import Hit
from episodes.models import Episode
from episodes.stored.strip import OUTCOMES
from episodes.visible import visibility
from people.access import Actor, sees_outcomes
from people.errors import Invalid, WrongScope
from people.models import Project

SAID = ("verdict", "label", "label_value")
"""Filters by verdicts and labels."""
FILTERS = (*selection.FILTERS, *SAID)


class AnnotationFilters(Protocol):
    """A source of the filters by reviews: only those that the actor can read now."""

    def condition(self, actor: Actor, name: str, values: Collection[str]) -> Q:
        """Return the condition of a filter. Raises `Invalid` for an unknown value."""

    def counts(self, actor: Actor, name: str, episodes: Collection[str]) -> Counter[str]:
        """Return how many of these episodes have each value."""

    def words(self, project: Project, name: str) -> Mapping[str, str]:
        """Return the labels of the values on pages."""

    def with_words(self, actor: Actor, search: str) -> Collection[str]:
        """Return the episodes with the words of a search in a label or comment."""

    def hits(self, actor: Actor, search: str, episodes: Collection[str]) -> Mapping[str, Hit]:
        """Return the newest label or comment of each of these episodes with the words of a search."""


_sources: list[AnnotationFilters] = []


def register(source: AnnotationFilters) -> None:
    """Register the source of all filters of `SAID`; the last one counts."""
    _sources[:] = [source]


def sayings() -> AnnotationFilters:
    return _sources[0]


def matching(actor: Actor, filters: Mapping[str, Sequence[str]]) -> QuerySet[Episode]:
    """Return the actor's episodes that match; if outcomes narrow them, only those whose outcome the actor can see.

    Raises:
        Invalid: a filter or a value does not exist.
        WrongScope: an agent's token filters by an outcome, or by reviews.

    """
    if unknown := [name for name in filters if name not in FILTERS]:
        raise Invalid(f"Unknown filter: {unknown[0]}. Use one of {', '.join(FILTERS)}.")
    hidden = [name for name in filters if name in (*selection.TOLD_BY_OUTCOME, *SAID)]
    # before any value is checked: an error about a value would show an agent which outcomes exist
    if hidden and not sees_outcomes(actor):
        raise WrongScope(f"Agent tokens cannot filter by {hidden[0]}.")
    _refuse_unknown_outcomes(actor, filters.get("outcome", ()))
    plain = {name: values for name, values in filters.items() if name not in ("q", *SAID)}
    rows = selection.filtered(actor.project, plain)
    if words := filters.get("q"):
        rows = rows.filter(by_words(actor, dict.fromkeys(words, "")))
    for name, values in filters.items():
        if name in SAID and values:
            rows = rows.filter(sayings().condition(actor, name, values))
    return visibility.with_open_outcome(actor, rows) if selection.TOLD_BY_OUTCOME & set(filters) else rows


def _refuse_unknown_outcomes(actor: Actor, values: Sequence[str]) -> None:
    """Raise for an outcome that the environment server does not return and that no episode visible to the actor has."""
    own = {*OUTCOMES, *NOT_COUNTED, "incomplete", "agent_error", "timeout", selection.NOT_VERIFIED}
    for value in values:
        seen = visibility.of_project(actor).filter(reward_type=value.replace("\x00", ""))
        if value not in own and not seen.exists():
            raise Invalid(f"Unknown filter value: outcome={value}. No episode has this outcome.")


def by_words(actor: Actor, searches: Mapping[str, str]) -> Q:
    """Filter by words of steps, as `selection.by_words` does, or of labels and comments that the actor can read now; an
    agent finds none of those."""
    if any("\x00" in word for word in searches):
        raise Invalid("Unknown filter value: q.")
    condition = selection.by_words(searches)
    reviewed = {pk for word in searches for pk in sayings().with_words(actor, word)} if sees_outcomes(actor) else set()
    return condition | Q(pk__in=selection.among(sorted(reviewed))) if reviewed else condition


def by_index(actor: Actor, word: str, after: datetime) -> tuple[str, list[Any]] | None:
    """Return one query for the IDs that `by_words` finds by an index, with its values; None if no index has the search.
    See `selection.by_index`."""
    queries = selection.by_index(actor.project, word, after)
    reviewed = sorted(sayings().with_words(actor, word)) if queries and sees_outcomes(actor) else []
    if reviewed:
        queries.append(("SELECT unnest(string_to_array(%s, ','))", [",".join(reviewed)]))
    values = [value for _, given in queries for value in given]
    return (" UNION ".join(f"({sql})" for sql, _ in queries), values) if queries else None


def hits(actor: Actor, episodes: Collection[str], search: str) -> Mapping[str, Hit]:
    """Return the label or comment of each of these episodes with the words of a search, if the actor can read it."""
    return sayings().hits(actor, search, episodes) if episodes and search and sees_outcomes(actor) else {}
