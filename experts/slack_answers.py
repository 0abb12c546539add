"""Writes: answers from Slack, with the second look of a model between the press and the agent.

Slack wants a response within three seconds, and a model can take longer. So where a model looks, the answer is kept as
the person's draft and a worker sends it. A return goes back to the thread of the message, with its reason and the
button *Send anyway*. Called by `pages/slack.py` and `tasks.py`.
"""

from __future__ import annotations

from typing import Any

from experts import looking
from experts.errors import TooLate
from experts.find.reading import asks_of
from experts.models import Ask, Draft
from experts.notifications import KIND
from experts.record import advising, closing, desk, queue
from notices.models import Delivery
from notices.record import slack
from people.access import Actor, visible_or_404
from people.errors import AppError, Invalid
from people.record import jobs

ANYWAY = "awm_anyway"
"""The button that overrules a return; its value is the delivery and the version of the draft that was returned."""
CHANGED = "Your draft of this answer has changed since. Press Answer."


def send(row: Delivery, actor: Actor, ask: Ask, text: str, decision: Any, nonce: str, lease: tuple[str, str]) -> None:
    """Send an answer now, or after a model's look. Raises for one that does not fit."""
    if ask.is_open and looking.model_for(actor, ask):
        advising.refuse_misfit(actor, ask, text, decision)
        draft = desk.keep_text(actor, ask.pk, text, decision).version
        arguments = (row.pk, row.subscription.target, nonce, str(draft))
        # without a broker the look takes place here
        if not jobs.call_worker("experts.tasks.send_from_slack", *arguments):
            send_looked_at(*arguments)
        return
    advising.answer(actor, *lease, text, nonce, decision=decision)


def send_looked_at(delivery_id: str, slack_user: str, nonce: str, version: str) -> None:
    """Send the draft that `send` kept, or say in the thread of the message why not."""
    match = slack.pressed_by(KIND, delivery_id, slack_user)
    if match is None:
        return  # removed since: the draft stays with the ask
    row, actor = match
    try:
        _send_draft(row, actor, version, nonce)
    except looking.ReturnedByModel as refused:
        button = ("Send anyway", ANYWAY, f"{row.pk} {version}")
        slack.reply(row.receipt["channel"], row.receipt["ts"], refused.message, button)
    except AppError as refused:
        slack.reply(row.receipt["channel"], row.receipt["ts"], not_sent(refused.message))


def not_sent(reason: str) -> str:
    """Return the words for an answer that was not sent; a second look's reason begins with them already."""
    return f"Not sent: {reason.removeprefix('Not sent: ')}"


def send_anyway(row: Delivery, actor: Actor, version: str) -> None:
    """Send the draft that a model returned. Raises if it has changed since, or if the ask is closed."""
    nonce = f"slack:anyway:{row.pk}:{version}"[:150]
    _send_draft(row, actor, version, nonce, anyway=True)


def _send_draft(row: Delivery, actor: Actor, version: str, nonce: str, anyway: bool = False) -> None:
    ask = closing.close_if_due(visible_or_404(asks_of(actor), actor, row.subject_id).pk)
    # pressed or delivered twice
    if ask.advice.filter(author_key=actor.key, nonce=nonce, late=False).exists():
        return
    if not ask.is_open:
        raise TooLate("This ask is closed.")
    draft = Draft.objects.filter(ask=ask, author_key=actor.key).first()
    if draft is None or str(draft.version) != version:
        raise Invalid(CHANGED)
    lease = queue.claim(actor, ask.pk)
    sent = (lease.assignment_id, lease.lease_token, draft.text or "", nonce)
    advising.answer(actor, *sent, decision=draft.decision, anyway=anyway)
