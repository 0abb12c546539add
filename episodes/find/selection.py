"""Reads: the episodes that match filters, and lists of them by cursor.

Owns the meaning of filters for the list, the API and exports. A filter has one or several values; the error for an
unknown name or value lists the known ones.
"""

from __future__ import annotations

import base64
import binascii
import functools
import operator
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Exists, Model, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Lower, StrIndex
from django.db.models.lookups import GreaterThan
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from awmclient.schema import LIVE_STATES, NOT_COUNTED
from episodes.find import search
from episodes.models import Episode, EpisodeState, ExpertMode, Origin, Run
from episodes.stored import outcomes
from episodes.stored.strip import BRIEFED, STOPS
from people.access import scoped
from people.errors import Invalid
from people.models import Project
from people.requests.forms import number_in
from people.text.plain_text import is_storable

M = TypeVar("M", bound=Model)
_EXACT = {
    "arm": "arm",
    "scenario": "scenario",
    "split": "split",
    "policy": "policy_name",
    "policy_kind": "policy_kind",
    "environment": "environment",
    "group_key": "group_key",
    "checkpoint": "checkpoint",
    "key": "key",
    "id": "pk",
}
_CHOICES: dict[str, Sequence[str]] = {
    **{"expert": ExpertMode.values, "origin": Origin.values, "state": EpisodeState.values, "stop_reason": [*STOPS]},
}
_WHOLE = ("task_idx", "training_step", "seed")
NOT_VERIFIED = "none"
ANSWERED = ("human", "llm", "cache", "script", "fallback", "cancelled", "never")
_FACTS = {"error": ("any", "none"), "asked": ANSWERED}
REWARD_TYPES = frozenset({"complete", "others", NOT_VERIFIED, *NOT_COUNTED})
KNOWN_SHOWN = 10
BRIEFINGS = ("yes", "no")
LENGTHS = ("0-5", "6-15", "16-30", "31-100", "101-")
FILTERS = (*_EXACT, *_CHOICES, *_WHOLE, "run", "since", "until", "q", "outcome", "tool", "length", "briefed", *_FACTS)
TOLD_BY_OUTCOME = frozenset({"outcome"})
"""Filters that reveal outcomes; only actors who can see outcomes have them."""


def condition(project: Project, name: str, values: Collection[str]) -> Q:
    """Return the condition of one filter. Raises `Invalid`, which names filter and value."""
    if not all(map(is_storable, values)):
        raise Invalid(f"Unknown filter value: {name}.")
    if name == "run":
        return Q(run__in=runs_named(project, values))
    if name == "outcome":
        mine = outcomes.found_of_outer_episode()
        judged = Q(Exists(mine.filter(reward_type__in=values)))
        return judged | ~Q(Exists(mine.exclude(source="attested"))) if NOT_VERIFIED in values else judged
    if name in _EXACT:
        return Q(**{f"{_EXACT[name]}__in": values})
    if name in _CHOICES:
        if unknown := sorted(set(values) - set(_CHOICES[name])):
            raise Invalid(f"Unknown filter value: {name}={unknown[0]}. Use one of {', '.join(_CHOICES[name])}.")
        return Q(**{f"{name}__in": values})
    if name == "briefed":
        return _by_briefing(values)
    if name in ("tool", "length", *_FACTS):
        return _by_facts(name, values)
    if name in _WHOLE:
        return Q(**{f"{name}__in": [_whole(name, value) for value in values]})
    if name == "q":
        return by_words(dict.fromkeys(values, ""))
    moment = max(moment_of(value, name) for value in values)
    return Q(ended_at__gte=moment) if name == "since" else Q(ended_at__lt=moment)


SEARCHES_MAX = 10


def by_words(searches: Mapping[str, str]) -> Q:
    """Filter by the words of steps, or by a substring of the task or of the episode's names.

    Each search can come with a table that already holds the candidates of `search.py`.

    """
    if len(searches) > SEARCHES_MAX:
        raise Invalid(f"At most {SEARCHES_MAX} searches in one list.")
    return functools.reduce(operator.or_, (_by_words(*one) for one in searches.items()), Q())


def _by_words(word: str, gathered: str) -> Q:
    """Match one search. PostgreSQL finds a substring in lower-cased text in half the time of ILIKE."""
    return search.condition(word, gathered) | _named(word)


def _named(word: str) -> Q:
    parts = [StrIndex(Lower(name), Lower(Value(word))) for name in ("task", "scenario", "key")]
    return functools.reduce(operator.or_, (Q(GreaterThan(part, 0)) for part in parts))


def by_index(project: Project, word: str, after: datetime) -> list[tuple[str, Sequence[Any]]]:
    """Return queries for the IDs of episodes that match one search, which cost the same in a project of any size: parts
    of words in tasks and names are found in episodes after a moment and in live ones, whole words in all. None if no
    index has the search."""
    rows = scoped(Episode.every.order_by(), project).filter(_named(word))
    parts = (rows.filter(created_at__gt=after), rows.filter(state__in=LIVE_STATES))
    named = [one.values("pk").query.sql_with_params() for one in parts]
    queries = search.by_index(project.pk, word)
    return [*queries, *named] if queries else []


def _by_facts(name: str, values: Collection[str]) -> Q:
    """Filter by facts that only steps contain: tools, errors, who answered, and the number of steps."""
    if name == "tool":
        return Q(facts__tools__overlap=list(values))
    if name == "length":
        return functools.reduce(operator.or_, map(_length, values), Q())
    if unknown := sorted(set(values) - set(_FACTS[name])):
        raise Invalid(f"Unknown filter value: {name}={unknown[0]}. Use one of {', '.join(_FACTS[name])}.")
    if name == "error":
        kinds = {"any": Q(facts__errors__gt=0), "none": Q(facts__errors=0)}
        return functools.reduce(operator.or_, (kinds[value] for value in values), Q())
    never = Q(facts__asks=0) if "never" in values else Q()
    return Q(facts__answered__overlap=[value for value in values if value != "never"] or [""]) | never


def _by_briefing(values: Collection[str]) -> Q:
    """Filter by whether an agent read advice before it began: a briefing is a step with a mark in the strip."""
    if unknown := sorted(set(values) - set(BRIEFINGS)):
        raise Invalid(f"Unknown filter value: briefed={unknown[0]}. Use one of {', '.join(BRIEFINGS)}.")
    kinds = {"yes": Q(strip__contains=BRIEFED), "no": ~Q(strip__contains=BRIEFED)}
    return functools.reduce(operator.or_, (kinds[value] for value in values), Q())


def _length(value: str) -> Q:
    """Read a range of step counts, as in 6-30; 101- has no end."""
    least, dash, most = value.partition("-")
    if not dash:
        raise Invalid(f"Unknown filter value: length={value}. Use a range such as 6-30 or 101-.")
    at_least = Q(last_seq__gte=_whole("length", least))
    return at_least & Q(last_seq__lte=_whole("length", most)) if most else at_least


def filtered(project: Project, filters: Mapping[str, Collection[str]]) -> QuerySet[Episode]:
    """Return the project's episodes that pass every filter. Branches only pass `origin=branch`."""
    rows = scoped(_asked_for(filters), project)
    for name, values in filters.items():
        if name not in FILTERS:
            raise Invalid(f"Unknown filter: {name}. Use one of {', '.join(FILTERS)}.")
        if values:
            rows = rows.filter(condition(project, name, values))
    return rows


def _asked_for(filters: Mapping[str, Collection[str]]) -> QuerySet[Episode]:
    """Return the rows to filter: without branches, unless their origin is asked for."""
    return Episode.every.all() if Origin.BRANCH in filters.get("origin", ()) else Episode.objects.all()


def refuse_unknown_values(project: Project, filters: Mapping[str, Collection[str]]) -> None:
    """Raise `Invalid` for a value that no episode of the project has: it would match nothing without a word."""
    everything = scoped(_asked_for(filters), project)
    for name, values in filters.items():
        column = _EXACT.get(name, name if name in _WHOLE else "")
        for value in values if column else ():
            if not everything.filter(condition(project, name, [value])).exists():
                raise Invalid(f"Unknown filter value: {name}={value}. {_known_values(everything, name, column)}")
    for value in filters.get("outcome", ()):
        mine = outcomes.of_project(project)
        if value not in REWARD_TYPES and not mine.filter(reward_type=value).exists():
            raise Invalid(f"Unknown filter value: outcome={value}. Use one of {', '.join(sorted(REWARD_TYPES))}.")


def _known_values(everything: QuerySet[Episode], name: str, column: str) -> str:
    distinct = everything.exclude(**{column: None}).order_by(column).values_list(column, flat=True).distinct()
    shown = [str(value) for value in distinct[:KNOWN_SHOWN] if value != ""]
    return (
        f"Episodes have {', '.join(shown)}." if shown and name not in ("id", "key") else f"No episode has this {name}."
    )


def among(ids: Collection[str]) -> RawSQL:
    """Return thousands of IDs as one text, for `__in`: as separate parameters they would cost more than the look-up."""
    return RawSQL("SELECT unnest(string_to_array(%s, ','))", [",".join(ids)])


def runs_named(project: Project, values: Collection[str]) -> list[str]:
    """Return the IDs of runs by ID or by name, because pages show names. Raises `Invalid` for an unknown one."""
    pairs = list(scoped(Run.objects.filter(Q(pk__in=values) | Q(name__in=values)), project).values_list("pk", "name"))
    labels = {text for pair in pairs for text in pair}
    if unknown := [value for value in values if value not in labels]:
        raise Invalid(f"Unknown filter value: run={unknown[0]}. No run has this name or id.")
    return [pk for pk, _ in pairs]


def run_named(project: Project, value: str) -> Run:
    """Return the run with an ID or a name. Raises `Invalid` if no run has it, or several."""
    ids = runs_named(project, [value])
    if len(ids) > 1:
        raise Invalid(f"{len(ids)} runs are named {value}. Use the ID.")
    return Run.objects.select_related("project").get(pk=ids[0])


def _whole(name: str, value: str) -> int:
    """Read a number that the filter's column can hold. Raises `Invalid`."""
    least, most = _range_of("last_seq" if name == "length" else name)
    if (number := number_in(value, most, least)) is None:
        raise Invalid(f"Unknown filter value: {name}={value[:40]}. Use a whole number from {least} to {most}.")
    return number


def _range_of(column: str) -> tuple[int, int]:
    """Return the smallest and the largest number of a column, which is as wide as the record's field."""
    kind = Episode._meta.get_field(column).get_internal_type()
    least, most = connection.ops.integer_field_range(kind)
    return int(least or 0), int(most or 0)


def moment_of(value: str, name: str = "since") -> datetime:
    """Read a moment, or the start of a day in the current zone: the reader's on pages, else UTC. Raises `Invalid`."""
    try:
        day = parse_date(value) if len(value) == 10 else None
        moment = datetime(day.year, day.month, day.day) if day else parse_datetime(value)
        # in UTC, because the database refuses zones that Python has, and years beyond its own
        moment = moment and (timezone.make_aware(moment) if timezone.is_naive(moment) else moment).astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise Invalid(f"Unknown filter value: {name}={value}. Use a date such as 2026-11-22.")
    return moment


def newest(rows: QuerySet[M], cursor: str, limit: int) -> tuple[list[M], str | None]:
    """Return one page of a list, newest first, and the cursor of the next; None at the end.

    Rows that are added meanwhile come before page 1, so that no row appears twice and none is left out.

    """
    if cursor:
        at, pk = _read_cursor(cursor)
        # the ID decides between rows of one moment, as in the order below
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    page = list(rows.order_by("-created_at", "-pk")[: limit + 1])
    if len(page) <= limit:
        return page, None
    last: Any = page[limit - 1]
    words = f"{last.created_at.isoformat()} {last.pk}"
    return page[:limit], base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        # base64 needs the padding that `newest` left out of the address
        words = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, pk = words.partition(" ")
        stamp = datetime.fromisoformat(at)
        moment = stamp.astimezone(UTC) if stamp.tzinfo is not None else None
    except (ValueError, OverflowError, binascii.Error):
        moment = None
    if moment is None or not is_storable(pk):
        raise Invalid("cursor: use the value of `next` of the page before.")
    return moment, pk
