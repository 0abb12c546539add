"""The queue's live hints: one frame per change of an ask, for the queue page, the header and waiting loops.

Owns the words of the frames about asks and leases; publishes through `episodes.events`, the only publisher.
"""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from episodes import events
from experts import endings
from experts.models import Ask
from people import jobs

RENEWED_EVERY_S = 20
"""Well below the length of a lease less the pause between two renewals."""


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
        "tier": ask.tier,
        "deadline_at": events.stamp(ask.deadline_at),
        "delivered_at": events.stamp(ask.delivered_at) if ask.delivered_at else None,
        "consumed_at": events.stamp(ask.consumed_at) if ask.consumed_at else None,
        "ending": None if ask.is_open else endings.headline(ask),
        **_holder(ask),
    }
    events.publish(events.queue_topic(ask.project_id), frame)
    events.publish(events.people_topic(ask.episode_id), frame)
    events.publish(ask_topic(ask.pk), {"type": "ask", "ask": ask.pk, "status": ask.status})


def tell_renewed(ask: Ask, before: datetime, until: datetime) -> None:
    """Tell that a lease goes on. Told only often enough that no page sees the end of one that was renewed: however
    often it is, once in `RENEWED_EVERY_S`, and in one frame with all others of a moment.
    """
    if int(before.timestamp()) // RENEWED_EVERY_S != int(until.timestamp()) // RENEWED_EVERY_S:
        frame = {"type": "lease", "ask": ask.pk, "lease_until": events.stamp(until)}
        events.publish(events.queue_topic(ask.project_id), frame)


def tell_draft(ask: Ask) -> None:
    """Tell that a model's draft is ready, or will not come; agents never hear of drafts."""
    frame: events.Frame = {"type": "draft", "ask": ask.pk, "episode": ask.episode_id}
    events.publish(events.queue_topic(ask.project_id), frame)


def call_models() -> None:
    """Wake the worker that lets models answer. A call that is lost costs the time until the next sweep."""
    jobs.call_after_commit("experts.tasks.advise")


def _holder(ask: Ask) -> dict[str, str | None]:
    held = ask.assignment if ask.is_open and ask.assignment.is_held(timezone.now()) else None
    until = events.stamp(held.lease_until) if held is not None else None
    return {"held_by": held.holder_name if held is not None else None, "lease_until": until}
