"""The slot of work that one person holds for a time: claim, renew, let go; each is one conditional update.

Leaves the columns of a slot to `slots.py`, and who may claim, for how long, to the apps whose slots these are. No lock
has to be released: a lease ends by its own time.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from people.access import Actor
from people.slots import FREED, OPEN, SlotState, is_free


def claim(slots: QuerySet[Any], actor: Actor, now: datetime, until: datetime) -> dict[str, Any] | None:
    """Take the one slot of this queryset if it is free, expired or the actor's own; its new columns, or None.

    The queryset must ask for columns of its own table only: a join would become a sub-select, which is not looked at
    again after waiting for a row that someone else was just changing, and two would hold the slot.
    """
    # a new token for each claim, so that a lease from before an expiry cannot be used again
    token = secrets.token_urlsafe(24)
    mine = {"holder": actor.key, "holder_name": actor.name, "lease_token": token, "lease_until": until}
    # `claimed_at` moves with a repeated claim: it is when this lease began
    mine |= {"state": SlotState.CLAIMED, "claimed_at": now}
    return mine if slots.filter(is_free(now) | Q(holder=actor.key), state__in=OPEN).update(**mine) == 1 else None


def held_with(slots: QuerySet[Any], token: str) -> QuerySet[Any]:
    """Return the slot while this lease counts: an expired one that no one else took counts."""
    return slots.filter(lease_token=token, state=SlotState.CLAIMED).exclude(lease_token="")


def renew(slots: QuerySet[Any], token: str, until: datetime) -> bool:
    return held_with(slots, token).update(lease_until=until) == 1


def let_go(slots: QuerySet[Any], token: str) -> bool:
    return held_with(slots, token).update(**FREED) == 1
