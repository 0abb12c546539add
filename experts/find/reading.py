"""Reads: asks as their asker sees them, and as the queue sees them.

Owns the shape of an ask outside this app. Called by the API, the long poll and the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Prefetch
from django.utils import timezone

from awmclient.nouns.pictures import ImagePart
from awmclient.schema import AskListing, AskView
from episodes.find.selection import newest, run_named
from episodes.models import Episode
from experts.find.pictured import pictures_by_ask
from experts.models import Ask, AskQuerySet, ModelCall, StandingAnswer
from experts.who.authority import authors_of
from experts.who.counting import decided_on, quorum_of
from people.access import Actor, may_see_queue, scoped
from people.errors import Invalid

LISTED = 500
NOT_LISTED = ("episode__tools", "episode__policy", "episode__final_answer")
"""Large columns that no list shows."""


def ask_view(ask: Ask, expected_wait_s: float | None = None, missing: Sequence[str] = ()) -> AskView:
    return AskView(
        id=ask.pk,
        status=ask.status,
        deadline_at=ask.deadline_at,
        expected_wait_s=expected_wait_s,
        missing_skills=list(missing) or None,
        reason=ask.reason or None,
        advice=ask.accepted.value() if ask.accepted else None,
        quorum=quorum_of(ask),
        decided=decided_on(ask),
        delivered_at=ask.delivered_at,
        consumed_at=ask.consumed_at,
    )


def asks_of(actor: Actor) -> AskQuerySet:
    return scoped(Ask.objects.select_related("episode", "episode__run", "assignment", "accepted"), actor.project)


def open_asks(actor: Actor, status: str = "open", **filters: str) -> list[AskListing]:
    """Return the queue in order."""
    now = timezone.now()
    return _listings(list(_listed(actor, status, filters).in_turn()[:LISTED]), now)


def page_of_asks(
    actor: Actor, status: str, cursor: str, limit: int, **filters: str
) -> tuple[list[AskListing], str | None]:
    """Return asks of a status, newest first, and the cursor of the next page."""
    now = timezone.now()
    asks, cursor_next = newest(_listed(actor, status, filters), cursor, limit)
    return _listings(asks, now), cursor_next


def _listed(actor: Actor, status: str, filters: Mapping[str, str]) -> AskQuerySet:
    may_see_queue(actor)
    fields = {"run": "episode__run", "episode": "episode", "tier": "tier"}
    # PostgreSQL refuses U+0000 in a parameter
    narrowed = {fields[name]: value.replace("\x00", "") for name, value in filters.items() if value}
    if run := narrowed.get("episode__run"):
        narrowed["episode__run"] = run_named(actor.project, run).pk
    episode = narrowed.get("episode")
    if episode and not scoped(Episode.every.filter(pk=episode), actor.project).exists():
        raise Invalid(f"Unknown filter value: episode={episode}. No episode has this id.")
    calls = Prefetch("model_calls", ModelCall.objects.only("ask_id", "fault").order_by("-pk"))
    return asks_of(actor).filter(status=status, **narrowed).defer(*NOT_LISTED).prefetch_related(calls)


def more_to_take(actor: Actor, listed: Sequence[AskListing]) -> int:
    """Return how many asks people can take beyond the listed ones."""
    # fewer than a full list: nothing was left out
    if len(listed) < LISTED:
        return 0
    shown = [ask.id for ask in listed]
    return scoped(Ask.objects.to_take(timezone.now()), actor.project).exclude(pk__in=shown).count()


def active_standing(actor: Actor) -> list[StandingAnswer]:
    """Return the project's standing answers that can still decide, newest first."""
    may_see_queue(actor)
    now = timezone.now()
    rows = scoped(StandingAnswer.objects.active(now), actor.project)
    standing = list(rows.select_related("run").order_by("-created_at", "-pk")[:LISTED])
    authors = authors_of(standing, now)
    return [one for one in standing if one.pk in authors]


def _listings(asks: Sequence[Ask], now: datetime) -> list[AskListing]:
    pictures = pictures_by_ask(asks)
    return [_listing(ask, now, pictures.get(ask.pk)) for ask in asks]


def _listing(ask: Ask, now: datetime, pictures: list[dict[str, Any]] | None) -> AskListing:
    held_by, lease_until = ask.taken_by(now) or (None, None)
    return AskListing(
        id=ask.pk,
        episode=ask.episode_id,
        seq=ask.seq,
        status=ask.status,
        question=ask.question,
        pictures=[ImagePart.model_validate(part) for part in pictures] if pictures else None,
        context=ask.context,
        deadline_at=ask.deadline_at,
        tier=ask.tier,
        priority=ask.priority,
        scenario=ask.episode.scenario or None,
        task=ask.episode.task,
        privilege=ask.privilege,
        held_by=held_by,
        lease_until=lease_until,
        kind=ask.kind,
        typed=ask.typed,
        thread=ask.thread_id,
        model_fault=next((one.fault[:300] for one in ask.model_calls.all() if one.fault), None),
    )
