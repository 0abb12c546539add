"""Writes: close, cancel, deliver, consume; and the lock and the log of an ask.

Owns the end of an ask (answer, deadline, cancel or end of the episode) and what its asker then gets. Leaves open asks
to `queue.py` and answers to `advising.py`, which close through `close`. Any reader of an expired ask closes it, so
deadlines need no worker; the sweep closes the rest.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import DataError, connection, transaction
from django.db.models import F
from django.utils import timezone

from awmclient.nouns.typed import TIMEOUT_REASON, decision_on_timeout, rejected
from awmclient.schema import Advice as SentAdvice
from awmclient.schema import Heard
from episodes.models import Episode, ExpertMode
from episodes.record import ask_steps, recording
from episodes.record.appending import refuse_other_loop
from experts import events, notifications
from experts.errors import StillOpen
from experts.find.attached import is_asker
from experts.models import CUT_OFF, MODEL, Advice, Ask, AskEvent, AskStatus, Assignment, Draft, Tier
from experts.record import counting
from experts.who.counting import decided_on
from notices.record import deliveries
from people import measures
from people.access import Actor, may_read, may_record, visible_or_404
from people.errors import AppError
from people.rows import ModelRows
from people.slots import FREED, SlotState

EPISODE, ASK, EVENTS = ModelRows(Episode, without={"tools"}), ModelRows(Ask), ModelRows(AskEvent, without={"id"})
"""Rows as writes look at them: an episode is without its tools, which are most of it."""
# `FOR UPDATE OF ask` comes last, so the episode is locked first; and both rows are as they are after the wait
LOCKED = f"""
WITH held AS MATERIALIZED (
  SELECT {EPISODE.columns()} FROM episodes_episode
   WHERE id = (SELECT episode_id FROM experts_ask WHERE id = %(ask)s) FOR UPDATE
)
SELECT held.*, {ASK.columns("ask")} FROM held JOIN experts_ask AS ask ON ask.episode_id = held.id
 WHERE ask.id = %(ask)s FOR UPDATE OF ask
"""
# The slot is in the statement that closes the ask: `queue.claim` looks at the slot alone, because PostgreSQL checks a
# condition again after a lock only on the table that it updates.
CLOSED = """
WITH closed AS (
  UPDATE experts_ask SET status = %s, reason = %s, closed_at = %s, accepted_id = %s, held_id = NULL, held_until = NULL
   WHERE id = %s
), slot AS (
  UPDATE experts_assignment SET state = %s WHERE ask_id = %s
), noted AS (
  {noted}
)
-- an episode can have several open asks: it continues after the last
SELECT EXISTS (SELECT FROM experts_ask WHERE episode_id = %s AND status = 'open' AND id <> %s)
"""


def locked(ask_id: str) -> Ask:
    """Lock the episode, then the ask, and return the ask. All writers use this order."""
    with connection.cursor() as cursor:
        cursor.execute(LOCKED, {"ask": ask_id})
        row = cursor.fetchone()
    if row is None:
        raise Ask.DoesNotExist
    ask = ASK.made(row[EPISODE.width :])
    ask.episode = EPISODE.made(row)
    return ask


@dataclass(frozen=True)
class Author:
    """Who wrote an answer that another process delivers."""

    name: str
    key: str


def log(ask: Ask, verb: str, actor: Actor | Author | None, reason: str = "") -> None:
    log_each(ask, (verb, actor, reason))


def log_each(ask: Ask, *entries: tuple[str, Actor | Author | None, str]) -> None:
    """Log transitions of an ask, each as (verb, actor, reason), in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(*EVENTS.stored(events_of(ask, *entries)))


def events_of(ask: Ask, *entries: tuple[str, Actor | Author | None, str]) -> list[AskEvent]:
    return [
        AskEvent(ask=ask, verb=verb, actor=who.name if who else "awmweb", actor_key=who.key if who else "", reason=why)
        for verb, who, why in entries
    ]


def hold(ask: Ask, advice: Advice, seconds: float) -> None:
    """Keep a stored answer for some seconds in which its author can undo it. The caller must hold the episode and ask
    locks. The ask stays open for its agent, and no one can claim it."""
    ask.held, ask.held_until = advice, timezone.now() + timedelta(seconds=seconds)
    ask.save(update_fields=["held", "held_until"])
    Assignment.objects.filter(ask=ask).update(state=SlotState.SUBMITTED, lease_until=None)
    events.tell(Ask.objects.select_related("assignment").get(pk=ask.pk))
    events.call_deliverer(ask, seconds)


def settle(ask: Ask, advice: Advice, actor: Actor | Author) -> None:
    """Close an ask with an answer. The caller must hold the episode and ask locks.

    An approval that needs more people counts it, is free again, and stays open for others.
    """
    if counting.count(ask, advice):
        close(ask, AskStatus.ANSWERED, "", actor, advice)
        return
    ask.held, ask.held_until = None, None
    # whom it was handed to has decided
    if ask.handed_to == advice.author_key:
        ask.handed_to = ask.handed_to_name = ""
    # whom it was escalated to is one of those that it needs
    ask.tier, ask.tiers = Tier.PEOPLE, [Tier.PEOPLE]
    ask.save(update_fields=["held", "held_until", "handed_to", "handed_to_name", "tier", "tiers"])
    Assignment.objects.filter(ask=ask).update(**FREED)
    log(ask, "counted", actor, ask.progress)
    events.tell(Ask.objects.select_related("assignment").get(pk=ask.pk))
    deliveries.reconsider(notifications.KIND, ask.pk)


def close(
    ask: Ask,
    status: str,
    reason: str,
    actor: Actor | Author | None,
    advice: Advice | None = None,
    heard: Heard | None = None,
) -> None:
    """Close an ask. The caller must hold the episode and ask locks. `heard`: what its agent got without an answer."""
    if ask.held_id is not None and (advice is None or advice.pk != ask.held_id):
        # the ask ended within the hold: its agent never gets this answer
        Advice.objects.filter(pk=ask.held_id).update(late=True, nonce="", reason=CUT_OFF)
    if status == AskStatus.FELL_BACK:
        advice = _prepared(ask) or Advice.objects.create(ask=ask, privilege=ask.privilege, **_as_fallback(ask, reason))
    ask.status, ask.reason, ask.closed_at, ask.accepted = status, reason, timezone.now(), advice
    ask.held, ask.held_until = None, None
    ended = SlotState.SUBMITTED if status == AskStatus.ANSWERED else SlotState.VOID
    noted, entry = EVENTS.stored(events_of(ask, (str(status), actor, reason)))
    end: list[Any] = [str(status), reason, ask.closed_at, ask.accepted_id, ask.pk, str(ended), ask.pk]
    with connection.cursor() as cursor:
        cursor.execute(CLOSED.format(noted=noted), [*end, *entry, ask.episode_id, ask.pk])
        (waiting,) = cursor.fetchone()
    by_script = advice is not None and advice.is_by_script
    sent = advice.value() if advice else SentAdvice.model_validate(_as_fallback(ask, heard)) if heard else None
    if sent is not None:
        # without the words of an edit, which the decision has
        sent.decided = [one.model_copy(update={"calls": None}) for one in decided_on(ask) or []] or None
    ask_steps.close_ask_step(ask.episode, ask.seq, sent, status, waiting, by_script)
    events.tell(ask)
    transaction.on_commit(functools.partial(_measure, ask, str(status), reason))


def _measure(ask: Ask, status: str, reason: str) -> None:
    # Reasons of other ends can be a caller's words.
    measures.count("awmweb_asks_closed_total", status, reason if status == AskStatus.FELL_BACK else "")
    if ask.closed_at is not None:
        measures.observe("awmweb_ask_wait_seconds", (ask.closed_at - ask.created_at).total_seconds(), status)


def _as_fallback(ask: Ask, reason: str) -> dict[str, Any]:
    """Return the fields of a fallback: no text, a typed reason, and the decision that silence means."""
    fallback: dict[str, Any] = {"text": "", "source": "fallback", "reason": reason}
    if not ask.typed:
        return fallback
    decision = decision_on_timeout(ask.typed)
    if decision is not None and ask.quorum_of > 1:
        # agents and models read this: the names are in `decided` alone
        so_far = ask.progress_in_numbers(ask.decisions.filter(counts=True).count())
        decision = {"calls": [rejected(call, f"{TIMEOUT_REASON}, {so_far}") for call in ask.typed["calls"]]}
    return fallback | {"decision": decision, "by": "timeout"}


def _prepared(ask: Ask) -> Advice | None:
    """Return the draft that a model finished before the deadline as advice, or None; never for a typed ask."""
    if ask.typed:
        return None  # what an unsure model would decide must not pass by silence
    # a draft without a text is still being written
    drafts = Draft.objects.filter(ask=ask, author_key__startswith=MODEL, text__isnull=False, failed=False)
    # the first that was ready
    draft = drafts.order_by("saved_at").first()
    if draft is None:
        return None
    return Advice.objects.create(
        ask=ask,
        text=draft.text,
        tool_calls=draft.tool_calls,
        source="llm",
        author=draft.author,
        author_key=draft.author_key,
        privilege=draft.privilege,
        confidence=draft.confidence,
        reason="prepared",
    )


@transaction.atomic
def close_if_due(ask_id: str) -> Ask:
    """Close the ask if the hold of its answer or its deadline has passed. Any reader can call this; no worker is
    needed."""
    ask = Ask.objects.select_related("accepted").get(pk=ask_id)
    # Checked without a lock first: most reads find an ask that is not due.
    if ask.is_due(timezone.now()):
        ask = locked(ask_id)
        end_if_due(ask)
    return ask


def end_if_due(ask: Ask) -> None:
    """Close a locked ask that is due: with the answer that was held, also after its deadline, or as fell back.

    Of those who come at one moment, the lock lets one find it due.
    """
    if not ask.is_due(timezone.now()):
        return
    if (answer := ask.held) is not None:
        settle(ask, answer, Author(answer.author, answer.author_key))
    if ask.is_due(timezone.now()):
        close(ask, AskStatus.FELL_BACK, "deadline", None)


def close_due(now: datetime | None = None) -> int:
    """Close due asks that no request has read, and return how many. Called by the periodic sweep."""
    # Bounded, so that a sweep ends; the next one closes the rest.
    due = list(Ask.objects.due(now or timezone.now()).values_list("pk", flat=True)[:500])
    return sum(_is_closed(pk) for pk in due)


def _is_closed(ask_id: str) -> bool:
    """Close a due ask. One that cannot be closed keeps no other open."""
    try:
        return not close_if_due(ask_id).is_open
    except (AppError, DataError) as refused:
        logging.getLogger(__name__).error("ask %s could not be closed: %s", ask_id, refused)
        return False


@transaction.atomic
def cancel(actor: Actor, ask_id: str, reason: str = "asker", heard: Heard | None = None) -> Ask:
    may_record(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask = locked(ask_id)
    refuse_other_loop(actor, ask.episode.origin)
    _end_if_held_long_enough(ask)
    if ask.is_open:
        close(ask, AskStatus.CANCELLED, reason, actor, heard=heard)
    return ask


def cancel_of_episode(episode: Episode, reason: str) -> None:
    """Close the asks of an ending episode in its own transaction. Registered with `ending.on_end`."""
    if episode.expert == ExpertMode.OFF:
        return  # `queue` refused all asks of such an episode, so there is nothing to close
    for ask in Ask.objects.select_for_update().open().filter(episode=episode):
        ask.episode = episode
        _end_if_held_long_enough(ask)
        if ask.is_open:
            close(ask, AskStatus.CANCELLED, "episode_ended", None)


def _end_if_held_long_enough(ask: Ask) -> None:
    """Send an answer whose hold is over before its ask ends otherwise: its author was shown that it went."""
    if ask.held_until is not None and ask.held_until <= timezone.now():
        end_if_due(ask)


def look(actor: Actor, ask_id: str) -> Ask:
    """Return the current state of an ask, closed if it is due. The asker's read delivers the advice."""
    asker = is_asker(actor)
    (may_record if asker else may_read)(actor)
    ask = visible_or_404(Ask.objects.select_related("accepted"), actor, ask_id)
    if ask.is_due(timezone.now()):
        ask = close_if_due(ask_id)
    return _delivered(ask) if asker else ask


def _delivered(ask: Ask) -> Ask:
    """Store the first read of an answer as its delivery, and return the ask with what was delivered."""
    if ask.accepted_id is None or ask.delivered_at is not None:
        return ask
    # conditional: of two reads at one moment one is the delivery, and the answer can be withdrawn before it
    first = Ask.objects.filter(pk=ask.pk, delivered_at__isnull=True, accepted__isnull=False)
    is_first = first.update(delivered_at=timezone.now()) == 1
    ask = Ask.objects.select_related("assignment", "accepted").get(pk=ask.pk)
    if is_first:
        events.tell(ask)
    return ask


@transaction.atomic
def consume(actor: Actor, ask_id: str) -> Ask:
    """Record that the agent has read the advice. Idempotent."""
    may_record(actor)
    ask = visible_or_404(Ask.objects.select_related("episode"), actor, ask_id)
    refuse_other_loop(actor, ask.episode.origin)
    if ask.is_open:
        raise StillOpen
    recording.hear(actor, ask.episode_id)
    now = timezone.now()
    # conditional: the answer can be withdrawn between the read above and this update
    fresh = Ask.objects.filter(pk=ask_id, consumed_at__isnull=True).exclude(status=AskStatus.OPEN)
    if fresh.update(consumed_at=now, delivered_at=F("delivered_at") if ask.delivered_at else now) == 1:
        ask = Ask.objects.select_related("assignment", "accepted").get(pk=ask_id)  # it may have been edited since
        events.tell(ask)
        return ask
    ask = Ask.objects.select_related("assignment", "accepted").get(pk=ask_id)
    if ask.is_open:
        raise StillOpen  # withdrawn between the read and the receipt
    return ask
