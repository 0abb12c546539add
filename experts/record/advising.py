"""Writes: answer, edit, withdraw, and answer a group of asks.

Owns answers: the accepted advice, and late or superseded texts stored beside it. Leaves the lease to `queue.py` and
closing to `closing.py`. Called by the pages, the API and `llm.py`: people, tokens and models answer through the same
functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from awmclient.schema import ASKS_BACK, ToolCall
from episodes.record import ask_steps
from episodes.show.decisions import decision_in_words
from experts import events
from experts.errors import LeaseLost, TooLate
from experts.find.panels import words_of
from experts.find.similar import began_with, kept, origins
from experts.models import LATE, MODEL, NONCE_OF_PRESS, Advice, Ask, AskStatus, Assignment, Desk, Draft, Privilege
from experts.record import attaching, changing, closing, counting, queue, tagging
from experts.rules import routing, second_look
from experts.rules.decisions import checked
from experts.rules.suggested_calls import refuse_unfit
from experts.who.counting import refuse_uncounted, refuse_unshared
from experts.who.policies import desk_read_with
from people.access import Actor, is_id, may_advise, visible_or_404
from people.errors import AppError, Invalid, KeyConflict, NotFound
from people.rows import ModelRows
from people.slots import SlotState

_SLOT, _DESK, _ADVICE = ModelRows(Assignment), ModelRows(Desk), ModelRows(Advice)
CLAIMED = f"""
SELECT {_SLOT.columns("slot")}, {closing.ASK.columns("ask")}, {closing.EPISODE.columns("episode")},
       {_DESK.columns("desk")}
  FROM experts_assignment AS slot JOIN experts_ask AS ask ON ask.id = slot.ask_id
  JOIN episodes_episode AS episode ON episode.id = ask.episode_id
  LEFT JOIN experts_desk AS desk ON desk.project_id = ask.project_id
 WHERE slot.id = %s AND ask.project_id = %s
"""
SENT = """
SELECT slot.state, slot.lease_token, (
  -- without a nonce no answer is a repeat; false sorts first: an accepted answer before a late one
  SELECT id FROM experts_advice
   WHERE ask_id = %(ask)s AND author_key = %(author)s AND nonce = %(nonce)s AND nonce <> '' ORDER BY late LIMIT 1
), EXISTS (
  -- as `attached.unsent_files`
  SELECT FROM experts_attachment
   WHERE ask_id = %(ask)s AND side = 'answer' AND uploader_key = %(author)s AND advice_id IS NULL
) FROM experts_assignment AS slot WHERE slot.id = %(slot)s
"""


@dataclass(frozen=True)
class Beginning:
    """The sources of an answer (a model's draft, an earlier answer or both) and the share of each that it kept."""

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
    decision: Any = None,
    anyway: bool = False,
    asks_back: bool = False,
    hold_s: float = 0,
    seen: str = "",
) -> Advice:
    """Answer a claimed ask. Compares the text with its source before any lock is taken.

    `anyway`: its author read why a second look returned it and sends it anyway. `hold_s`: how long the author can
    undo it, if the deadline leaves that time. `seen`: digest of a colleague's edit that the author saw.
    """
    may_advise(actor)
    slot = _slot_of(actor, assignment_id)
    words = Said(text, tool_calls, check(slot.ask, text, tool_calls, decision, seen), asks_back)
    _refuse_question(slot.ask, words)
    _look_again(actor, slot.ask, words)
    # the same press again was looked at
    overruled = _overruled(actor, slot.ask, words, anyway) if not _is_sent(actor, slot.ask, nonce) else ""
    began = _beginning(slot.ask, drafted_by, text)
    return _accept(actor, slot, lease_token, words, nonce, began, confidence, overruled=overruled, hold_s=hold_s)


def _slot_of(actor: Actor, assignment_id: str) -> Assignment:
    """Return a slot with its ask, and with what an answer is checked against: episode and settings of the desk."""
    row = None
    if is_id(assignment_id):
        with connection.cursor() as cursor:
            cursor.execute(CLAIMED, [assignment_id, actor.project.pk])
            row = cursor.fetchone()
    if row is None:
        raise NotFound
    slot, row = _SLOT.made(row), row[_SLOT.width :]
    slot.ask, row = closing.ASK.made(row), row[closing.ASK.width :]
    slot.ask.episode, row = closing.EPISODE.made(row), row[closing.EPISODE.width :]
    slot.ask.project = slot.ask.episode.project = actor.project
    actor.project.desk = _DESK.made(row) if row[0] is not None else Desk(project=actor.project)
    return slot


Look = Callable[[Actor, Ask, "Said", bool], str]
_looks: list[Look] = []


def on_leaving(look: Look) -> None:
    """Register what looks at each answer before it leaves: it raises to return it, or returns the reason of an earlier
    return that the author overrules."""
    _looks.append(look)


@dataclass(frozen=True)
class Said:
    """What an answer says: words, suggested calls, the decision of a typed ask, and whether it is a question."""

    text: str
    tool_calls: list[ToolCall] | None = None
    decision: dict[str, Any] | None = None
    asks_back: bool = False

    def columns(self) -> dict[str, Any]:
        calls = [call.model_dump() for call in self.tool_calls] if self.tool_calls else None
        reason = ASKS_BACK if self.asks_back else ""
        return {"text": self.text, "tool_calls": calls, "decision": self.decision, "reason": reason}

    def refuse_other_than(self, sent: Advice) -> None:
        """Raise if an answer that was sent under the same nonce says something else: a repeat says the same."""
        if any(getattr(sent, name) != value for name, value in self.columns().items()):
            raise KeyConflict("Not sent: you sent another answer to this ask before. Undo or edit that one.")


def check(
    ask: Ask, text: str, tool_calls: list[ToolCall] | None, decision: Any, seen: str = ""
) -> dict[str, Any] | None:
    """Return the checked decision of a typed ask, None for a question. Raises if the answer does not fit the ask."""
    if ask.typed:
        if tool_calls:
            raise Invalid("tool_calls: a typed ask is answered with a decision, without suggested calls.")
        fit = checked(ask.typed, decision, _tools_of(ask))
        refuse_unshared(ask, fit, seen)
        return fit
    if decision is not None:
        raise Invalid("decision: this ask is a question. Answer with a text.")
    if not text.strip() and not tool_calls:
        raise Invalid("Write an answer or suggest a call.")
    _refuse_unfit(ask, tool_calls)
    return None


def _tools_of(ask: Ask) -> Iterator[dict[str, Any]]:
    """Return the agent's tools, which are read at the first of them: most answers need none."""
    yield from ask.episode.tools or []


def _refuse_question(ask: Ask, words: Said) -> None:
    """Raise if this answer cannot be a question to the agent."""
    if words.asks_back and ask.typed:
        raise Invalid("asks_back: a typed ask is answered with a decision. Reject with your question as the reason.")
    if words.asks_back and (words.tool_calls or not words.text.strip()):
        raise Invalid("asks_back: write the question as text, without suggested calls.")


def refuse_misfit(
    actor: Actor, ask: Ask, text: str, decision: Any, tool_calls: list[ToolCall] | None = None, *, seen: str = ""
) -> Said:
    """Raise if an answer would be refused for what it says, before the ask is claimed for it; return it checked."""
    words = Said(text, tool_calls, check(ask, text, tool_calls, decision, seen))
    _look_again(actor, ask, words)
    return words


def _is_sent(actor: Actor, ask: Ask, nonce: str) -> bool:
    sent = Advice.objects.filter(ask=ask, author_key=actor.key, nonce=nonce, late=False)
    # one of several decisions leaves its ask open
    is_out = not ask.is_open or ask.held_id is not None or ask.quorum_of > 1
    return bool(nonce) and is_out and sent.exists()


def _overruled(actor: Actor, ask: Ask, words: Said, anyway: bool) -> str:
    """Return the reason of a second look that the author overrules. Raises for one that returns this answer.

    Every way by which an answer of a person leaves comes through here, or sends the same words to asks that are alike.
    """
    return next((reason for look in _looks if (reason := look(actor, ask, words, anyway))), "")


def _look_again(actor: Actor, ask: Ask, words: Said) -> None:
    """Raise if a rule of the project returns this answer. Models have their own check, and no one to return it to.

    The ask was read with `project__desk`.
    """
    rules = desk_read_with(ask.project).second_look if not actor.model else ""
    if rules:
        calls = [call.model_dump() for call in words.tool_calls or []]
        # as people read them: escapes would hide letters of other scripts from a pattern
        parts = [json.dumps(one, ensure_ascii=False) for one in (calls, words.decision) if one]
        second_look.refuse(rules, [words.text, *parts])


def _refuse_unfit(ask: Ask, tool_calls: list[ToolCall] | None) -> None:
    """Raise for a suggested call that the agent's tools would refuse; a loop that reported no tools accepts any."""
    if tool_calls and ask.episode.tools:
        refuse_unfit(tool_calls, ask.episode.tools)


def _accept(
    actor: Actor,
    slot: Assignment,
    lease_token: str,
    words: Said,
    nonce: str,
    began: Beginning,
    confidence: float | None = None,
    first: Ask | None = None,
    overruled: str = "",
    hold_s: float = 0,
) -> Advice:
    """Store an answer, with the files of the `first` ask of its group.

    1. Return the first answer for a repeated nonce with the same words. 2. Lock episode and ask. 3. Store a late text,
    or one without the lease, beside the ask; a late one also as an annotation of the step. 4. Accept: advice, ask, slot
    and step in one transaction; one that is held waits for its end. 5. Publish.
    """
    refusal: LeaseLost | TooLate | None = None
    with transaction.atomic():
        ask = closing.locked(slot.ask_id)
        with connection.cursor() as cursor:
            cursor.execute(SENT, {"ask": ask.pk, "slot": slot.pk, "author": actor.key, "nonce": nonce})
            slot_state, slot_token, sent_id, has_files = cursor.fetchone()
        repeated = Advice.objects.get(pk=sent_id) if sent_id else None
        if repeated is not None and not repeated.late:
            words.refuse_other_than(repeated)
            return repeated
        now = timezone.now()
        # Before the close below, which ends the slot. Closing an ask ends its slot, so the ask need not be looked at.
        held = Assignment(state=slot_state, lease_token=slot_token).has_lease(lease_token)
        # any reader of an expired ask closes it, and so does a writer
        closing.end_if_due(ask)
        if not ask.is_open or not held:
            lost = LeaseLost("Your claim of this ask has ended. Your text is saved with it.")
            refusal = lost if ask.is_open else TooLate()
        if refusal is None:
            refuse_uncounted(actor, ask)
        elif repeated is not None:
            raise refusal  # the text is stored already; after a new claim the same text is accepted
        advice = _new_advice(ask, actor, words, began, nonce=nonce, confidence=confidence, overruled=overruled)
        advice.late = refusal is not None
        advice.took_s = (now - slot.claimed_at).total_seconds() if slot.claimed_at and held else None
        _store(advice)
        if refusal is None:
            attaching.send_files(actor, advice, first, has_files)
            if seconds := routing.hold_s(hold_s, now, ask.deadline_at):
                closing.hold(ask, advice, seconds)
            else:
                closing.settle(ask, advice, actor)
        elif isinstance(refusal, TooLate):
            calls = [call.model_dump() for call in words.tool_calls or []]
            decided = decision_in_words(ask.typed, words.decision)
            tagging.annotate_ask(actor, ask, LATE, words_of(words.text, calls, decided))
    # Raised after the commit, so that the refused text stays stored.
    if refusal is not None:
        raise refusal
    return advice


def _store(advice: Advice) -> None:
    """Write an answer in one statement with the end of its author's draft, whose text it holds now, late or not."""
    stored, values = _ADVICE.stored([advice])
    ended = "DELETE FROM experts_draft WHERE ask_id = %s AND author_key = %s"
    with connection.cursor() as cursor:
        cursor.execute(f"WITH ended AS ({ended}) {stored}", [advice.ask_id, advice.author_key, *values])


def _beginning(ask: Ask, drafted_by: str, text: str) -> Beginning:
    """Return the sources that a form names and how much of each the text kept.

    A draft counts even while the model writes a new version of it. Reads and compares only, so the caller need not hold
    a lock.
    """
    key, taken = origins(drafted_by)
    # a row without a text is a draft that a model is still writing
    draft = Draft.objects.filter(ask=ask, author_key=key).exclude(text=None).first() if key else None
    model, before = key.removeprefix(MODEL), _source_answer(ask, taken)
    return Beginning(
        drafted_by=model if draft is not None or model in settings.EXPERT_ENDPOINTS else "",
        draft_kept=kept(draft.text, text) if draft is not None else None,
        taken_from=before,
        taken_kept=kept(before.text, text) if before is not None else None,
    )


def _source_answer(ask: Ask, advice_id: str) -> Advice | None:
    """Return the earlier answer that a text started from. Raises if the ask is blind and its author was not."""
    before = Advice.objects.filter(pk=advice_id, ask__project=ask.project_id).first() if advice_id else None
    # chained: the earlier answer is not blind, and this ask is
    if before is not None and before.privilege != Privilege.BLIND == ask.privilege:
        raise Invalid("That answer was written with verifier access. This ask is blind.")
    return before


def _new_advice(ask: Ask, actor: Actor, words: Said, began: Beginning, **more: Any) -> Advice:
    """Return an answer as an unsaved row."""
    return Advice(
        ask=ask,
        **words.columns(),
        by=("model" if actor.model else "person") if ask.typed else "",
        source="llm" if actor.model else "human",
        author=actor.name,
        author_key=actor.key,
        behind=actor.token.behind if actor.token else "",
        privilege=ask.privilege,
        **{**vars(began), **more},
    )


def edit(
    actor: Actor,
    ask_id: str,
    text: str,
    tool_calls: list[ToolCall] | None,
    nonce: str = "",
    *,
    drafted_by: str = "",
    decision: Any = None,
    anyway: bool = False,
    asks_back: bool = False,
) -> Advice:
    """Replace the caller's answer with a new row. Raises if the agent has read it. Marks of a model's draft stay."""
    may_advise(actor)
    seen = visible_or_404(Ask.objects.select_related("accepted", "episode"), actor, ask_id)
    words = Said(text, tool_calls, check(seen, text, tool_calls, decision), asks_back)
    _refuse_question(seen, words)
    _look_again(actor, seen, words)
    overruled = _overruled(actor, seen, words, anyway)
    began = _beginning(seen, drafted_by or (began_with(seen.accepted) if seen.accepted else ""), text)
    with transaction.atomic():
        ask = closing.locked(ask_id)
        if ask.quorum_of > 1:
            raise Invalid("This approval needs several people. Withdraw your decision and decide again.")
        before = changing.editable_answer(ask, actor)
        # the same press again
        if nonce and before.nonce == nonce:
            words.refuse_other_than(before)
            return before
        # the time from claim to answer stays that of the first version
        advice = _new_advice(
            ask, actor, words, began, nonce=nonce, supersedes=before, took_s=before.took_s, overruled=overruled
        )
        advice.drafted_by = advice.drafted_by or before.drafted_by
        advice.taken_from_id = advice.taken_from_id or before.taken_from_id
        _store(advice)
        attaching.move_files(before, advice)
        ask.accepted = advice
        ask.save(update_fields=["accepted"])
        ask_steps.reword_ask_step(ask.episode, ask.seq, advice.value())
        closing.log(ask, "amended", actor)
        events.tell(Ask.objects.select_related("assignment").get(pk=ask.pk))
    return advice


def withdraw(actor: Actor, ask_id: str) -> queue.AskClaim:
    """Withdraw the caller's answer and give the ask back to their claim, whatever else they claimed since.

    One that is held never left: it was worked on until now. Raises if the agent has read it; and for one of several
    decisions, which counts no longer then, if the caller cannot claim the ask.
    """
    may_advise(actor)
    claim = _withdraw(actor, ask_id)
    if isinstance(claim, AppError):
        raise type(claim)(f"Your decision counts no longer. {claim.message}")
    return claim


@transaction.atomic
def _withdraw(actor: Actor, ask_id: str) -> queue.AskClaim | AppError:
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask, now = closing.locked(ask_id), timezone.now()
    before = changing.changeable_answer(ask, actor)
    was_held, was_accepted = before.pk == ask.held_id, before.pk == ask.accepted_id
    if ask.deadline_at <= now or not ask.episode.is_live:
        raise TooLate("The deadline has passed. The agent will get your answer.")
    ask.status, ask.reason, ask.closed_at, ask.accepted, ask.delivered_at = AskStatus.OPEN, "", None, None, None
    ask.held, ask.held_until = None, None
    ask.save(update_fields=["status", "reason", "closed_at", "accepted", "delivered_at", "held", "held_until"])
    attaching.move_files(before, None)
    counting.uncount(before)
    # the time worked goes on in what its author sends next
    counting.free_nonces(Advice.objects.filter(ask=ask, author_key=before.author_key, late=False), before)
    if was_held:
        Advice.objects.filter(pk=before.pk).update(took_s=None)
    slots = Assignment.objects.filter(ask=ask)
    began = slots.values_list("claimed_at", flat=True).get()
    if was_held or was_accepted:
        # the claim that it was sent under, ended, so that the claim below finds the caller's own or an expired one
        slots.update(state=SlotState.CLAIMED, holder=actor.key, holder_name=actor.name, lease_until=now)
    if was_accepted:
        ask_steps.reword_ask_step(ask.episode, ask.seq, None)
    closing.log(ask, "taken_back", actor)
    try:
        claim = queue.claim_locked(actor, ask, now)
    except AppError as refused:
        if was_held or was_accepted:
            raise
        events.tell(ask)
        return refused
    if was_held:
        slots.update(claimed_at=began)
    return claim


def answer_group(
    actor: Actor,
    ask: Ask,
    text: str,
    tool_calls: list[ToolCall] | None,
    nonce: str,
    chosen: list[str],
    *,
    drafted_by: str = "",
    overruled: str = "",
    hold_s: float = 0,
) -> dict[str, str]:
    """Send one answer to the chosen open asks with the same question, also of other tasks, each in its own transaction.

    The look at the answer to the first ask counts for them; `overruled` is its reason, if the author sent it anyway.

    Returns an empty text or the reason for a refusal, by ask. Each answer can be withdrawn separately until its agent
    has read it. An answer written with verifier access never reaches a blind ask.
    """
    # the choice comes from a form: it can name asks with the same words or of the same group, of one privilege
    alike = Q(question=ask.question) | (Q(group=ask.group) if ask.group else Q(pk__in=[]))
    alike &= Q(pictures_digest=ask.pictures_digest, privilege=ask.privilege, kind=ask.kind)
    rows = Ask.objects.filter(alike, project=actor.project, pk__in=chosen)
    same = rows.exclude(pk=ask.pk).select_related("episode", "accepted", "held").order_by("deadline_at")
    began = _beginning(ask, drafted_by, text)
    more = (began, overruled, hold_s)
    return {one.pk: _answer_same(actor, ask, one, text, tool_calls, nonce_of(nonce, one.pk), *more) for one in same}


def nonce_of(nonce: str, ask_id: str) -> str:
    """Return the nonce for one ask of a group. Pages find the group by the part before the slash."""
    # the column has 200 characters, and the ID of the ask must fit behind it
    # whatever nonce a program sends
    return f"{nonce[:NONCE_OF_PRESS]}/{ask_id}"


def _answer_same(
    actor: Actor,
    first: Ask,
    ask: Ask,
    text: str,
    tool_calls: list[ToolCall] | None,
    nonce: str,
    began: Beginning,
    overruled: str,
    hold_s: float,
) -> str:
    sent = ask.accepted or ask.held
    if sent is not None and (sent.author_key, sent.nonce) == (actor.key, nonce):
        return ""  # the same press again
    try:
        refuse_unfit(tool_calls, ask.episode.tools)
        _look_again(actor, ask, Said(text, tool_calls))
        lease = queue.claim(actor, ask.pk)
        slot = visible_or_404(Assignment.objects.all(), actor, lease.assignment_id, "ask__project")
        words = Said(text, tool_calls)
        press = (actor, slot, lease.lease_token, words, nonce, began)
        _accept(*press, first=first, overruled=overruled, hold_s=hold_s)
    except AppError as refused:
        return refused.message
    return ""
