"""Claim, renew and release a slot of work, each by one conditional update.

Leaves the columns of a slot to `slots.py`, and who can claim it for how long to the apps. No lock needs releasing: a
lease ends by its own time.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from people.access import Actor
from people.slots import FREED, OPEN, SlotState, is_free


def claim(
    slots: QuerySet[Any], actor: Actor, now: datetime, until: datetime, *, own: bool = True
) -> dict[str, Any] | None:
    """Claim the slot of this queryset if it is free, expired or the actor's own. Return its new columns, or None.

    Without `own`, a slot that the actor holds is not claimed again.

    The queryset must filter on columns of its own table only. A join would become a sub-select, which is not evaluated
    again after waiting for a row that someone else was changing, so two callers could hold the slot.
    """
    # a new token for each claim, so that a lease from before an expiry cannot be used again
    token = secrets.token_urlsafe(24)
    mine = {"holder": actor.key, "holder_name": actor.name, "lease_token": token, "lease_until": until}
    # `claimed_at` moves with a repeated claim: it is when this lease began
    mine |= {"state": SlotState.CLAIMED, "claimed_at": now}
    free = is_free(now) | Q(holder=actor.key) if own else is_free(now)
    return mine if slots.filter(free, state__in=OPEN).update(**mine) == 1 else None


def held_with(slots: QuerySet[Any], token: str) -> QuerySet[Any]:
    """Return the slot while this lease counts: an expired one that no one else took counts."""
    # A freed slot has an empty token, which must not match a caller without one.
    return slots.filter(lease_token=token, state=SlotState.CLAIMED).exclude(lease_token="")


def renew(slots: QuerySet[Any], token: str, until: datetime) -> bool:
    return held_with(slots, token).update(lease_until=until) == 1


def release(slots: QuerySet[Any], token: str) -> bool:
    return held_with(slots, token).update(**FREED) == 1
