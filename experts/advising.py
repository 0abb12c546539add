"""Writes: answer, amend, take back, answer a group.

Owns what is said to an ask: the accepted advice, and the late and superseded texts kept beside it. Leaves the lease to
`queue.py` and the closing to `closing.py`. Called by the pages, the API and `llm.py`: people, tokens and models answer
through the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from awmclient.schema import ToolCall
from episodes.record import ask_steps
from experts import closing, events, queue, tagging
from experts.errors import LeaseLost, NotYours, StillOpen, TooLate, Used
from experts.find.similar import began_with, kept, origins
from experts.models import LATE, MODEL, Advice, Ask, AskStatus, Assignment, Draft, Privilege
from experts.rules.suggested_calls import refuse_unfit
from people.access import Actor, may_advise, visible_or_404
from people.errors import AppError, Invalid
from people.slots import FREED


@dataclass(frozen=True)
class Beginning:
    """What an answer began with, a model's draft, an earlier answer or both, and how much of each is left in it."""

    drafted_by: str = ""
    draft_kept: float | None = None
    taken_from: Advice | None = None
    taken_kept: float | None = None


def answer(
    actor: Actor,
    assignment_id: str,
    lease_token: str,
    text: str,
    nonce: str,
    tool_calls: list[ToolCall] | None = None,
    *,
    drafted_by: str = "",
    confidence: float | None = None,
) -> Advice:
    """Answer a claimed ask. Compares the text with its source before any lock is taken."""
    may_advise(actor)
    if not text.strip() and not tool_calls:
        raise Invalid("Write an answer or suggest a call.")
    slot = visible_or_404(Assignment.objects.select_related("ask"), actor, assignment_id, "ask__project")
    began = _beginning(slot.ask, drafted_by, text)
    return _accept(actor, slot, lease_token, text, nonce, tool_calls, began, confidence)


def _accept(
    actor: Actor,
    slot: Assignment,
    lease_token: str,
    text: str,
    nonce: str,
    tool_calls: list[ToolCall] | None,
    began: Beginning,
    confidence: float | None = None,
) -> Advice:
    """Store an answer: 1. a repeated nonce returns the first answer, 2. lock episode and ask, 3. save a late or
    lease-less text beside the ask, a late one also as an annotation of the step, 4. accept: advice, ask, slot and step
    in one transaction, 5. publish."""
    refusal: LeaseLost | TooLate | None = None
    with transaction.atomic():
        ask = closing.locked(slot.ask_id)
        said = Advice.objects.filter(ask=ask, author_key=actor.key, nonce=nonce) if nonce else Advice.objects.none()
        repeated = said.order_by("late").first()
        if repeated is not None and not repeated.late:
            return repeated
        now = timezone.now()
        held = queue.mine(slot, lease_token).exists()
        if ask.is_open and ask.deadline_at <= now:
            closing.close(ask, AskStatus.FELL_BACK, "deadline", None)
        if not ask.is_open or not held:
            refusal = TooLate() if not ask.is_open else LeaseLost()
        if refusal is not None and repeated is not None:
            raise refusal  # the text is kept already; with the lease back in hand the same words count
        advice = _written(ask, actor, text, tool_calls, began, nonce=nonce, confidence=confidence)
        advice.late = refusal is not None
        advice.took_s = (now - slot.claimed_at).total_seconds() if slot.claimed_at and held else None
        advice.save(force_insert=True)
        Draft.objects.filter(ask=ask, author_key=actor.key).delete()  # it is kept as advice now, late or not
        if refusal is None:
            closing.close(ask, AskStatus.ANSWERED, "", actor, advice)
        elif isinstance(refusal, TooLate):
            words = tagging.words_of(text, [call.model_dump() for call in tool_calls or []])
            tagging.annotate_ask(actor, ask, LATE, words)
    if refusal is not None:
        raise refusal
    return advice


def _beginning(ask: Ask, drafted_by: str, text: str) -> Beginning:
    """Return what a form says its text began with, and how much of that the text kept. A draft that is just being
    written anew leaves its mark all the same. Reads and measures; the caller holds no lock.
    """
    key, taken = origins(drafted_by)
    draft = Draft.objects.filter(ask=ask, author_key=key).exclude(text=None).first() if key else None
    model, before = key.removeprefix(MODEL), _taken_up(ask, taken)
    return Beginning(
        drafted_by=model if draft is not None or model in settings.EXPERT_ENDPOINTS else "",
        draft_kept=kept(draft.text, text) if draft is not None else None,
        taken_from=before,
        taken_kept=kept(before.text, text) if before is not None else None,
    )


def _taken_up(ask: Ask, advice_id: str) -> Advice | None:
    """Return the earlier answer that a text began with; words of somebody who saw the verifier never go on as blind
    ones.
    """
    before = Advice.objects.filter(pk=advice_id, ask__project=ask.project_id).first() if advice_id else None
    if before is not None and before.privilege != Privilege.BLIND == ask.privilege:
        raise Invalid("That answer was written with verifier access. This ask is blind.")
    return before


def _written(
    ask: Ask, actor: Actor, text: str, tool_calls: list[ToolCall] | None, began: Beginning, **more: Any
) -> Advice:
    """Return an answer as a row, not yet saved."""
    return Advice(
        ask=ask,
        text=text,
        tool_calls=[call.model_dump() for call in tool_calls] if tool_calls else None,
        source="llm" if actor.model else "human",
        author=actor.name,
        author_key=actor.key,
        privilege=ask.privilege,
        **{**vars(began), **more},
    )


def amend(
    actor: Actor, ask_id: str, text: str, tool_calls: list[ToolCall] | None, nonce: str = "", *, drafted_by: str = ""
) -> Advice:
    """Replace the caller's answer with a new row. Raises if the agent has read it. Marks of a model's draft stay."""
    may_advise(actor)
    if not text.strip() and not tool_calls:
        raise Invalid("Write an answer or suggest a call.")
    seen = visible_or_404(Ask.objects.select_related("accepted"), actor, ask_id)
    began = _beginning(seen, drafted_by or (began_with(seen.accepted) if seen.accepted else ""), text)
    with transaction.atomic():
        ask = closing.locked(ask_id)
        before = _unread(ask, actor)
        if nonce and before.nonce == nonce:
            return before
        advice = _written(ask, actor, text, tool_calls, began, nonce=nonce, supersedes=before, took_s=before.took_s)
        advice.drafted_by = advice.drafted_by or before.drafted_by
        advice.taken_from_id = advice.taken_from_id or before.taken_from_id
        advice.save(force_insert=True)
        Draft.objects.filter(ask=ask, author_key=actor.key).delete()
        ask.accepted = advice
        ask.save(update_fields=["accepted"])
        ask_steps.reword_ask_step(ask.episode, ask.seq, advice.value())
        closing.log(ask, "amended", actor)
        events.tell(Ask.objects.select_related("assignment").get(pk=ask.pk))
    return advice


@transaction.atomic
def take_back(actor: Actor, ask_id: str) -> queue.Claim:
    """Withdraw the caller's answer and reopen the ask with their claim. Raises if the agent has read it."""
    may_advise(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask, now = closing.locked(ask_id), timezone.now()
    _unread(ask, actor)
    if ask.deadline_at <= now or not ask.episode.is_live:
        raise TooLate("The deadline has passed. The agent will get your answer.")
    ask.status, ask.reason, ask.closed_at, ask.accepted, ask.delivered_at = AskStatus.OPEN, "", None, None, None
    ask.save(update_fields=["status", "reason", "closed_at", "accepted", "delivered_at"])
    Assignment.objects.filter(ask=ask).update(**FREED)
    ask_steps.reword_ask_step(ask.episode, ask.seq, None)
    closing.log(ask, "taken_back", actor)
    return queue.take(actor, ask, now)


def _unread(ask: Ask, actor: Actor) -> Advice:
    """Return my accepted answer, if it can still be changed. Caller holds the locks of episode and ask."""
    if ask.status != AskStatus.ANSWERED or ask.accepted is None:
        raise TooLate if ask.status != AskStatus.OPEN else StillOpen
    if ask.accepted.author_key != actor.key or ask.accepted.source == "cache":
        raise NotYours
    if ask.consumed_at is not None:
        raise Used
    return ask.accepted


def answer_group(
    actor: Actor,
    ask: Ask,
    text: str,
    tool_calls: list[ToolCall] | None,
    nonce: str,
    chosen: list[str],
    *,
    drafted_by: str = "",
) -> dict[str, str]:
    """Send what answered one ask to the chosen open asks that ask the same, each in a transaction of its own; by ask,
    empty or why it did not get it. Each can be taken back by itself until its agent has read it. What was written with
    the verifier in sight never reaches an ask that is to be answered blind."""
    group = Ask.objects.filter(project=actor.project, group=ask.group, privilege=ask.privilege, pk__in=chosen)
    same = group.exclude(pk=ask.pk).select_related("episode", "accepted").order_by("deadline_at")
    began = _beginning(ask, drafted_by, text)
    return {one.pk: _answer_same(actor, one, text, tool_calls, nonce_of(nonce, one.pk), began) for one in same}


def nonce_of(nonce: str, ask_id: str) -> str:
    """Return the nonce of an ask that another one's answer served, too: pages find the family by what stands before the
    /.
    """
    return f"{nonce[:150]}/{ask_id}"


def _answer_same(
    actor: Actor, ask: Ask, text: str, tool_calls: list[ToolCall] | None, nonce: str, began: Beginning
) -> str:
    if ask.accepted is not None and (ask.accepted.author_key, ask.accepted.nonce) == (actor.key, nonce):
        return ""  # the same press again
    try:
        refuse_unfit(tool_calls, ask.episode.tools)
        lease = queue.claim(actor, ask.pk)
        slot = visible_or_404(Assignment.objects.all(), actor, lease.assignment_id, "ask__project")
        _accept(actor, slot, lease.lease_token, text, nonce, tool_calls, began)
    except AppError as refused:
        return refused.message
    return ""
