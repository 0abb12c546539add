"""Writes: saved views of the list of episodes. A view is a query string with a name."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from episodes.models import SavedView
from people.access import Actor, may_launch, may_read, scoped, visible_or_404
from people.errors import Invalid

NAME_MAX, VIEWS_MAX, QUERY_MAX = 60, 50, 4000


def views_of(actor: Actor) -> QuerySet[SavedView]:
    """Return one's own views, and those that others share."""
    seen = SavedView.objects.filter(Q(author_key=actor.key) | Q(shared=True))
    return scoped(seen, actor.project).order_by("name", "pk")


def save(actor: Actor, name: str, query: str, *, shared: bool) -> SavedView:
    """Save a view under a name; the same name again replaces the view."""
    may_read(actor)
    name = " ".join(name.split())
    if not 0 < len(name) <= NAME_MAX or "\x00" in name:
        raise Invalid(f"Enter a name with 1 to {NAME_MAX} characters.")
    if len(query) > QUERY_MAX:
        raise Invalid(f"The filters have more than {QUERY_MAX:,} characters.")
    mine = scoped(SavedView.objects.filter(author_key=actor.key), actor.project)
    if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
        raise Invalid(f"You have {VIEWS_MAX} saved views (the maximum). Remove one first.")
    said = {"query": query, "shared": shared, "author": actor.name}
    return mine.update_or_create(project=actor.project, author_key=actor.key, name=name, defaults=said)[0]


def remove(actor: Actor, view_id: str) -> None:
    """Remove a view: one's own, or, with the right to launch, one that is shared."""
    view = visible_or_404(views_of(actor), actor, view_id)
    if view.author_key != actor.key:
        may_launch(actor)
    view.delete()
