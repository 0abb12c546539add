"""What tests of notifications do with rows: send all that is due, and say how each stands."""

from __future__ import annotations

from django.utils import timezone

from notices.record import deliveries
from notices.record.deliveries import SendResult


def due(now=None):
    """Take everything that is due and say that it went well; what was told, in order."""
    told, now = [], now or timezone.now()
    while (step := deliveries.take(now))[0]:
        if step[1] is not None:
            deliveries.record_result(step[1], SendResult(True, "taken"))
            told.append(step[1])
    return told


def state(way):
    return [(row.state, row.words) for row in way.deliveries.order_by("created_at", "pk")]
