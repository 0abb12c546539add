"""Reads: the orders of the list of episodes, with pages by key in both directions.

Owns what each order sorts by. Leaves filters to `narrowing.py`. Called by the list's page.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, FloatField, Func, Q, QuerySet, Value
from django.db.models.functions import Cast, Coalesce, Extract, Length

from episodes.models import Episode
from episodes.stored.strip import ACTIONS, ASKS
from people.errors import Invalid
from people.plain_text import is_storable

NEWEST = "-started"
ORDERS = {
    **{NEWEST: "Newest first", "started": "Oldest first", "-length": "Longest first", "length": "Shortest first"},
    **{"-asks": "Most asks first", "asks": "Fewest asks first"},
    **{"-duration": "Slowest first", "duration": "Fastest first"},
}
LAST = 1e15
"""The value of an episode that has none, away from zero: it comes last in both directions."""


@dataclass(frozen=True)
class ListPage:
    """One page of a list: its episodes in order, and the cursors of the pages before and after it; "" at an end."""

    ids: list[str]
    before: str
    after: str


def _letters(codes: Sequence[str]) -> Any:
    """Return the number of steps with one of these letters."""
    rest = Func(F("strip"), Value("".join(codes)), Value(""), function="translate")
    return Cast(Length("strip") - Length(rest), FloatField())


def _value(order: str) -> Any:
    name, is_down = order.removeprefix("-"), order.startswith("-")
    if name == "duration":  # of an ended one: that of a live one changes between two pages
        took = Cast(Extract(F("ended_at") - F("started_at"), "epoch"), FloatField())
        return Coalesce(took, Value(-LAST if is_down else LAST))
    return {"length": _letters(ACTIONS), "asks": _letters(ASKS)}.get(name, Value(0.0, output_field=FloatField()))


def page(rows: QuerySet[Episode], order: str, cursor: str, limit: int) -> ListPage:
    """Return one page of these episodes; equal ones go by time and ID. Rows that are added meanwhile shift no page.

    Raises:
        Invalid: the order or the cursor is unknown.

    """
    if order not in ORDERS:
        raise Invalid(f"Unknown order: {order[:40]}. Use one of {', '.join(ORDERS)}.")
    place = _read(cursor) if cursor else None
    is_back = place is not None and place.is_back
    is_down = order.startswith("-") != is_back
    rows = rows.annotate(by=_value(order))
    if place is not None:
        rows = rows.filter(_beyond("lt" if is_down else "gt", place))
    sign = "-" if is_down else ""
    found = list(
        rows.order_by(*(f"{sign}{name}" for name in ("by", "created_at", "pk"))).values_list(*_KEY)[: limit + 1]
    )
    more, found = len(found) > limit, found[:limit]
    if is_back:
        found.reverse()
    before = more if is_back else place is not None
    after = is_back or more
    return ListPage(
        [pk for _, _, pk in found],
        _cursor(found[0], is_back=True) if before and found else "",
        _cursor(found[-1], is_back=False) if after and found else "",
    )


_KEY = ("by", "created_at", "pk")


@dataclass(frozen=True)
class _Place:
    is_back: bool
    by: float
    at: datetime
    pk: str


def _beyond(side: str, place: _Place) -> Q:
    later = Q(**{f"created_at__{side}": place.at}) | Q(created_at=place.at, **{f"pk__{side}": place.pk})
    return Q(**{f"by__{side}": place.by}) | (Q(by=place.by) & later)


def _cursor(row: tuple[float, datetime, str], *, is_back: bool) -> str:
    by, at, pk = row
    words = json.dumps([is_back, by, at.isoformat(), pk])
    return base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")


def _read(cursor: str) -> _Place:
    try:
        is_back, by, at, pk = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = _Place(bool(is_back), float(by), datetime.fromisoformat(at).astimezone(UTC), str(pk))
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        place = None
    if place is None or not is_storable(place.pk) or abs(place.by) > LAST:
        raise Invalid("This page of the list does not exist. Go to its first page.")
    return place
