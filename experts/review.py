"""Writes: what people, models and programs say about a step or an episode, beside the queue.

Owns annotations, which are only ever added: a change of mind is a new row, and the newest of an author under a label
counts. Called by the pages, and by `advising.py` for a text that comes too late to be advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from episodes.models import Episode, ExpertMode, Step
from episodes.step_cards import call_in_words
from experts.errors import StillOpen
from experts.models import LATE, Annotation, Ask, Draft, Privilege
from people.access import Actor, may_annotate, visible_or_404
from people.errors import Invalid, NotFound

TAGS = ("question_needed", "answerable", "asked_too_late")
"""What a person says about a question with one key; the text of the annotation is yes, no, or empty for neither."""
TAG_VALUES = ("yes", "no", "")
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,59}")
_LONGEST = 100_000


def annotate(
    actor: Actor, episode: Episode, seq: int | None, label: str, text: str, ask: Ask | None = None
) -> Annotation:
    """Say something about a step, or without a number about the whole episode. The same again is a quiet yes."""
    may_annotate(actor)
    if not _LABEL.fullmatch(label):
        raise Invalid("A label is a plain name: small letters, digits, - and _, at most 60.")
    if len(text) > _LONGEST:
        raise Invalid("An annotation holds at most 100,000 characters.")
    if ask is not None and ask.episode_id != episode.pk:
        raise NotFound
    with transaction.atomic():
        visible_or_404(Episode.objects.select_for_update(no_key=True), actor, episode.pk)
        if seq is not None and not Step.objects.filter(episode=episode, seq=seq).exists():
            raise Invalid(f"This episode has no step {seq}.")
        mine = Annotation.objects.filter(episode=episode, seq=seq, ask=ask, label=label, author_key=actor.key)
        newest = mine.order_by("-created_at", "-pk").first()
        if newest is not None and newest.text == text:
            return newest
        return _append(actor, episode, seq, label, text, ask)


def _append(actor: Actor, episode: Episode, seq: int | None, label: str, text: str, ask: Ask | None) -> Annotation:
    informed = Privilege.SEES_VERIFIER if episode.expert == ExpertMode.INFORMED else Privilege.BLIND
    return Annotation.objects.create(
        episode=episode,
        seq=seq,
        ask=ask,
        label=label,
        text=text,
        author=actor.name,
        author_key=actor.key,
        author_kind="model" if actor.model else "human" if actor.user else "code",
        privilege=ask.privilege if ask is not None else informed,
    )


def words_of(text: str, calls: Iterable[Mapping[str, Any]]) -> str:
    """An answer as one text, its calls under its words."""
    lines = [call_in_words(call) for call in calls]
    return "\n".join([text, *lines] if text else lines)


@transaction.atomic
def keep_unsent(actor: Actor, ask: Ask) -> None:
    """What somebody wrote and did not send before the ask closed becomes an annotation of its step. Episode before
    draft, as an answer locks them."""
    may_annotate(actor)
    episode = visible_or_404(Episode.objects.select_for_update(no_key=True), actor, ask.episode_id)
    if Ask.objects.open().filter(pk=ask.pk).exists():
        raise StillOpen("The ask is still open; send your text to the agent.")
    draft = Draft.objects.select_for_update().filter(ask=ask, author_key=actor.key).first()
    if draft is not None:
        annotate(actor, episode, ask.seq, LATE, words_of(draft.text or "", draft.tool_calls or []), ask)
        draft.delete()


def tag(actor: Actor, ask: Ask, label: str, value: str) -> Annotation:
    """Say with one word whether a question was needed, could be answered, or came too late."""
    if label not in TAGS or value not in TAG_VALUES:
        raise Invalid("There is no such tag.")
    return annotate(actor, ask.episode, ask.seq, label, value, ask)
