"""The slot of work that one person holds for a time: claim, renew, let go; each is one conditional update.

Owns the columns of a slot and what they mean. Leaves who may claim, how long, and what is told to the apps whose slots
these are: asks in `experts`, reviews in `reviews`. No lock has to be released: a lease ends by its own time.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q, QuerySet

from people.access import Actor


class SlotState(models.TextChoices):
    QUEUED = "queued", "Queued"
    CLAIMED = "claimed", "Claimed"
    SUBMITTED = "submitted", "Submitted"
    VOID = "void", "Void"


OPEN = (SlotState.QUEUED, SlotState.CLAIMED)
FREED = {"state": SlotState.QUEUED, "holder": "", "holder_name": "", "lease_token": "", "lease_until": None}


class Slot(models.Model):
    """A slot of work. Each claim gets a new lease token; a lease ends by itself."""

    state = models.CharField(max_length=10, choices=SlotState.choices, default=SlotState.QUEUED)
    holder = models.CharField(max_length=160, blank=True)
    holder_name = models.CharField(max_length=160, blank=True)
    lease_token = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def is_held(self, now: datetime) -> bool:
        return self.state == SlotState.CLAIMED and self.lease_until is not None and self.lease_until > now


def free(now: datetime) -> Q:
    """Return slots that anyone can take: in the queue, or with a lease that has ended."""
    return Q(state=SlotState.QUEUED) | Q(state=SlotState.CLAIMED, lease_until__lte=now)


def claim(slots: QuerySet[Any], actor: Actor, now: datetime, until: datetime) -> dict[str, Any] | None:
    """Take the one slot of this queryset if it is free, expired or the actor's own; its new columns, or None.

    The queryset must ask for columns of its own table only: a join would become a sub-select, which is not looked at
    again after waiting for a row that someone else was just changing, and two would hold the slot.
    """
    token = secrets.token_urlsafe(24)
    mine = {"holder": actor.key, "holder_name": actor.name, "lease_token": token, "lease_until": until}
    mine |= {"state": SlotState.CLAIMED, "claimed_at": now}
    return mine if slots.filter(free(now) | Q(holder=actor.key), state__in=OPEN).update(**mine) == 1 else None


def held_with(slots: QuerySet[Any], token: str) -> QuerySet[Any]:
    """Return the slot while this lease counts: an expired one that no one else took counts."""
    return slots.filter(lease_token=token, state=SlotState.CLAIMED).exclude(lease_token="")


def renew(slots: QuerySet[Any], token: str, until: datetime) -> bool:
    return held_with(slots, token).update(lease_until=until) == 1


def let_go(slots: QuerySet[Any], token: str) -> bool:
    return held_with(slots, token).update(**FREED) == 1
