"""Whether those who were let in still may stay: for what outlives the request that opened it.

Owns what such a right hangs on, and looks at any number of them in three queries. Called by open sockets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.contrib.sessions.models import Session
from django.utils import timezone

from people.access import Actor
from people.errors import AppError, NotFound, Unauthenticated
from people.models import ApiToken, Membership


class Right(NamedTuple):
    """What let somebody in: a token, or a session and the entry of the membership it acts by."""

    token: str = ""
    session: str = ""
    entry: str = ""


def right_of(actor: Actor, session: str = "") -> Right:
    if actor.token is not None:
        return Right(token=actor.token.pk)
    assert actor.user is not None
    return Right(session=session, entry=actor.entry)


def ended(rights: Collection[Right]) -> dict[Right, AppError]:
    """Return those of them that hold no longer, each with the refusal that it would meet now."""
    shown, members = _tokens(rights) | _sessions(rights), _members(rights)
    found: dict[Right, AppError] = {}
    for right in rights:
        if (right.token or right.session) not in shown:
            found[right] = Unauthenticated()
        elif right.entry and right.entry not in members:
            found[right] = NotFound()
    return found


def _tokens(rights: Collection[Right]) -> set[str]:
    now = timezone.now()
    wanted = {right.token for right in rights if right.token}
    return {token.pk for token in ApiToken.objects.filter(pk__in=wanted) if token.is_current(now)}


def _sessions(rights: Collection[Right]) -> set[str]:
    wanted = {right.session for right in rights if right.session}
    live = Session.objects.filter(pk__in=wanted, expire_date__gt=timezone.now())
    return set(live.values_list("pk", flat=True))


def _members(rights: Collection[Right]) -> set[str]:
    """Return the entries in force of these rights.

    New rights give a membership another entry, which ends what was let in before.
    """
    wanted = {right.entry for right in rights if right.entry}
    current = Membership.objects.current(timezone.now())
    return set(current.filter(entry__in=wanted).values_list("entry", flat=True))
