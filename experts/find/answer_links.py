"""Reads: answer links, signed addresses with which one person answers one ask without a session.

Owns what a link says and who answers with it. Nothing is stored: the ask itself says whether a link was used. It ends
with the deadline, with the person's rights, and with the project's setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.core.signing import BadSignature, Signer
from django.utils import timezone

from experts.models import Advice, Ask
from experts.who.policies import desk_of
from people.access import Actor, holds, may_advise, person
from people.models import Membership
from people.requests.forms import number_in

SALT = "experts.answer-link"
BY_LINK = "link:"
NONCE = f"{BY_LINK}{{}}"
"""Of the answer of a link: it is given once, and a second press finds it."""


@dataclass(frozen=True)
class AnswerLink:
    """A link that is in force: its ask, and who answers with it."""

    token: str
    ask: Ask
    actor: Actor

    @property
    def nonce(self) -> str:
        return NONCE.format(self.ask.pk)

    @property
    def said(self) -> Advice | None:
        """The answer that this link gave, withdrawn or not."""
        answers = Advice.objects.filter(ask=self.ask, author_key=self.actor.key, nonce=self.nonce)
        return answers.order_by("late").first()

    def gave(self, advice: Advice | None) -> bool:
        return advice is not None and (advice.author_key, advice.nonce) == (self.actor.key, self.nonce)


def answer_path(ask: Ask, person_key: str) -> str:
    """Return the address with which a person answers an ask; empty if they are no current member."""
    kind, _, user = person_key.partition(":")
    if kind != "user":
        return ""
    member = Membership.objects.current(timezone.now()).filter(project=ask.project_id, user_id=user).first()
    return f"/answer/{_signer(member).sign(f'{ask.pk}.{member.pk}')}" if member is not None else ""


def link_of(token: str, now: datetime) -> AnswerLink | None:
    """Return the link of a token; None if it is no link or no longer in force. Says nothing about why."""
    ask_id, _, member = token.rpartition(".")[0].partition(".")
    if number_in(member) is None:
        return None
    rows = Membership.objects.current(now).select_related("project", "user")
    membership = rows.filter(pk=member).first()
    if membership is None:
        return None
    try:
        _signer(membership).unsign(token)
    except BadSignature:
        return None
    actor = person(membership)
    asks = Ask.objects.select_related("project", "episode", "episode__run", "assignment", "accepted")
    ask = asks.filter(project=membership.project, pk=ask_id, deadline_at__gt=now).first()
    if ask is None or not desk_of(membership.project).answer_links or not holds(actor, may_advise):
        return None
    return AnswerLink(token, ask, actor)


def _signer(member: Membership) -> Signer:
    # new rights give a membership another entry, and so end its links
    return Signer(sep=".", salt=f"{SALT}.{member.entry}")
