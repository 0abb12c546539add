"""Writes: place and release legal holds, and keep them still while something is erased.

Leaves which episodes a hold covers to `episodes/find/held.py`. Called by the page Retention, and by all that erases.
"""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from people.access import Actor, may_manage_projects, scoped, visible_or_404
from people.errors import Invalid, OnHold
from people.models import Hold, Project
from people.record.audit import record
from people.text.plain_text import is_storable

HOLDS = 0x686F6C64
"""The first number of the database's locks under which holds are placed and things are erased."""
REASON_MAX = 500


def in_force(project: Project) -> QuerySet[Hold]:
    return scoped(Hold.objects.filter(released_at=None), project).order_by("placed_at")


def guard(project: Project) -> None:
    """Keep holds from being placed until the end of the caller's transaction, which erases.

    Take it before other locks, and look for holds afterward: one that is placed later finds the erase committed.
    """
    with connection.cursor() as cursor:
        # shared: what erases waits for no other that erases
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, hashtext(%s))", [HOLDS, project.pk])


def refuse_on_hold(project: Project) -> None:
    """Raise `OnHold` if a whole project is held; the caller erases in this transaction."""
    guard(project)
    if (hold := in_force(project).filter(place=Hold.Place.PROJECT).first()) is not None:
        raise OnHold(words_of(hold))


def refuse_any_hold(project: Project) -> None:
    """Raise `OnHold` if anything of a project is held, for what goes through a whole project."""
    guard(project)
    if (hold := in_force(project).first()) is not None:
        raise OnHold(words_of(hold))


def words_of(hold: Hold) -> str:
    since = f"{hold.placed_at:%Y-%m-%d}"
    return (
        f"Legal hold on {hold} since {since} by {hold.placed_by}: {hold.reason} Nothing of it is erased. "
        "An admin can release it on the Retention page."
    )


@transaction.atomic
def place(actor: Actor, where: Hold.Place, reason: str, *, subject: str = "", name: str = "", query: str = "") -> Hold:
    """Place a hold. What erases now ends first; what begins later finds the hold. Also in an archived project."""
    may_manage_projects(actor)
    words = " ".join(reason.split())
    if not words or len(words) > REASON_MAX or not is_storable(words):
        raise Invalid(f"Enter a reason of 1 to {REASON_MAX} characters.")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [HOLDS, actor.project.pk])
    same = in_force(actor.project).filter(place=where, subject=subject, query=query).first()
    if same is not None:
        raise Invalid(f"A hold on {same} is in force already.")
    about = {"place": where, "subject": subject, "name": name, "query": query}
    hold = Hold.objects.create(project=actor.project, reason=words, placed_by=actor.name, **about)
    record(actor, "hold.placed", subject or actor.project.slug, words)
    return hold


@transaction.atomic
def release(actor: Actor, hold_id: str) -> Hold:
    """Release a hold. The next pass of the rules can erase what it covered."""
    may_manage_projects(actor)
    hold = visible_or_404(Hold.objects.select_for_update(), actor, hold_id)
    if hold.released_at is None:
        hold.released_at, hold.released_by = timezone.now(), actor.name
        hold.save(update_fields=["released_at", "released_by"])
        record(actor, "hold.released", hold.subject or actor.project.slug, hold.reason)
    return hold
