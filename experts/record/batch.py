"""Writes: approve or reject several approvals together.

Owns which approvals can be decided by one press: each of one call, all of one tool, and approved only at low risk. Each
is claimed and answered as by a press of its own, so a refusal leaves the others decided. Owns also what a standing
answer for calls like them covers; `standing_answers.py` gives it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from django.utils import timezone
from pydantic import ValidationError

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.schema import StandingAnswerBody
from episodes.models import Run
from episodes.show.decisions import value_in_words
from episodes.tool_schemas import Checker
from experts.models import Advice, Ask, Privilege
from experts.record import advising, queue
from experts.record.advising import Said
from experts.record.standing_answers import same_value
from experts.rules.call_fit import breaks_in
from experts.rules.risk import only_call, why_not_together
from experts.rules.second_look import Returned
from experts.who.policies import desk_of
from people.access import Actor, may_advise
from people.errors import AppError, Invalid
from people.requests.forms import FormFields, Named, OptionalNumber

TOGETHER_MAX = 100
"""Approvals of one press: each is a claim and an answer."""
FREE_MAX = 100
"""Arguments with any value that a standing answer can name."""
LOOKS_S = 20.0
"""Seconds after which a press begins no further second look of a model; the rest wait for another press."""
LATER = "Not sent: the second looks of this press took too long. Press again."


def decide(
    actor: Actor, chosen: Sequence[str], verdict: str, reason: str, nonce: str, hold_s: float = 0
) -> dict[str, str]:
    """Approve or reject the chosen approvals. Return an empty text or the reason for a refusal, by ask."""
    asks, began, outcomes = _checked(actor, chosen, verdict, reason), time.monotonic(), dict[str, str]()
    looks = bool(desk_of(actor.project).second_look_model)
    for ask in asks:
        is_late = looks and time.monotonic() - began > LOOKS_S
        outcomes[ask.pk] = (
            LATER if is_late else _decide(actor, ask, verdict, reason, advising.nonce_of(nonce, ask.pk), hold_s)
        )
    return outcomes


def _checked(actor: Actor, chosen: Sequence[str], verdict: str, reason: str) -> list[Ask]:
    """Return the chosen approvals. Raises if they cannot be decided together."""
    may_advise(actor)
    if verdict not in ("approve", "reject"):
        raise Invalid("Choose approve or reject.")
    if len(chosen) > TOGETHER_MAX:
        raise Invalid(f"Select at most {TOGETHER_MAX} asks.")
    if verdict == "reject" and not reason.strip():
        raise Invalid("Enter a reason. Each agent gets it as written.")
    asks = list(
        Ask.objects.filter(project=actor.project, pk__in=chosen).select_related("episode__run").order_by("deadline_at")
    )
    if not all(ASK_KINDS[ask.kind].is_approval for ask in asks):
        raise Invalid("Only approvals can be approved or rejected.")
    if len({ask.privilege for ask in asks}) > 1:
        # a reason that was written with verifier access must not reach a blind ask
        raise Invalid("Some of these asks are blind and some see the verifier. Decide them separately.")
    if verdict == "approve" and (why := why_not_together(map(_tool, asks), desk_of(actor.project).high_risk)):
        raise Invalid(why)
    if verdict == "approve" and (words := _first_breaks(asks)):
        raise Invalid(f"The arguments of a call do not fit its tool: {words}. Decide it on its page.")
    return asks


def _first_breaks(asks: Sequence[Ask]) -> str:
    """Return where the arguments of the first call that does not fit break its schema. All share one budget."""
    checker = Checker(formats=True)
    for ask in asks:
        breaks = breaks_in((ask.typed or {})["calls"], ask.episode.tools, checker)
        if words := "; ".join(place.words for places in breaks for place in places):
            return words
    return ""


def decide_equal(
    actor: Actor, ask: Ask, chosen: Sequence[str], decision: Any, nonce: str, hold_s: float
) -> dict[str, str]:
    """Decide the chosen approvals of the same call as this one was. An edit is that ask's alone."""
    equal = Ask.objects.filter(project=actor.project, calls_digest=ask.calls_digest, pk__in=chosen)
    keys = list(equal.exclude(calls_digest="").exclude(pk=ask.pk).values_list("pk", flat=True))
    call = decision["calls"][0]
    if call["verdict"] == "edit":
        return dict.fromkeys(keys, "the call was edited for one ask")
    try:
        return decide(actor, keys, call["verdict"], call.get("reason") or "", nonce, hold_s) if keys else {}
    except AppError as refused:
        return dict.fromkeys(keys, refused.message)  # the first decision is sent and stays


@dataclass(frozen=True)
class Alike:
    """What calls of one press have in common, and the runs in which calls like them can be approved ahead."""

    asks: list[Ask]
    tool: str
    arguments: dict[str, Any]
    others: list[str]
    """Names of their other arguments, which some of them have or have with another value."""
    run: Run | None
    """The run of all of them."""

    @property
    def values(self) -> list[tuple[str, str]]:
        """Return the shared arguments, as people read JSON."""
        return [(name, value_in_words(value)) for name, value in self.arguments.items()]

    @property
    def run_only(self) -> bool:
        """Whether they can be approved in their run only: who approves them has verifier access there."""
        return self.asks[0].privilege != Privilege.BLIND


def alike(actor: Actor, chosen: Sequence[str]) -> Alike:
    """Return what the chosen approvals have in common. Raises if they cannot be approved together."""
    asks = _checked(actor, chosen, "approve", "")
    calls = [(ask.typed or {})["calls"][0] for ask in asks]
    first, *rest = [call.get("arguments") or {} for call in calls]
    shared = {name: value for name, value in first.items() if all(same_value(one, name, value) for one in rest)}
    others = [name for name in dict.fromkeys(chain(first, *rest)) if name not in shared]
    runs = {run.pk: run for ask in asks if (run := ask.episode.run) is not None}
    # asks without a run belong to none
    of_one = len(runs) == 1 and all(ask.episode.run_id for ask in asks)
    return Alike(asks, calls[0]["name"], shared, others, next(iter(runs.values())) if of_one else None)


class AheadForm(FormFields):
    """How calls like the chosen ones are approved ahead: those with the `same` arguments, and with `further` ones
    or without, in a run, how long."""

    run: str = ""
    same: list[str] = []
    further: Named = False
    hours: OptionalNumber = None
    at_most: OptionalNumber = None


def ahead_of(alike: Alike, form: AheadForm) -> StandingAnswerBody:
    """Return the standing answer that a form wants for calls like these. Raises if a field is wrong."""
    if form.run and (alike.run is None or alike.run.pk != form.run):
        raise Invalid("These asks are not all of that run.")
    if alike.run_only and not form.run:
        raise Invalid("Calls of asks with verifier access are approved ahead in their run only.")
    equal = {name: value for name, value in alike.arguments.items() if name in form.same}
    free = [name for name in (*alike.arguments, *alike.others) if name not in equal]
    if not form.further and len(free) > FREE_MAX:
        raise Invalid("These calls have too many different arguments. Allow further arguments, or choose fewer calls.")
    words = "Enter how many calls like these are approved at most, from 1 to 100,000."
    if form.hours is None or form.at_most is None:
        raise Invalid(words)
    try:
        return StandingAnswerBody(
            tool=alike.tool,
            arguments=equal,
            any_value=None if form.further else free,
            run=form.run or None,
            until=timezone.now() + timedelta(hours=form.hours),
            at_most=form.at_most,
        )
    except (ValidationError, OverflowError) as error:
        raise Invalid(words) from error


def _sent(actor: Actor, ask: Ask, nonce: str) -> Advice | None:
    """Return what a press with this nonce has decided on an ask before."""
    sent = Advice.objects.filter(ask=ask, author_key=actor.key, nonce=nonce, late=False)
    return sent.first() if nonce else None


def _tool(ask: Ask) -> str:
    return only_call(ask.typed)


def _decide(actor: Actor, ask: Ask, verdict: str, reason: str, nonce: str, hold_s: float) -> str:
    fields = {"verdict": verdict} | ({"reason": reason} if verdict == "reject" else {})
    calls = [{"id": call["id"], **fields} for call in (ask.typed or {})["calls"]]
    try:
        words = Said("", None, advising.check(ask, "", None, {"calls": calls}))
        if (sent_before := _sent(actor, ask, nonce)) is not None:
            words.refuse_other_than(sent_before)
            return ""
        lease = queue.claim(actor, ask.pk)
        try:
            sent = (lease.assignment_id, lease.lease_token, "", nonce)
            advising.answer(actor, *sent, decision={"calls": calls}, hold_s=hold_s)
        except Returned:
            queue.release(actor, lease.assignment_id, lease.lease_token)
            raise
    except AppError as refused:
        return refused.message
    return ""
