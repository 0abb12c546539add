"""Reads: channels of notifications that fail, for those who run the installation.

A push that ended is left out: only its owner can turn it on again, on that device. Registered with `people.operating`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile

from notices.models import Channel, Delivery, DeliveryState, SlackChannel, Subscription
from people.access import Actor, scoped
from people.models import display_name
from people.operating import RECENT, Need
from people.text.in_words import count

LOOKED = 200
"""The newest results that are read."""


def channels(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield channels that were given up, and each kind of channel whose newest result is a failure."""
    own = [kind for kind in Channel if kind.is_mended_by_owner]
    mine = scoped(Subscription.objects.current(), actor.project).exclude(kind__in=own)
    for channel in mine.exclude(broken="").select_related("user").order_by("pk"):
        yield Need(
            f"{channel.get_kind_display()} notifications of {display_name(channel.user)}", channel.broken, page="people"
        )
    shared = scoped(SlackChannel.objects.filter(ended_at=None), actor.project).exclude(broken="")
    for place in shared.order_by("pk"):
        yield Need(f"Slack channel {place.target}", place.broken, page="notices")
    rows = Delivery.objects.filter(subscription__in=mine.filter(broken=""), ended_at__gt=now - RECENT)
    ended = rows.filter(state__in=[DeliveryState.SENT, DeliveryState.FAILED]).select_related("subscription")
    by_kind: dict[str, list[Delivery]] = {}
    for result in ended.order_by("-ended_at")[:LOOKED]:
        by_kind.setdefault(result.subscription.kind, []).append(result)
    for kind, results in sorted(by_kind.items()):
        # those since the last one that arrived
        failed = list(takewhile(lambda delivery: delivery.state == DeliveryState.FAILED, results))
        if failed:
            why = f"{count(len(failed), 'notification')} failed: {failed[0].words}"
            yield Need(f"{Channel(kind).label} notifications", why, failed[0].ended_at)
