"""Writes: people steer a live episode: they take its wheel, order calls, hand it back, and change its limits.

Owns the lease of the wheel and the orders of who holds it. Leaves carrying them out to the loop, which reads them here:
`steered` of the episode says that there is something to read. Called by the API, a page and awmweb's own loop.

Lock order is episode, then wheel: a take, an order and the loop's look race for the same rows.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from awmclient.schema import (
    ASK_TOOL,
    CONTROL_TOOLS,
    LIMITS,
    LimitsBody,
    ToolCall,
    WheelCallBody,
    WheelLease,
    WheelOrderView,
    WheelUndoBody,
    WheelView,
)
from episodes.errors import AlreadySent, BlindReview, EpisodeEnded, NotSteerable, WheelLost, WheelTaken
from episodes.models import Episode, EpisodeState, UndoneOrder, Wheel, WheelOrder
from episodes.record.appending import note, refuse_other_loop
from episodes.record.recording import announce, locked
from episodes.tool_schemas import Checker
from episodes.visible import visibility
from people.access import Actor, may_advise, may_launch, may_record, opaque
from people.errors import Invalid, KeyConflict
from people.record.audit import record
from people.text.plain_text import clean

LEASE_S, IDLE_S, LONGEST_S = 90, 600, 3600
"""Without a renewal, without an order, and in all: whichever ends first hands the wheel back."""
OPEN_MAX = 20
"""Orders that wait for their loop; more would run long after they were given."""
TAKEN, HANDED_BACK, LIMITED, UNDONE = "wheel taken", "wheel handed back", "limits changed", "order undone"


def take(actor: Actor, episode_id: str) -> WheelLease:
    """Take the wheel of a live episode by one conditional update; again, to get a new token.

    From here on the episode counts as assisted. Raises `WheelTaken` while someone else holds it, `NotSteerable` for an
    episode that cannot be steered now.
    """
    may_advise(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id)
        _refuse_unfit(actor, episode)
        now, token = timezone.now(), secrets.token_urlsafe(24)
        until = now + timedelta(seconds=LEASE_S)
        Wheel.objects.get_or_create(episode=episode)
        # on columns of its own table only: a join would not be evaluated again after a wait
        free = Q(lease_until=None) | Q(lease_until__lte=now) | Q(holder=actor.key)
        mine = {"holder": actor.key, "holder_name": actor.name, "lease_token": token, "lease_until": until}
        if not Wheel.objects.filter(free, episode=episode).update(**mine, taken_at=now, used_at=now):
            raise WheelTaken(f"{Wheel.objects.get(episode=episode).holder_name} has the wheel of this episode.")
        Episode.every.filter(pk=episode.pk).update(steered=True, assisted=True)
        note(episode, TAKEN, actor)
        announce(episode)
    return WheelLease(lease_token=token, lease_until=until)


def _refuse_unfit(actor: Actor, episode: Episode) -> None:
    if not episode.is_live:
        raise EpisodeEnded
    if not visibility.sees_outcome(actor, episode):
        raise BlindReview("You judge this episode blind, so you cannot act in it.")
    if episode.state == EpisodeState.WAITING or episode.state == EpisodeState.PARKED:
        raise NotSteerable("The agent waits for an answer. Answer its ask first.")
    if not _tools_of(episode):
        raise NotSteerable("The episode has no tools that a person could call, or it has not begun.")


def _tools_of(episode: Episode) -> dict[str, Any]:
    """Return the schemas of the tools that a person can call, by name."""
    listed = episode.tools if isinstance(episode.tools, list) else []
    named = {one["name"]: one.get("input_schema") for one in listed if isinstance(one, dict) and "name" in one}
    reserved = {*CONTROL_TOOLS, ASK_TOOL}
    return {name: schema for name, schema in named.items() if str(name).strip().casefold() not in reserved}


def renew(actor: Actor, episode_id: str, token: str) -> WheelLease:
    """Hold the wheel for longer, up to the limits of idle and of all time."""
    may_advise(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id)
        wheel, now = _held_with(episode, token), timezone.now()
        until = min(now + timedelta(seconds=LEASE_S), goes_back_at(wheel))
        Wheel.objects.filter(pk=wheel.pk).update(lease_until=until)
    return WheelLease(lease_token=token, lease_until=until)


def goes_back_at(wheel: Wheel) -> datetime:
    """Return when the wheel is handed back at the latest if its holder orders nothing more."""
    assert wheel.used_at is not None and wheel.taken_at is not None
    return min(wheel.used_at + timedelta(seconds=IDLE_S), wheel.taken_at + timedelta(seconds=LONGEST_S))


def _held_with(episode: Episode, token: str) -> Wheel:
    """Return the wheel while this lease holds. Raises `WheelLost`; the caller holds the lock of the episode."""
    if not episode.is_live:
        raise EpisodeEnded
    wheel = Wheel.objects.filter(episode=episode).first()
    # a wheel that was handed back has an empty token, which must not match a caller without one
    if wheel is None or wheel.lease_token != token or not wheel.is_held(timezone.now()):
        raise WheelLost
    return wheel


def order(actor: Actor, episode_id: str, payload: WheelCallBody) -> WheelOrder:
    """Have the loop make a call or hear words. The same nonce gives the same order."""
    may_advise(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id)
        wheel = _held_with(episode, payload.lease_token)
        rows = WheelOrder.objects.filter(episode=episode)
        body = payload.model_dump(include={"call", "words", "propose"}, exclude_defaults=True)
        if (earlier := rows.filter(nonce=payload.nonce).first()) is not None:
            if earlier.said != body:
                raise KeyConflict("Not sent: you gave another order with this nonce.")
            return earlier
        if payload.call is not None:
            _refuse_misfit(episode, payload.call)
        if waiting(episode, wheel.acted).count() >= OPEN_MAX:
            raise Invalid(f"{OPEN_MAX} orders wait for the loop of this episode. Wait until it has carried them out.")
        now = timezone.now()
        Wheel.objects.filter(pk=wheel.pk).update(used_at=now)
        by = {"author": actor.name, "author_key": actor.key, "acted_by": opaque(episode.project_id, actor.name)}
        held_until = now + timedelta(seconds=payload.hold_s) if payload.hold_s else None
        made = WheelOrder.objects.create(episode=episode, nonce=payload.nonce, said=body, held_until=held_until, **by)
        Episode.every.filter(pk=episode.pk).update(steered=True)
        announce(episode)
    return made


def waiting(episode: Episode, acted: int) -> QuerySet[WheelOrder]:
    """Return the orders after number `acted` that are to be carried out, in their order."""
    return WheelOrder.objects.filter(episode=episode, pk__gt=acted, undone=None).order_by("pk")


def undo(actor: Actor, episode_id: str, payload: WheelUndoBody) -> None:
    """Drop an order that was not sent to the loop yet. Idempotent. Raises `AlreadySent`: nothing unmakes a call.

    Sending takes the same lock, so an order is either undone or sent.
    """
    may_advise(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id)
        wheel = _held_with(episode, payload.lease_token)
        made = WheelOrder.objects.filter(episode=episode, nonce=payload.nonce, author_key=actor.key).first()
        if made is None:
            raise Invalid("nonce: you gave no such order.")
        if UndoneOrder.objects.filter(order=made).exists():
            return
        if made.pk <= max(wheel.sent, wheel.acted):
            raise AlreadySent
        UndoneOrder.objects.create(order=made)
        call = made.said.get("call")
        note(episode, UNDONE, actor, f"call of {call['name']}" if call else "words to the agent")
        announce(episode)


def _refuse_misfit(episode: Episode, call: ToolCall) -> None:
    tools, name = _tools_of(episode), clean(call.name)[:100]
    if call.name not in tools:
        raise Invalid(f"call: the episode has no tool {name}.")
    if problem := Checker().misfit(call.arguments, tools[call.name]):
        raise Invalid(f"{name}: {clean(problem[:300])}.")


def hand_back(actor: Actor, episode_id: str, token: str) -> None:
    """Let the agent choose again, after the orders that wait. Idempotent for the token that handed it back last."""
    may_advise(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id)
        wheel = Wheel.objects.filter(episode=episode).first()
        if wheel is None or not token or token not in (wheel.lease_token, wheel.returned_token):
            raise WheelLost
        # a repeat, whose first answer was lost, takes the wheel from no one who has taken it since
        if token == wheel.lease_token:
            Wheel.objects.filter(pk=wheel.pk).update(returned_token=token)
            _free(episode, wheel, actor, "")


def _free(episode: Episode, wheel: Wheel, actor: Actor | None, why: str) -> None:
    Wheel.objects.filter(pk=wheel.pk).update(holder="", lease_token="", lease_until=None)
    note(episode, HANDED_BACK, actor, why)
    announce(episode)


def read(actor: Actor, episode_id: str, acted: int, attempt: int | None = None) -> WheelView:
    """Return what a loop is to do after its order number `acted`. A lease that has ended is handed back here, so that
    no sweep is needed."""
    may_record(actor)
    with transaction.atomic():
        episode = locked(actor, episode_id, attempt)
        refuse_other_loop(actor, episode.origin)
        if not episode.is_live:
            raise EpisodeEnded
        wheel, now = Wheel.objects.filter(episode=episode).first(), timezone.now()
        if wheel is not None and wheel.lease_token and not wheel.is_held(now):
            _free(episode, wheel, None, _why_ended(wheel, now))
            wheel.lease_token = ""
        held = wheel is not None and wheel.lease_token != ""
        waits = list(waiting(episode, acted))
        # in their order: what follows one that can still be undone waits with it
        open_ = list(itertools.takewhile(lambda row: row.held_until is None or row.held_until <= now, waits))
        held = held or len(open_) < len(waits)
        if wheel is not None:
            sent = max([wheel.sent, *(one.pk for one in open_)])
            if (acted, sent) != (wheel.acted, wheel.sent):
                Wheel.objects.filter(pk=wheel.pk).update(acted=max(acted, wheel.acted), sent=sent)
        if episode.steered and not held and not open_:
            Episode.every.filter(pk=episode.pk).update(steered=False)
    return WheelView(held=held, orders=[order_view(one) for one in open_], limits=_numbers(episode.limits))


def order_view(made: WheelOrder) -> WheelOrderView:
    return WheelOrderView(number=made.pk, acted_by=made.acted_by, **made.said)


def _why_ended(wheel: Wheel, now: datetime) -> str:
    if goes_back_at(wheel) <= now:
        return "after an hour" if wheel.taken_at and wheel.taken_at + timedelta(seconds=LONGEST_S) <= now else "idle"
    return "its page was closed or lost"


def _numbers(limits: Any) -> dict[str, int]:
    return {name: limits[name] for name in LIMITS if name in limits} if isinstance(limits, dict) else {}


def is_held(episode_id: str) -> bool:
    """Return whether someone has the wheel of an episode."""
    return Wheel.objects.filter(episode=episode_id, lease_until__gt=timezone.now()).exclude(lease_token="").exists()


def change_limits(actor: Actor, episode_id: str, payload: LimitsBody) -> Episode:
    """Change limits of a live episode, with an audit entry. Its loop takes them over before its next turn."""
    may_launch(actor)
    limits: Mapping[str, int] = {name: value for name in LIMITS if (value := getattr(payload, name)) is not None}
    if not limits:
        raise Invalid(f"Name a limit: {', '.join(LIMITS)}.")
    with transaction.atomic():
        episode = locked(actor, episode_id)
        if not episode.is_live:
            raise EpisodeEnded
        if not visibility.sees_outcome(actor, episode):
            raise BlindReview("You judge this episode blind, so you cannot act in it.")
        episode.limits = {**_numbers(episode.limits), **limits}
        episode.max_steps = limits.get("max_steps", episode.max_steps)
        episode.assisted = episode.steered = True
        episode.save(update_fields=["limits", "max_steps", "assisted", "steered"])
        words = f"{', '.join(f'{name} {value}' for name, value in limits.items())}: {payload.reason}"
        note(episode, LIMITED, actor, words)
        record(actor, "episode.limits", episode.pk, words)
        announce(episode)
    return episode
