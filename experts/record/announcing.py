"""Writes: an ask arrives at a tier: pages, people with a channel and models hear of it.

Leaves the choice of the tier to `who/placing.py` and `queue.py`. Called with the ask at its tier, in the transaction
that set it.
"""

from __future__ import annotations

from experts import events, notifications
from experts.models import BEFORE_PEOPLE, Ask, Tier
from notices.record import channels, deliveries


def toward(ask: Ask) -> str:
    """Return the log's verb for the ask's current tier. The human budget counts `to_people`."""
    return "to_people" if ask.tier in BEFORE_PEOPLE and ask.tiers else f"to_{ask.tier}"


def tell_or_wake(ask: Ask, is_listened: bool = True) -> None:
    events.tell(ask)
    if is_listened and ask.tier in BEFORE_PEOPLE:
        subject = notifications.AskSubject(ask)
        deliveries.queue_for(subject)
        channels.queue_for(subject)
    if ask.tier == Tier.LLM:
        events.call_models()
