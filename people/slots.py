"""A slot of work that one person holds for a time: its columns, its states, and when it is free.

Leaves the conditional updates that claim, renew and release one to `leasing.py`. Asks in `experts` and reviews in
`reviews` are such slots.
"""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q


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

    def has_lease(self, token: str) -> bool:
        """Return whether this lease counts: an expired one that no one else took counts."""
        # a freed slot has an empty token, which must not match a caller without one
        return self.state == SlotState.CLAIMED and self.lease_token == token != ""


def is_free(now: datetime) -> Q:
    """Return slots that anyone can claim: queued, or with an expired lease."""
    # `<=`, as `is_held` has `>`: at the moment of its end a lease holds no longer.
    return Q(state=SlotState.QUEUED) | Q(state=SlotState.CLAIMED, lease_until__lte=now)
