"""Checks whether open sockets still have the rights they were opened with.

Owns what such a right depends on, and checks any number of them in three queries. Called by sockets that outlive their
request.
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
    """The credential of an open socket: a token, or a session and the entry of its membership."""

    token: str = ""
    session: str = ""
    entry: str = ""


def right_of(actor: Actor, session: str = "") -> Right:
    if actor.token is not None:
        return Right(token=actor.token.pk)
    assert actor.signed_in
    return Right(session=session, entry=actor.entry)


def ended(rights: Collection[Right]) -> dict[Right, AppError]:
    """Return the rights that no longer hold, each with its refusal."""
    shown, members = _tokens(rights) | _sessions(rights), _members(rights)
    refusals: dict[Right, AppError] = {}
    for right in rights:
        if (right.token or right.session) not in shown:
            refusals[right] = Unauthenticated()
        elif right.entry and right.entry not in members:
            refusals[right] = NotFound()
    return refusals


def _tokens(rights: Collection[Right]) -> set[str]:
    now = timezone.now()
    ids = {right.token for right in rights if right.token}
    return {token.pk for token in ApiToken.objects.filter(pk__in=ids) if token.is_current(now) and token.has_owner()}


def _sessions(rights: Collection[Right]) -> set[str]:
    ids = {right.session for right in rights if right.session}
    live = Session.objects.filter(pk__in=ids, expire_date__gt=timezone.now())
    return set(live.values_list("pk", flat=True))


def _members(rights: Collection[Right]) -> set[str]:
    """Return the current entries of these rights.

    New rights give a membership another entry, which ends earlier ones.
    """
    ids = {right.entry for right in rights if right.entry}
    current = Membership.objects.current(timezone.now())
    return set(current.filter(entry__in=ids).values_list("entry", flat=True))
