"""Reads: the orders of the list of episodes, with pages by key in both directions.

Owns what each order sorts by. Values that other apps know are registered in `AppConfig.ready()`. Leaves filters to
`narrowing.py`. Called by the list's page.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Exists, F, Func, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Cast
from django.db.models.lookups import GreaterThan, LessThan

from awmclient.schema import LIVE_STATES
from episodes.models import ENDED_STATES, LAST, SORTED_BY, Episode
from people.access import Actor
from people.errors import Invalid
from people.text.plain_text import is_storable

NEWEST = "-started"
ORDERS = {
    **{NEWEST: "Newest first", "started": "Oldest first", "-length": "Longest first", "length": "Shortest first"},
    **{"-asks": "Most asks first", "asks": "Fewest asks first"},
    **{"-duration": "Slowest first", "duration": "Fastest first"},
    **{"-waited": "Longest wait first", "waited": "Shortest wait first"},
    **{"-verdict": "Accepted first", "verdict": "Rejected first"},
}


@dataclass(frozen=True)
class Beside:
    """What another app knows to sort by: its rows, each with an `episode`, and a number over those of one."""

    rows: QuerySet[Any]
    by: Any


_sources: dict[str, Callable[[Actor], Beside]] = {}


def register(name: str, source: Callable[[Actor], Beside]) -> None:
    """Register what a name of `ORDERS` sorts by, as far as an actor sees it."""
    _sources[name] = source


@dataclass(frozen=True)
class ListPage:
    """One page of a list: its episodes in order, and the cursors of the pages before and after it; "" at an end."""

    ids: list[str]
    before: str
    after: str


def page(actor: Actor, rows: QuerySet[Episode], order: str, cursor: str, limit: int) -> ListPage:
    """Return one page of these episodes; equal ones go by time and ID. Rows that are added meanwhile shift no page.
    Episodes without a value come last in both directions.

    Raises:
        Invalid: the order or the cursor is unknown.

    """
    if order not in ORDERS:
        raise Invalid(f"Unknown order: {order[:40]}. Use one of {', '.join(ORDERS)}.")
    place = _read_cursor(cursor) if cursor else None
    is_back = place is not None and place.is_back
    is_down = order.startswith("-") != is_back
    name = order.removeprefix("-")
    value = SORTED_BY.get(order, SORTED_BY.get(name))
    if name in _sources:
        none = -LAST if order.startswith("-") else LAST
        keys = _first_beside(rows, _sources[name](actor), none, place, is_down, limit)
    elif value is None:
        keys = _first(rows, None, place, is_down, limit)
    else:
        # the indexes hold ended episodes; live ones are few
        parts = (rows.filter(state__in=states) for states in (ENDED_STATES, LIVE_STATES))
        keys = [row for part in parts for row in _first(part, value, place, is_down, limit)]
        keys = sorted(keys, reverse=is_down)
    more, keys = len(keys) > limit, keys[:limit]
    if is_back:
        keys.reverse()
    before = more if is_back else place is not None
    after = is_back or more
    return ListPage(
        [pk for _, _, pk in keys],
        _cursor(keys[0], is_back=True) if before and keys else "",
        _cursor(keys[-1], is_back=False) if after and keys else "",
    )


def _first(
    rows: QuerySet[Episode], value: Any, place: _Place | None, is_down: bool, limit: int
) -> list[tuple[float, datetime, str]]:
    """Return the keys of one more row than a page has, from a place on."""
    key = [value] * (value is not None) + [F("created_at"), F("pk")]
    if place is not None:
        # compared as one row, so that an index leads to the place
        there = _parts_of(place)[-len(key) :]
        rows = rows.filter((LessThan if is_down else GreaterThan)(_row(key), _row(there)))
    ordered = rows.order_by(*(one.desc() if is_down else one.asc() for one in key))
    by = Value(0.0) if value is None else value
    return list(ordered.annotate(by=by).values_list("by", "created_at", "pk")[: limit + 1])


def _first_beside(
    rows: QuerySet[Episode], values: Beside, none: float, place: _Place | None, is_down: bool, limit: int
) -> list[tuple[float, datetime, str]]:
    """Return the keys of one more row than a page has, by values of another app: those with one, then the others."""
    is_back, is_past = place is not None and place.is_back, place is not None and place.by == none
    page_keys: list[tuple[float, datetime, str]] = []
    if is_back or not is_past:
        grouped = values.rows.filter(episode__in=rows.order_by().values("pk")).order_by()
        grouped = grouped.values("episode_id", "episode__created_at").annotate(by=values.by)
        key = [F("by"), F("episode__created_at"), F("episode_id")]
        if place is not None:
            grouped = grouped.filter((LessThan if is_down else GreaterThan)(_row(key), _row(_parts_of(place))))
        ordered = grouped.order_by(*(one.desc() if is_down else one.asc() for one in key))
        page_keys += ordered.values_list("by", "episode__created_at", "episode_id")[: limit + 1]
    if is_past or not is_back:
        others = rows.exclude(Exists(values.rows.filter(episode=OuterRef("pk"))))
        keys = _first(others, None, place if is_past else None, is_down, limit)
        page_keys += [(none, at, pk) for _, at, pk in keys]
    return sorted(page_keys, reverse=is_down)


def _row(parts: list[Any]) -> Func:
    return Func(*parts, function="ROW", output_field=TextField())


@dataclass(frozen=True)
class _Place:
    is_back: bool
    by: float
    at: datetime
    pk: str


def _parts_of(place: _Place) -> list[Any]:
    # PostgreSQL gives a text in a row no type of its own
    return [Value(place.by), Value(place.at), Cast(Value(place.pk), TextField())]


def place_of(cursor: str) -> str:
    """Return the ID of the episode beside which a page begins. Raises `Invalid` for an unknown cursor."""
    return _read_cursor(cursor).pk


def _cursor(row: tuple[float, datetime, str], *, is_back: bool) -> str:
    by, at, pk = row
    words = json.dumps([is_back, by, at.isoformat(), pk])
    return base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> _Place:
    try:
        is_back, by, at, pk = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = _Place(bool(is_back), float(by), datetime.fromisoformat(at).astimezone(UTC), str(pk))
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        place = None
    if place is None or not is_storable(place.pk) or abs(place.by) > LAST:
        raise Invalid("This page of the list does not exist. Go to its first page.")
    return place
