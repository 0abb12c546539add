"""The bar and its two menus: every page of awmweb that a link leads to, and the place that each page is part of.

Owns the table. Work is in the bar, settings in a menu of their own, and the person's own things below their picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from people.requests import addresses


@dataclass(frozen=True)
class Entry:
    """A link by its page's name in `urls.py`. `within` are pages that are part of it; `needs` is a right of `shell`."""

    page: str
    label: str
    glyph: str = ""
    within: tuple[str, ...] = ()
    needs: str = ""


@dataclass(frozen=True)
class Link:
    """An entry as one page shows it."""

    label: str
    glyph: str
    url: str
    is_here: bool


WORK = (
    Entry("home", "Home", "i-now"),
    Entry("queue", "Queue", "a-open", ("ask",)),
    Entry(
        *("episodes", "Episodes", "i-rows"),
        ("episode", "replay", "compare_episodes", "label_episodes", "import", "imports", "fork_form", "fork", "tree")
        + ("wheel", "play_episode", "proof"),
    ),
    Entry(
        *("reviews", "Review", "i-pen"),
        ("review", "review_queue", "add_to_queue", "court", "case", "agreement", "labels", "mentions", "comment")
        + ("verifier",),
        "reviews",
    ),
    Entry("runs", "Runs", "i-pair", ("run", "campaigns", "campaign", "briefings", "briefing")),
    Entry("curriculum", "Curriculum", "i-levels"),
    Entry("metrics", "Metrics", "i-bars"),
    Entry("exports", "Exports", "i-out", ("export", "compare_exports"), "exports"),
)
SETTINGS = {
    "Project": (
        Entry("connect", "Connect"),
        Entry("desk", "Routing"),
        Entry("people", "Members"),
        Entry("tokens", "API tokens"),
        Entry("retention", "Retention", needs="audits"),
        Entry("audit", "Audit", needs="audits"),
    ),
    "Installation": (
        Entry("projects", "Projects"),
        Entry("models", "Models", needs="runs_it"),
        Entry("environment", "Environment"),
    ),
    "Help": (Entry("legend", "Legend"),),
}
MINE = (
    Entry("my_answers", "My answers", needs="me"),
    Entry("notices", "Notifications", needs="me"),
    Entry("second_factor", "Second factor", needs="has_factors"),
)
OUTSIDE = frozenset({"projects"})
"""Pages that belong to no project."""


def places(request: HttpRequest, shell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the links that this person has, with the place of this page marked."""
    match = request.resolver_match
    here = (match.url_name or "") if match else ""

    def links(entries: tuple[Entry, ...]) -> list[Link]:
        return [
            Link(entry.label, entry.glyph, _address(entry.page), here in (entry.page, *entry.within))
            for entry in entries
            if not entry.needs or shell[entry.needs]
        ]

    settings = {title: links(entries) for title, entries in SETTINGS.items()}
    return {
        "work": links(WORK),
        "settings": settings,
        "in_settings": any(link.is_here for group in settings.values() for link in group),
        "mine": links(MINE),
    }


def _address(page: str) -> str:
    return addresses.without_project(page) if page in OUTSIDE else reverse(page)
