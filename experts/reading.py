"""Reads: asks as their asker sees them, and as the queue sees them. Called by the API, the waiting poll and the pages."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet
from django.utils import timezone

from awmclient.schema import AskListing, AskView
from experts import queue
from experts.models import Ask
from people.access import Actor, may_read, may_see_queue, scoped, visible_or_404

LISTED = 500


def ask_view(ask: Ask, expected_wait_s: float | None = None) -> AskView:
    return AskView(
        id=ask.pk,
        status=ask.status,  # type: ignore[arg-type]
        deadline_at=ask.deadline_at,
        expected_wait_s=expected_wait_s,
        reason=ask.reason or None,
        advice=ask.accepted.value() if ask.accepted else None,
        delivered_at=ask.delivered_at,
        consumed_at=ask.consumed_at,
    )


def read_ask(actor: Actor, ask_id: str) -> AskView:
    """The asker's reading delivers the advice; anybody else's only looks."""
    if actor.user is None and actor.scope in (None, "agent"):
        return ask_view(queue.deliver(actor, ask_id))
    may_read(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    return ask_view(queue.settle(ask_id))


def asks_of(actor: Actor) -> QuerySet[Ask]:
    return scoped(Ask.objects.select_related("episode", "episode__run", "assignment", "accepted"), actor.project)


def open_asks(actor: Actor, status: str = "open") -> list[AskListing]:
    """The queue, in turn."""
    may_see_queue(actor)
    now = timezone.now()
    return [listing(ask, now) for ask in asks_of(actor).filter(status=status).in_turn()[:LISTED]]  # type: ignore[attr-defined]


def listing(ask: Ask, now: datetime) -> AskListing:
    held = ask.assignment if ask.assignment.is_held(now) else None
    return AskListing(
        id=ask.pk,
        episode=ask.episode_id,
        seq=ask.seq,
        status=ask.status,  # type: ignore[arg-type]
        question=ask.question,
        context=ask.context,
        deadline_at=ask.deadline_at,
        priority=ask.priority,
        scenario=ask.episode.scenario or None,
        task=ask.episode.task,
        privilege=ask.privilege,  # type: ignore[arg-type]
        held_by=held.holder_name if held else None,
        lease_until=held.lease_until if held else None,
    )
