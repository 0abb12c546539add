"""The queue's live hints: one frame per change of an ask, for the queue page, the header and waiting loops.

Owns the frames about asks and leases. Publishes through `episodes.events`, the only publisher.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from episodes import events
from experts import endings
from experts.models import Ask
from people.record import jobs

RENEWED_EVERY_S = 20
"""Well below the length of a lease minus the pause between two renewals."""


def ask_topic(ask_id: str) -> str:
    return f"ask:{ask_id}"


def tell(ask: Ask) -> None:
    """Publish a change of an ask to the project's queue, the episode's page and the waiting asker."""
    frame: events.Frame = {
        "type": "ask",
        "ask": ask.pk,
        "episode": ask.episode_id,
        "seq": ask.seq,
        "status": ask.status,
        "tier": ask.tier,
        "skills": ask.skills,
        "deadline_at": events.stamp(ask.deadline_at),
        "delivered_at": events.stamp(ask.delivered_at) if ask.delivered_at else None,
        "consumed_at": events.stamp(ask.consumed_at) if ask.consumed_at else None,
        "ending": None if ask.is_open else endings.headline(ask),
        "answered_by": None if ask.is_open or ask.accepted is None else ask.accepted.author,
        **_holder(ask),
        **_people(ask),
    }
    events.publish(events.queue_topic(ask.project_id), frame)
    events.publish(events.people_topic(ask.episode_id), frame)
    if settings.AWMWEB_SLACK_TOKEN:
        jobs.call_after_commit("notices.tasks.redraw", "ask", ask.pk)
    # the asker's topic says only that there is news: the asker reads the advice itself, by its own right
    events.publish(ask_topic(ask.pk), {"type": "ask", "ask": ask.pk, "status": ask.status}, events.WAKE)


def tell_renewed(ask: Ask, before: datetime, until: datetime) -> None:
    """Publish that a lease was renewed.

    Sent at most once in `RENEWED_EVERY_S`, in one frame with other renewals, and early enough that no page shows a
    renewed lease as expired.
    """
    # a frame whenever the end of the lease enters another span of this length
    if int(before.timestamp()) // RENEWED_EVERY_S != int(until.timestamp()) // RENEWED_EVERY_S:
        frame = {"type": "lease", "ask": ask.pk, "lease_until": events.stamp(until)}
        events.publish(events.queue_topic(ask.project_id), frame)


def tell_draft(ask: Ask) -> None:
    """Publish that a model's draft is ready or failed. Agents never receive these."""
    frame: events.Frame = {"type": "draft", "ask": ask.pk, "episode": ask.episode_id}
    events.publish(events.queue_topic(ask.project_id), frame)


def call_deliverer(ask: Ask, hold_s: float) -> None:
    """Wake a worker at the end of a hold. A call that is lost costs the time until the next read or sweep."""
    jobs.call_after_commit("experts.tasks.deliver_held", ask.pk, delay_s=hold_s)


def call_models() -> None:
    """Wake the worker that lets models answer. A call that is lost costs the time until the next sweep."""
    jobs.call_after_commit("experts.tasks.advise")


def _people(ask: Ask) -> dict[str, Any]:
    """Return what says who can still decide an approval of several people: the role, and who has decided."""
    if ask.quorum_of < 2:
        return {}
    return {
        "role": ask.quorum_role,
        "decided": list(ask.decisions.filter(counts=True).values_list("author_key", flat=True)),
    }


def _holder(ask: Ask) -> dict[str, str | None]:
    name, until = ask.taken_by(timezone.now()) or (None, None)
    return {"held_by": name, "lease_until": events.stamp(until) if until is not None else None}
