"""Reads: how far back a list looks in a project of any size.

Owns the bound. An index finds the newest matches of some filters among all episodes. For any other, a match can be
anywhere: in a large project the list looks for it among the newest episodes, says so, and offers the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from awmclient.schema import LIVE_STATES
from episodes.models import Episode
from people.access import scoped
from people.models import Project

LOOKED = 20_000
"""The newest episodes in which a list without an index for its filters looks."""
INDEXED: tuple[set[str], ...] = (set(), {"state"}, {"scenario"}, {"scenario", "task_idx"})
"""Filters with an index from the newest match on."""


@dataclass(frozen=True)
class Window:
    """The newest episodes: all that were created after a moment, none of which has an ID before `first`."""

    after: datetime
    first: str


def window_of(project: Project) -> Window | None:
    """Return the newest `LOOKED` episodes; None in a project without more."""
    newest = scoped(Episode.objects.all(), project).order_by("-created_at", "-pk")
    # one more: its moment is outside, and so are all episodes of the same moment
    facts = newest[: LOOKED + 1].aggregate(after=Min("created_at"), first=Min("pk"), size=Count("pk"))
    return Window(facts["after"], facts["first"]) if facts["size"] > LOOKED else None


def has_index(filters: Mapping[str, Sequence[str]]) -> bool:
    """Return whether these filters find their newest matches among all episodes, whatever their number."""
    if filters.get("q"):
        return False
    # a run has its own episodes, and live ones are few
    is_few = bool(filters.get("run")) or ("state" in filters and set(filters["state"]) <= set(LIVE_STATES))
    return is_few or {name for name, values in filters.items() if values} in INDEXED
