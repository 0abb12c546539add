"""Decisions from numbers alone: by when an ask must be answered, how long a lease lasts. Pure, clock passed in."""

from __future__ import annotations

from datetime import datetime, timedelta

LEASE = timedelta(seconds=90)


def deadline(now: datetime, deadline_s: int) -> datetime:
    return now + timedelta(seconds=deadline_s)


def lease_end(now: datetime, deadline_at: datetime) -> datetime:
    """A lease never outlives the ask's deadline: beyond it there is nothing left to answer."""
    return min(now + LEASE, deadline_at)
