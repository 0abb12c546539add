"""Writes: saved views of a list. A view is a named query string, for its author or for the whole project.

Each app has its own model with the same columns and decides who can remove shared views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from people.access import Actor, scoped, visible_or_404
from people.errors import Invalid
from people.record.audit import record

NAME_MAX, VIEWS_MAX, QUERY_MAX = 60, 50, 4000
V = TypeVar("V", bound=Model)


@dataclass(frozen=True)
class SavedViews(Generic[V]):
    """The saved views of one list. `may_save` is the right to have some, `may_direct` to remove shared ones."""

    rows: Callable[[], QuerySet[V]]
    may_save: Callable[[Actor], object]
    may_direct: Callable[[Actor], object]

    def of(self, actor: Actor) -> QuerySet[V]:
        """Return a person's own views and shared ones."""
        seen = self.rows().filter(Q(author_key=actor.key) | Q(shared=True))
        return scoped(seen, actor.project).order_by("shared", "name", "pk")

    def save(self, actor: Actor, name: str, query: str, *, shared: bool) -> V:
        """Save a view under a name, replacing one with the same name."""
        self.may_save(actor)
        name = " ".join(name.split())
        if not 0 < len(name) <= NAME_MAX or "\x00" in name:
            raise Invalid(f"Enter a name with 1 to {NAME_MAX} characters.")
        if len(query) > QUERY_MAX:
            raise Invalid(f"The filters have more than {QUERY_MAX:,} characters.")
        mine = scoped(self.rows().filter(author_key=actor.key), actor.project)
        # At the limit a view can still be replaced.
        if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
            raise Invalid(f"You have {VIEWS_MAX} saved views (the maximum). Remove one first.")
        fields = {"query": query, "shared": shared, "author": actor.name}
        return mine.update_or_create(project=actor.project, author_key=actor.key, name=name, defaults=fields)[0]

    def remove(self, actor: Actor, view_id: str) -> None:
        """Remove one's own view, or with the right to direct a shared one."""
        self.may_save(actor)
        view = visible_or_404(self.of(actor), actor, view_id)
        if not actor.owns(view.author_key):  # type: ignore[attr-defined]
            self.may_direct(actor)
            record(actor, "view.removed", view.name, f"of {view.author}")  # type: ignore[attr-defined]
        view.delete()
