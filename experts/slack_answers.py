"""Writes: answers and comments from Slack, with the second look of a model between the press and the agent.

Slack wants a response within three seconds, and a model can take longer. So where a model looks, the answer is kept as
the person's draft and a worker sends it. A return goes back to the person, with its reason and the button *Send
anyway*. Called by `pages/slack.py` and `tasks.py`.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from experts import looking
from experts.errors import TooLate
from experts.find.reading import asks_of
from experts.models import Ask, Draft
from experts.notifications import KIND
from experts.record import advising, closing, desk, queue, tagging
from notices.record import channels, slack
from notices.record.slack import Pressed
from people.access import visible_or_404
from people.errors import AppError, Invalid
from people.record import jobs
from reviews.models import COMMENT

ANYWAY = "awm_anyway"
"""The button that overrules a return; its value is the message and the version of the draft that was returned."""
CHANGED = "Your draft of this answer has changed since. Press Answer."


def send(pressed: Pressed, ask: Ask, text: str, decision: Any, nonce: str, lease: tuple[str, str]) -> None:
    """Send an answer now, or after a model's look. Raises for one that does not fit."""
    actor = pressed.actor
    if ask.is_open and looking.model_for(actor, ask):
        advising.refuse_misfit(actor, ask, text, decision)
        draft = desk.keep_text(actor, ask.pk, text, decision).version
        arguments = (pressed.id, pressed.slack_user, nonce, str(draft))
        # without a broker the look takes place here
        if not jobs.call_worker("experts.tasks.send_from_slack", *arguments):
            send_looked_at(*arguments)
        return
    advising.answer(actor, *lease, text, nonce, decision=decision)


def send_looked_at(message_id: str, slack_user: str, nonce: str, version: str) -> None:
    """Send the draft that `send` kept, or say at the message why not."""
    pressed = slack.pressed_by(KIND, message_id, slack_user)
    if pressed is None:
        return  # removed since: the draft stays with the ask
    where = (pressed.channel, pressed.ts, slack_user)
    try:
        _send_draft(pressed, version, nonce)
    except looking.ReturnedByModel as refused:
        slack.tell(*where, refused.message, ("Send anyway", ANYWAY, f"{pressed.id} {version}"))
    except AppError as refused:
        slack.tell(*where, not_sent(refused.message))


def not_sent(reason: str) -> str:
    """Return the words for an answer that was not sent; a second look's reason begins with them already."""
    return f"Not sent: {reason.removeprefix('Not sent: ')}"


def send_anyway(pressed: Pressed, version: str) -> None:
    """Send the draft that a model returned. Raises if it has changed since, or if the ask is closed."""
    nonce = f"slack:anyway:{pressed.id}:{version}"[:150]
    _send_draft(pressed, version, nonce, anyway=True)


@transaction.atomic
def comment(pressed: Pressed, ts: str, text: str) -> None:
    """Store a reply in a channel as a comment on the step of its ask, once. The agent does not get it."""
    ask = visible_or_404(asks_of(pressed.actor), pressed.actor, pressed.subject_id)
    if channels.hears(pressed.id, ts):
        tagging.annotate_ask(pressed.actor, ask, COMMENT, text)


def _send_draft(pressed: Pressed, version: str, nonce: str, anyway: bool = False) -> None:
    actor = pressed.actor
    ask = closing.close_if_due(visible_or_404(asks_of(actor), actor, pressed.subject_id).pk)
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
