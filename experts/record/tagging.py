"""Writes: tags of a question, and texts that were not sent in time.

Leaves annotations to `reviews.record.annotating`. Called by the pages, and by `advising.py` for a late text.
"""

from __future__ import annotations

from django.db import transaction

from episodes.models import Episode
from experts.errors import StillOpen
from experts.find.panels import words_of_draft
from experts.models import LATE, Ask, Draft
from experts.models.asks import TAGS
from people.access import Actor, may_annotate, visible_or_404
from people.errors import Invalid
from reviews.models import Annotation
from reviews.record import annotating
from reviews.visible.places import Place

TAG_VALUES = ("yes", "no", "")


def annotate_ask(actor: Actor, ask: Ask, label: str, text: str) -> Annotation:
    """Annotate the step of an ask, under the ask's privilege."""
    where = Place(ask.seq, ask_id=ask.pk)
    return annotating.annotate(actor, ask.episode, where, label, text, privilege=ask.privilege)


@transaction.atomic
def keep_unsent(actor: Actor, ask: Ask) -> None:
    """Store a text that was not sent before the ask closed as an annotation of its step.

    Locks the episode before the draft, in the same order as an answer.
    """
    may_annotate(actor)
    visible_or_404(Episode.every.select_for_update(no_key=True), actor, ask.episode_id)
    if Ask.objects.open().filter(pk=ask.pk).exists():
        raise StillOpen("The ask is still open. Send your text to the agent.")
    draft = Draft.objects.select_for_update().filter(ask=ask, author_key=actor.key).first()
    if draft is not None:
        annotate_ask(actor, ask, LATE, words_of_draft(ask, draft))
        draft.delete()


def tag(actor: Actor, ask: Ask, label: str, value: str) -> Annotation:
    """Set one tag of a question: whether it was needed, could be answered, or came too late."""
    if label not in TAGS or value not in TAG_VALUES:
        raise Invalid("Unknown tag.")
    return annotate_ask(actor, ask, label, value)
