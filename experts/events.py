"""The queue's live hints: one frame per change of an ask, for the queue page, the header and waiting loops.

Owns the words of the ask frame; publishes through `episodes.events`, the only publisher.
"""

from __future__ import annotations

from django.utils import timezone

from episodes import events
from experts.models import Ask


def ask_topic(ask_id: str) -> str:
    return f"ask:{ask_id}"


def tell(ask: Ask) -> None:
    """Tell the queue of the project, the episode's page, and whoever waits for this ask."""
    frame: events.Frame = {
        "type": "ask",
        "ask": ask.pk,
        "episode": ask.episode_id,
        "seq": ask.seq,
        "status": ask.status,
        "deadline_at": events.stamp(ask.deadline_at),
        "delivered_at": events.stamp(ask.delivered_at) if ask.delivered_at else None,
        "consumed_at": events.stamp(ask.consumed_at) if ask.consumed_at else None,
        **_holder(ask),
    }
    events.publish(events.queue_topic(ask.project_id), frame)
    events.publish(events.people_topic(ask.episode_id), frame)
    events.publish(ask_topic(ask.pk), {"type": "ask", "ask": ask.pk, "status": ask.status})


def _holder(ask: Ask) -> dict[str, str | None]:
    held = ask.assignment if ask.assignment.is_held(timezone.now()) else None
    until = events.stamp(held.lease_until) if held is not None else None
    return {"held_by": held.holder_name if held is not None else None, "lease_until": until}
