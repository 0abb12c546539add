"""Reads: whether the author of a standing answer could still answer an ask in person.

A standing answer reaches no further than its author: their role or token is in force, and they have the skills.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from experts.models import BEFORE_PEOPLE, Ask, Desk, StandingAnswer
from experts.who.advisers import fits
from people.access import Actor, bearer, holds, may_advise, person
from people.models import ApiToken, Membership


def authors_of(standings: Iterable[StandingAnswer], now: datetime) -> dict[str, Actor]:
    """Return the author of each standing answer that is still in force, by its ID. Each is looked up once."""
    rows = list(standings)
    by_whom = {(one.author_key, one.token_id): one for one in rows}
    actors = {by: author_of(one, now) for by, one in by_whom.items()}
    return {row.pk: actor for row in rows if (actor := actors[row.author_key, row.token_id]) is not None}


def author_of(standing: StandingAnswer, now: datetime) -> Actor | None:
    """Return who gave a standing answer; None if they answer no asks anymore."""
    if standing.token is not None and not standing.token.is_current(now):
        return None
    kind, _, pk = standing.author_key.partition(":")
    actor = _member(standing, pk, now) if kind == "user" else _token(standing, pk, now) if kind == "token" else None
    return actor if actor is not None and holds(actor, may_advise) else None


def could_answer(author: Actor, ask: Ask, desk: Desk) -> bool:
    """Return whether an author could claim this ask. Tokens have no skills and answer every ask for people."""
    return bool({*ask.tiers} & {*BEFORE_PEOPLE}) and (author.person is None or fits(author, ask, desk))


def _member(standing: StandingAnswer, pk: str, now: datetime) -> Actor | None:
    rows = Membership.objects.current(now).select_related("project", "user")
    member = rows.filter(project=standing.project_id, user_id=pk).first()
    return person(member) if member is not None else None


def _token(standing: StandingAnswer, pk: str, now: datetime) -> Actor | None:
    token = ApiToken.objects.select_related("project").filter(project=standing.project_id, pk=pk).first()
    return bearer(token) if token is not None and token.is_current(now) and token.has_owner() else None
