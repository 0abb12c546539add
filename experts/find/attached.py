"""Reads: the files of an ask that an actor may see.

Files of the question follow the question, files of an answer the answer: an agent gets them with the accepted advice,
and before that only their uploader sees them, like a draft.
"""

from __future__ import annotations

from django.db.models import F, Q

from experts.models import Ask, Attachment
from experts.models.asks import AttachmentQuerySet
from people.access import Actor, may_read, records, scoped, visible_or_404


def is_asker(actor: Actor) -> bool:
    """Return whether this is the agent's side: an agent's token, or awmweb's own worker."""
    # the worker has neither a person nor a scope
    return not actor.signed_in and (actor.scope is None or records(actor))


def visible_files(actor: Actor) -> AttachmentQuerySet:
    """Return all files of the project that this actor may see."""
    may_read(actor)
    sent = Q(advice=F("ask__accepted")) if is_asker(actor) else Q(advice__isnull=False) & ~Q(ask__held=F("advice"))
    seen = Q(side="ask") | sent | Q(uploader_key=actor.key)
    return scoped(Attachment.objects.filter(seen), actor.project, "ask__project")


def files_of(actor: Actor, ask_id: str) -> AttachmentQuerySet:
    ask = visible_or_404(Ask.objects.all(), actor, ask_id)
    return visible_files(actor).filter(ask=ask).listed()


def question_files(ask: Ask) -> AttachmentQuerySet:
    """Return the files of a question for a page of it."""
    return Attachment.objects.filter(ask=ask, side="ask").listed()


def unsent_files(actor: Actor, ask: Ask) -> AttachmentQuerySet:
    """Return what this actor has attached to an answer that was not sent."""
    return Attachment.objects.filter(ask=ask, side="answer", advice=None, uploader_key=actor.key).listed()
