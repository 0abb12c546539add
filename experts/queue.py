"""Writes: open, claim, renew, release, decline, answer, expire, cancel, deliver, consume.

Owns the state machine of an ask. Leaves the episode's side to `episodes.recording`, inside the same transaction. People
claim and answer through the same functions as models and tokens.

Lock order is episode, then ask, then assignment, everywhere: an answer, a deadline and an ending episode race for the
same rows and exactly one of them wins.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from awmclient.schema import AskOpen, ToolCall
from episodes import recording
from episodes.appending import reopen_or_refuse
from episodes.models import Episode, ExpertMode
from experts import events
from experts.errors import AlreadyClaimed, AskConflict, ExpertOff, LeaseLost, StillOpen, TooLate, TooManyAsks
from experts.models import Advice, Ask, AskEvent, AskStatus, Assignment, AssignmentState, Decline, as_fallback
from experts.routing import deadline, lease_end
from people.access import Actor, may_advise, may_read, may_record, visible_or_404
from people.errors import Invalid

OPEN_MAX = 50
"""Open asks of one episode; more would push everybody else's off the queue's page."""


@dataclass(frozen=True)
class Claim:
    """A lease in hand: present `lease_token` with every act on the assignment."""

    ask_id: str
    assignment_id: str
    lease_token: str
    lease_until: datetime


def open_ask(actor: Actor, wanted: AskOpen) -> tuple[Ask, bool]:
    """1. check the right, 2. the same key and body is the same ask, 3. refuse where no expert is offered or the episode
    has ended, 4. write ask, slot and step, the episode waits, 5. tell."""
    may_record(actor)
    digest = hashlib.sha256(json.dumps(wanted.model_dump(), sort_keys=True).encode()).hexdigest()
    with transaction.atomic():
        episode = visible_or_404(Episode.objects.select_for_update(), actor, wanted.episode)
        known = Ask.objects.select_related("accepted").filter(episode=episode, key=wanted.key).first()
        if known is not None:
            if known.body_digest != digest:
                raise AskConflict
            recording.hear(actor, episode.pk)
            return known, False
        if episode.expert == ExpertMode.OFF:
            raise ExpertOff
        if Ask.objects.open().filter(episode=episode).count() >= OPEN_MAX:
            raise TooManyAsks
        reopen_or_refuse(episode, actor)
        return _insert(actor, episode, wanted, digest), True


def _insert(actor: Actor, episode: Episode, wanted: AskOpen, digest: str) -> Ask:
    now = timezone.now()
    ask = Ask(
        project=actor.project,
        episode=episode,
        key=wanted.key,
        body_digest=digest,
        seq=wanted.seq,
        question=wanted.question,
        context=wanted.context,
        priority=wanted.priority,
        skills=wanted.skills or [],
        group_key=wanted.group_key or "",
        deadline_at=deadline(now, wanted.deadline_s),
        human_deadline_at=deadline(now, wanted.human_deadline_s) if wanted.human_deadline_s else None,
    )
    said = wanted.model_dump(include={"seq", "question", "context", "turn", "call_id"}, exclude_none=True)
    recording.open_ask_step(actor, episode, {"kind": "ask", "ask": ask.pk, **said})
    ask.save(force_insert=True)
    Assignment.objects.create(ask=ask)
    _log(ask, "opened", actor)
    events.tell(ask)
    return ask


def _log(ask: Ask, verb: str, actor: Actor | None, reason: str = "") -> None:
    AskEvent.objects.create(ask=ask, verb=verb, actor=actor.name if actor else "awmweb", reason=reason)


@transaction.atomic
def claim(actor: Actor, ask_id: str) -> Claim:
    """One conditional update: open, not past its deadline, and unheld, lapsed, or mine already. One row back and the
    lease is yours."""
    may_advise(actor)
    ask = visible_or_404(Ask.objects.select_for_update(), actor, ask_id)
    now = timezone.now()
    until, token = lease_end(now, ask.deadline_at), secrets.token_urlsafe(24)
    free = Q(state=AssignmentState.QUEUED) | Q(lease_until__lte=now) | Q(holder=actor.key)
    # conditions on this table only: a join would become a sub-select, which is not looked at again after waiting for
    # a row that somebody else was just changing, and two would hold the ask
    live = Assignment.objects.filter(free, ask=ask, state__in=[AssignmentState.QUEUED, AssignmentState.CLAIMED])
    slot = live if ask.deadline_at > now else live.none()
    taken = slot.update(
        state=AssignmentState.CLAIMED, holder=actor.key, holder_name=actor.name, lease_token=token, lease_until=until
    )
    if taken != 1:
        raise _why_not(ask, now)
    _log(ask, "claimed", actor)
    events.tell(ask)
    return Claim(ask.pk, ask.assignment.pk, token, until)


def _why_not(ask: Ask, now: datetime) -> AlreadyClaimed | TooLate:
    held = ask.assignment.is_held(now)
    if ask.is_open and ask.deadline_at > now and held:
        return AlreadyClaimed(
            f"{ask.assignment.holder_name} holds this ask until {ask.assignment.lease_until:%H:%M:%S} UTC."
        )
    return TooLate("This ask is closed.") if not ask.is_open or ask.deadline_at <= now else AlreadyClaimed()


@transaction.atomic
def renew(actor: Actor, assignment_id: str, lease_token: str) -> datetime:
    """Push the lease on. Lapsed but not retaken counts as mine."""
    may_advise(actor)
    slot, now = _slot(actor, assignment_id), timezone.now()
    if not slot.ask.is_open or slot.ask.deadline_at <= now:
        raise TooLate
    until = lease_end(now, slot.ask.deadline_at)
    if _mine(slot, lease_token).update(lease_until=until) != 1:
        raise LeaseLost
    return until


@transaction.atomic
def release(actor: Actor, assignment_id: str, lease_token: str) -> None:
    may_advise(actor)
    slot = _slot(actor, assignment_id)
    _let_go(slot, lease_token)
    _log(slot.ask, "released", actor)
    events.tell(slot.ask)


@transaction.atomic
def decline(actor: Actor, assignment_id: str, lease_token: str, reason: str = "") -> None:
    """Pass on an ask: the slot goes back, without this expert."""
    may_advise(actor)
    slot = _slot(actor, assignment_id)
    _let_go(slot, lease_token)
    Decline.objects.get_or_create(ask=slot.ask, author_key=actor.key, defaults={"author": actor.name, "reason": reason})
    _log(slot.ask, "declined", actor, reason)
    events.tell(slot.ask)


def give_back(leaving: Actor) -> None:
    """Registered with `members.on_leave`: what a removed person holds is free at once."""
    held = Ask.objects.open().filter(project=leaving.project, assignment__holder=leaving.key).order_by("pk")
    for ask in held.select_for_update(of=["self"]):
        if ask.assignment.state == AssignmentState.CLAIMED:
            _let_go(ask.assignment, ask.assignment.lease_token)
            _log(ask, "released", None, f"{leaving.name} was removed")
            events.tell(ask)


def _slot(actor: Actor, assignment_id: str) -> Assignment:
    """The slot, its ask locked before the slot is: every note about an ask takes a share of the ask's lock, and an
    answer holds that lock while it moves the slot on."""
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    slot.ask = Ask.objects.select_for_update().get(pk=slot.ask_id)
    return slot


def _mine(slot: Assignment, lease_token: str) -> Any:
    """The slot while this lease counts; closing an ask moves its slot on, so the ask itself need not be asked."""
    return Assignment.objects.filter(pk=slot.pk, lease_token=lease_token, state=AssignmentState.CLAIMED).exclude(
        lease_token=""
    )


def _let_go(slot: Assignment, lease_token: str) -> None:
    freed = _mine(slot, lease_token).update(
        state=AssignmentState.QUEUED, holder="", holder_name="", lease_token="", lease_until=None
    )
    if freed != 1:
        raise TooLate if not slot.ask.is_open else LeaseLost
    slot.refresh_from_db(fields=["state", "holder", "holder_name", "lease_token", "lease_until"])


def answer(
    actor: Actor,
    assignment_id: str,
    lease_token: str,
    text: str,
    nonce: str,
    tool_calls: list[ToolCall] | None = None,
    source: str = "human",
) -> Advice:
    """1. a repeated nonce is a quiet yes, 2. lock episode and ask, 3. whoever comes late or lost the lease keeps the
    text but not the ask, 4. accept: advice, ask, slot and step in one transaction, 5. tell the agent and everybody."""
    may_advise(actor)
    if not text.strip() and not tool_calls:
        raise Invalid("Write the advice, or suggest a call.")
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    refusal: LeaseLost | TooLate | None = None
    with transaction.atomic():
        ask = _locked(slot.ask_id)
        said = Advice.objects.filter(ask=ask, author_key=actor.key, nonce=nonce) if nonce else Advice.objects.none()
        repeated = said.order_by("late").first()
        if repeated is not None and not repeated.late:
            return repeated
        now = timezone.now()
        held = _mine(slot, lease_token).exists()
        if ask.is_open and ask.deadline_at <= now:
            _close(ask, AskStatus.FELL_BACK, "deadline", None)
        if not ask.is_open or not held:
            refusal = TooLate() if not ask.is_open else LeaseLost()
        if refusal is not None and repeated is not None:
            raise refusal  # the text is kept already; with the lease back in hand the same words count
        advice = Advice.objects.create(
            ask=ask,
            text=text,
            tool_calls=[call.model_dump() for call in tool_calls] if tool_calls else None,
            source=source,
            author=actor.name,
            author_key=actor.key,
            privilege=ask.privilege,
            nonce=nonce,
            late=refusal is not None,
        )
        if refusal is None:
            _close(ask, AskStatus.ANSWERED, "", actor, advice)
    if refusal is not None:
        raise refusal
    return advice


def _locked(ask_id: str) -> Ask:
    """Episode first, then ask, as everywhere."""
    episode = Episode.objects.select_for_update().get(asks=ask_id)
    ask = Ask.objects.select_for_update().get(pk=ask_id)
    ask.episode = episode
    return ask


def _close(ask: Ask, status: str, reason: str, actor: Actor | None, advice: Advice | None = None) -> None:
    """The one way in which an ask ends. Caller holds the locks of episode and ask."""
    if status == AskStatus.FELL_BACK:
        advice = Advice.objects.create(ask=ask, privilege=ask.privilege, **as_fallback(reason))
    ask.status, ask.reason, ask.closed_at, ask.accepted = status, reason, timezone.now(), advice
    ask.save(update_fields=["status", "reason", "closed_at", "accepted"])
    ended = AssignmentState.SUBMITTED if status == AskStatus.ANSWERED else AssignmentState.VOID
    Assignment.objects.filter(ask=ask).update(state=ended)
    waiting = Ask.objects.open().filter(episode=ask.episode).exists()
    recording.close_ask_step(ask.episode, ask.seq, advice.value() if advice else None, status, waiting)
    _log(ask, str(status), actor, reason)
    events.tell(Ask.objects.select_related("assignment").get(pk=ask.pk))


@transaction.atomic
def settle(ask_id: str) -> Ask:
    """Fall back if the deadline is past and nobody was quicker; whoever reads may do this, so deadlines need nobody."""
    ask = Ask.objects.select_related("accepted").get(pk=ask_id)
    if ask.is_open and ask.deadline_at <= timezone.now():
        ask = _locked(ask_id)
        if ask.is_open:
            _close(ask, AskStatus.FELL_BACK, "deadline", None)
    return ask


def settle_due(now: datetime | None = None) -> int:
    """The sweep's net below the waiting requests."""
    due = list(Ask.objects.due(now or timezone.now()).values_list("pk", flat=True)[:500])
    return sum(settle(pk).status == AskStatus.FELL_BACK for pk in due)


@transaction.atomic
def cancel(actor: Actor, ask_id: str, reason: str = "asker") -> Ask:
    may_record(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask = _locked(ask_id)
    if ask.is_open:
        _close(ask, AskStatus.CANCELLED, reason, actor)
    return ask


def cancel_of_episode(episode: Episode, reason: str) -> None:
    """Registered with `recording.on_end`: an ending episode closes its asks in its own transaction."""
    for ask in Ask.objects.select_for_update().open().filter(episode=episode):
        ask.episode = episode
        _close(ask, AskStatus.CANCELLED, "episode_ended", None)


def look(actor: Actor, ask_id: str) -> Ask:
    """Where an ask stands now. The asker's look delivers the advice; anybody else's only settles what is due."""
    if actor.user is None and actor.scope in (None, "agent"):
        return deliver(actor, ask_id)
    may_read(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    return settle(ask_id)


@transaction.atomic
def deliver(actor: Actor, ask_id: str) -> Ask:
    """What the asker gets: the ask, settled if due; the first sight of the advice is noted as its delivery."""
    may_record(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask = settle(ask_id)
    first = Ask.objects.filter(pk=ask_id, delivered_at__isnull=True, accepted__isnull=False)
    if ask.accepted_id is not None and first.update(delivered_at=timezone.now()) == 1:
        ask = Ask.objects.select_related("assignment", "accepted").get(pk=ask_id)
        events.tell(ask)
    return ask


@transaction.atomic
def consume(actor: Actor, ask_id: str) -> Ask:
    """The agent has the advice in its context. Twice is a quiet yes."""
    may_record(actor)
    ask = visible_or_404(Ask.objects.select_related("assignment", "accepted"), actor, ask_id)
    if ask.is_open:
        raise StillOpen
    recording.hear(actor, ask.episode_id)
    now = timezone.now()
    fresh = Ask.objects.filter(pk=ask_id, consumed_at__isnull=True)
    if fresh.update(consumed_at=now, delivered_at=F("delivered_at") if ask.delivered_at else now) == 1:
        ask.refresh_from_db(fields=["consumed_at", "delivered_at"])
        events.tell(ask)
    return ask


def waiting_time(actor: Actor) -> float | None:
    """Median seconds from ask to answer over the last 20 answered asks of this project; none yet: unknown."""
    rows = Ask.objects.filter(project=actor.project, status=AskStatus.ANSWERED).order_by("-closed_at")
    times = rows.values_list("created_at", "closed_at")[:20]
    spans = [(closed - opened).total_seconds() for opened, closed in times if closed is not None]
    return median(spans) if spans else None
