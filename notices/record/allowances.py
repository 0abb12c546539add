"""Writes: rate limits for what is sent to addresses that have not agreed to it yet.

Owns the limits and their counters. A counter belongs to a mailbox, a person or a project and outlives every
subscription, so that removing a channel and adding it again changes nothing. Of a mailbox only a keyed digest is
stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.encoding import punycode

from notices.errors import TooManySent
from notices.models import Allowance, Subscription

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PERIODS = {MINUTE: "minute", HOUR: "hour", DAY: "day"}


@dataclass(frozen=True)
class Limit:
    times: int
    within: timedelta

    def free_at(self, used_at: Sequence[datetime], now: datetime) -> datetime:
        """Return when the next use is within the limit."""
        recent = sorted(one for one in used_at if one > now - self.within)
        return recent[-self.times] + self.within if len(recent) >= self.times else now


PER_MAILBOX = (Limit(1, MINUTE), Limit(3, HOUR), Limit(6, DAY))
PER_PERSON = (Limit(5, HOUR), Limit(10, DAY))
PER_PROJECT = (Limit(30, HOUR), Limit(100, DAY))
TESTS = (Limit(30, HOUR),)


def spend_code(subscription: Subscription) -> None:
    """Count one mail with a code, or refuse it. Raises `TooManySent`."""
    _spend(
        {
            f"codes to {_mailbox(subscription.target)}": ("codes for this address", PER_MAILBOX),
            f"codes by {subscription.user_key}": ("codes requested by you", PER_PERSON),
            f"codes in {subscription.project_id}": ("codes in this project", PER_PROJECT),
        }
    )


def spend_test(subscription: Subscription) -> None:
    """Count one test, or refuse it. Raises `TooManySent`."""
    _spend({f"tests by {subscription.user_key}": ("tests", TESTS)})


def _mailbox(address: str) -> str:
    """Return one digest for all spellings that commonly reach one mailbox: case, dots, and a tag after a plus."""
    local, _, domain = address.rpartition("@")
    name = local.casefold().partition("+")[0].replace(".", "")
    return salted_hmac("notices.record.allowances", f"{name}@{punycode(domain).casefold()}").hexdigest()


def _spend(uses: Mapping[str, tuple[str, Sequence[Limit]]]) -> None:
    """Count one use on every counter, or none. The caller holds a transaction; counters are locked in one order."""
    Allowance.objects.bulk_create([Allowance(key=key) for key in sorted(uses)], ignore_conflicts=True)
    counters = list(Allowance.objects.select_for_update().filter(key__in=uses).order_by("key"))
    now = timezone.now()
    for counter in counters:
        what, limits = uses[counter.key]
        for limit in limits:
            left = limit.free_at(counter.used_at, now) - now
            if left > timedelta():
                per = f"{limit.times} per {PERIODS[limit.within]}"
                raise TooManySent(f"Too many {what} (at most {per}). Try again in {_in_words(left)}.")
    for counter in counters:
        counter.used_at = [*(one for one in counter.used_at if one > now - DAY), now]
        counter.last_at = now
        counter.save(update_fields=["used_at", "last_at"])


def _in_words(left: timedelta) -> str:
    seconds = math.ceil(left.total_seconds())
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds > 1.5 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{seconds} s"


def forget_old() -> None:
    """Remove expired counters."""
    Allowance.objects.filter(last_at__lt=timezone.now() - DAY).delete()
