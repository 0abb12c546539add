"""Writes: an answer through a link, and its withdrawal.

The same lease and the same one statement as on every page: who presses at the same moment races for the same row.
"""

from __future__ import annotations

from typing import Any

from experts.errors import TooLate
from experts.find.answer_links import AnswerLink
from experts.models import Advice
from experts.record import advising, queue
from experts.rules.second_look import Returned


def answer(link: AnswerLink, text: str, decision: Any, *, anyway: bool = False, seen: str = "") -> Advice:
    """Claim and answer the ask of a link. A link answers once, also if the answer is withdrawn.

    Raises without a claim if the answer does not fit, if a second look returns it, or if someone else holds the ask.
    """
    # a late text is stored beside the ask and used nothing up
    if (advice := link.said) is not None and not advice.late:
        if link.ask.accepted_id != advice.pk:
            raise TooLate("This link was already used.")
        return advice
    advising.refuse_misfit(link.actor, link.ask, text, decision, seen=seen)
    lease = queue.claim(link.actor, link.ask.pk)
    sent = (lease.assignment_id, lease.lease_token, text, link.nonce)
    try:
        return advising.answer(link.actor, *sent, decision=decision, anyway=anyway, seen=seen)
    except Returned:
        queue.release(link.actor, lease.assignment_id, lease.lease_token)
        raise


def withdraw(link: AnswerLink) -> None:
    """Withdraw the answer of a link and return the ask to the queue. Raises if the agent has read it."""
    advice = link.said
    if advice is None or link.ask.accepted_id != advice.pk:
        raise TooLate("This link was already used.")
    lease = advising.withdraw(link.actor, link.ask.pk)
    queue.release(link.actor, lease.assignment_id, lease.lease_token)
