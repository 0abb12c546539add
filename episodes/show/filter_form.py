"""Reads: the form that chooses episodes by filters: those in use, the others with their counts, search and days.

Owns what the form holds, for the list of episodes and for every page that takes the same filters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from episodes.find import facets, recent
from episodes.find.facets import Chip, Facet, ListCounts, ListQuery
from people.access import Actor
from people.text.zones import zone_name

DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
NO_MATCH = "No episodes match."


@dataclass(frozen=True)
class FilterForm:
    """What episodes are filtered by, and the form that changes it. `hidden` fields are shown elsewhere."""

    chips: list[Chip]
    facets: list[Facet]
    days: dict[str, str]
    zone: str
    hidden: list[tuple[str, str]]

    @property
    def has_days(self) -> bool:
        return any(self.days.values())


def filter_form(actor: Actor, wish: ListQuery, sieve: list[Facet], zone: tzinfo) -> FilterForm:
    days = {name: _day(wish, name) for name in ("since", "until")}
    others = [(name, one) for name, values in wish.without("q").items() for one in values if one != days.get(name)]
    looks = [(name, values[0]) for name, values in wish.looks.items()]
    return FilterForm(facets.chips(actor.project, wish), sieve, days, zone_name(zone), [*looks, *others])


def _day(wish: ListQuery, name: str) -> str:
    """Return the first plain date of a filter, for its field; times from the API are shown as chips only."""
    return next((value for value in wish.said.get(name, []) if DAY.fullmatch(value)), "")


def match_line(counted: ListCounts, among: Sequence[str] = ()) -> str:
    """Return how many episodes match; `among` are the words for all that could, and whether that is one."""
    count = len(counted.ids)
    if count > facets.COUNTED:
        return f"More than {facets.COUNTED:,} episodes match."
    match = "episode matches" if count == 1 else "episodes match"
    if counted.window is not None:
        return f"{f'{count:,}' if count else 'No'} {match} among the newest {recent.LOOKED:,}."
    if not count:
        return NO_MATCH
    return f"{count:,} of {among[0]} {among[1]}." if among else f"{count:,} {match}."
