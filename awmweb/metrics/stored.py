"""Reads what the database knows: open asks, their waits, leases, live episodes. Each statement reads live rows only,
never history, so a scrape costs the same after a year."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.models import Episode
from experts.models import Ask, Assignment, Tier
from people.models import Project
from people.slots import SlotState
from reviews.models import ReviewSlot

FRESH_S = 3.0
"""For so long a web process repeats what it read: frequent scrapes cost the database nothing."""
MOST_PROJECTS = 500
"""Projects with figures of their own, the oldest first; the others are one."""
OTHERS = "(others)"
Series = dict[tuple[str, ...], float]


@dataclass(frozen=True)
class Figure:
    """One measure with its values by label: of now, or counted."""

    name: str
    words: str
    labels: tuple[str, ...]
    series: Series
    is_counter: bool = False


@dataclass(frozen=True)
class Histogram:
    """Seconds by label: how many fell below each bound and above the last one, and their sum."""

    name: str
    words: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    series: Mapping[tuple[str, ...], tuple[list[float], float]]


class LastScrape:
    """The last figures of this process. Of several scrapes at one moment one reads."""

    def __init__(self, read: Callable[[], list[Figure | Histogram]], fresh_s: float = FRESH_S) -> None:
        self._read, self._fresh_s = read, fresh_s
        self._lock = threading.Lock()
        self._figures: list[Figure | Histogram] = []
        self._until = 0.0

    def figures(self) -> list[Figure | Histogram]:
        with self._lock:
            if time.monotonic() >= self._until:
                self._figures = self._read()
                self._until = time.monotonic() + self._fresh_s
            return self._figures


def read() -> list[Figure | Histogram]:
    """Return the figures, in five statements."""
    now, projects = timezone.now(), Projects()
    return [*_asks(projects, now), _leases(projects, now), _episodes(projects)]


class Projects:
    """The names that rows are counted under."""

    def __init__(self) -> None:
        rows = Project.objects.order_by("created_at", "pk").values_list("pk", "slug")
        self._names = dict(rows[:MOST_PROJECTS])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.values())

    def name(self, project_id: str) -> str:
        return self._names.get(project_id, OTHERS)


def _asks(projects: Projects, now: datetime) -> list[Figure]:
    rows = Ask.objects.open().order_by().values("project", "tier")
    rows = rows.annotate(n=Count("pk"), oldest=Min("created_at"), late=Count("pk", filter=Q(deadline_at__lte=now)))
    # Zero where nothing waits: a figure that is missing starts no alarm and stops none.
    depth: Series = {(name,): 0.0 for name in projects}
    tiers: Series = {(name, tier): 0.0 for name in projects for tier in Tier.values}
    oldest, late = depth.copy(), depth.copy()
    for row in rows:
        name = projects.name(row["project"])
        _add(depth, (name,), row["n"])
        _add(tiers, (name, row["tier"]), row["n"])
        _add(late, (name,), row["late"])
        oldest[name,] = max(oldest.get((name,), 0.0), (now - row["oldest"]).total_seconds())
    return [
        Figure("awmweb_asks_open", "Asks without an answer.", ("project",), depth),
        Figure("awmweb_asks_open_by_tier", "The same, by who is to answer now.", ("project", "tier"), tiers),
        Figure("awmweb_asks_oldest_wait_seconds", "Wait of the oldest open ask.", ("project",), oldest),
        Figure("awmweb_asks_overdue", "Open asks past their deadline, before the sweep.", ("project",), late),
    ]


def _leases(projects: Projects, now: datetime) -> Figure:
    held = Q(state=SlotState.CLAIMED, lease_until__gt=now)
    kinds: list[tuple[str, Any, str]] = [
        ("ask", Assignment.objects, "ask__project"),
        ("review", ReviewSlot.objects, "queue__project"),
    ]
    series: Series = {(name, kind): 0.0 for name in projects for kind, _, _ in kinds}
    for kind, slots, project in kinds:
        for row in slots.filter(held).order_by().values(project).annotate(n=Count("pk")):
            _add(series, (projects.name(row[project]), kind), row["n"])
    return Figure("awmweb_leases_held", "Asks and reviews that someone works on.", ("project", "kind"), series)


def _episodes(projects: Projects) -> Figure:
    series: Series = {(name, str(state)): 0.0 for name in projects for state in LIVE_STATES}
    rows = Episode.every.live().order_by().values("project", "state").annotate(n=Count("pk"))
    for row in rows:
        _add(series, (projects.name(row["project"]), row["state"]), row["n"])
    words = "Episodes that have not ended: queued, running, waiting or parked."
    return Figure("awmweb_episodes_live", words, ("project", "state"), series)


def _add(series: Series, labels: tuple[str, ...], more: float) -> None:
    series[labels] = series.get(labels, 0.0) + more
