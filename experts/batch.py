"""Writes: approve or reject several approvals together.

Owns which approvals can be decided by one press: each of one call, all of one tool, and approved only at low risk. Each
is claimed and answered as by a press of its own, so a refusal leaves the others decided.
"""

from __future__ import annotations

from collections.abc import Sequence

from experts import advising, queue
from experts.find.availability import desk_of
from experts.models import Advice, Ask
from experts.rules.risk import only_call, why_not_together
from people.access import Actor, may_advise
from people.errors import AppError, Invalid

TOGETHER_MAX = 100
"""Approvals of one press: each is a claim and an answer."""


def decide(actor: Actor, chosen: Sequence[str], verdict: str, reason: str, nonce: str) -> dict[str, str]:
    """Approve or reject the chosen approvals. Return an empty text or the reason for a refusal, by ask."""
    may_advise(actor)
    if verdict not in ("approve", "reject"):
        raise Invalid("Choose approve or reject.")
    if len(chosen) > TOGETHER_MAX:
        raise Invalid(f"Select at most {TOGETHER_MAX} asks.")
    if verdict == "reject" and not reason.strip():
        raise Invalid("Enter a reason. Each agent gets it as written.")
    asks = list(Ask.objects.filter(project=actor.project, pk__in=chosen).order_by("deadline_at"))
    if any(ask.kind != "approval" for ask in asks):
        raise Invalid("Only approvals can be approved or rejected.")
    if len({ask.privilege for ask in asks}) > 1:
        # a reason that was written with verifier access must not reach a blind ask
        raise Invalid("Some of these asks are blind and some see the verifier. Decide them separately.")
    if verdict == "approve" and (why := why_not_together(map(_tool, asks), desk_of(actor.project).high_risk)):
        raise Invalid(why)
    return {ask.pk: _decide(actor, ask, verdict, reason, advising.nonce_of(nonce, ask.pk)) for ask in asks}


def _tool(ask: Ask) -> str:
    return only_call(ask.typed)


def _decide(actor: Actor, ask: Ask, verdict: str, reason: str, nonce: str) -> str:
    # the same press again
    if nonce and Advice.objects.filter(ask=ask, author_key=actor.key, nonce=nonce, late=False).exists():
        return ""
    said = {"verdict": verdict} | ({"reason": reason} if verdict == "reject" else {})
    calls = [{"id": call["id"], **said} for call in (ask.typed or {})["calls"]]
    try:
        lease = queue.claim(actor, ask.pk)
        advising.answer(actor, lease.assignment_id, lease.lease_token, "", nonce, decision={"calls": calls})
    except AppError as refused:
        return refused.message
    return ""
