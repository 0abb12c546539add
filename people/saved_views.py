"""Writes: saved views of a list. A view is a query string with a name, for its author or for everyone in the project.

Each app has a model of its own with the same columns; who may remove what others share is the app's right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from people.access import Actor, scoped, visible_or_404
from people.errors import Invalid

NAME_MAX, VIEWS_MAX, QUERY_MAX = 60, 50, 4000
V = TypeVar("V", bound=Model)


@dataclass(frozen=True)
class SavedViews(Generic[V]):
    """The saved views of one list: `may_save` is the right to have some, `may_direct` to remove what others share."""

    rows: Callable[[], QuerySet[V]]
    may_save: Callable[[Actor], object]
    may_direct: Callable[[Actor], object]

    def of(self, actor: Actor) -> QuerySet[V]:
        """Return one's own views, and those that others share."""
        seen = self.rows().filter(Q(author_key=actor.key) | Q(shared=True))
        return scoped(seen, actor.project).order_by("shared", "name", "pk")

    def save(self, actor: Actor, name: str, query: str, *, shared: bool) -> V:
        """Save a view under a name; the same name again replaces the view."""
        self.may_save(actor)
        name = " ".join(name.split())
        if not 0 < len(name) <= NAME_MAX or "\x00" in name:
            raise Invalid(f"Enter a name with 1 to {NAME_MAX} characters.")
        if len(query) > QUERY_MAX:
            raise Invalid(f"The filters have more than {QUERY_MAX:,} characters.")
        mine = scoped(self.rows().filter(author_key=actor.key), actor.project)
        if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
            raise Invalid(f"You have {VIEWS_MAX} saved views (the maximum). Remove one first.")
        said = {"query": query, "shared": shared, "author": actor.name}
        return mine.update_or_create(project=actor.project, author_key=actor.key, name=name, defaults=said)[0]

    def remove(self, actor: Actor, view_id: str) -> None:
        """Remove a view of one's own, or, with the right to direct, one that another shares."""
        self.may_save(actor)
        view = visible_or_404(self.of(actor), actor, view_id)
        if view.author_key != actor.key:  # type: ignore[attr-defined]
            self.may_direct(actor)
        view.delete()
