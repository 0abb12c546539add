"""Writes: labels and comments on an episode, a step, or a place within it.

Owns annotations, which are append-only: a change or an undo is a new row that supersedes the previous one. Called by
pages, the API, and `experts` for tags and for answers that arrived too late to be advice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction

from episodes.models import Episode, ExpertMode, Privilege, Step
from episodes.show.json_paths import BadPath
from episodes.visible.lens import lens_of
from people.access import Actor, may_annotate, visible_or_404
from people.errors import Invalid, NotFound
from reviews.errors import Changed, Moved, NotYourAnnotation, SchemaEnded
from reviews.models import COMMENT, Annotation, LabelSchema, ReviewQueue
from reviews.record import mentions, schemas
from reviews.visible.annotated import own_labels
from reviews.visible.places import Place, labelable, written_at

_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,59}")
# the bound of `quote` in the API, too
_LONGEST = 100_000
_NO_WORDS = "A comment needs 1 to 100,000 characters."


def annotate(
    actor: Actor,
    episode: Episode,
    where: Place,
    label: str,
    value: Any,
    *,
    schema: LabelSchema | None = None,
    queue: ReviewQueue | None = None,
    privilege: str = "",
    quote: str | None = None,
) -> Annotation:
    """Add a label or a comment. Repeating it changes nothing. Another value of a label supersedes the author's last one
    there, and another comment is added beside it. `quote` is the author's view of a range of characters.

    A label with a schema takes the values of its current version, or of the version that the review's queue pins.
    People whom a comment names are notified.

    """
    may_annotate(actor)
    if not _LABEL.fullmatch(label):
        raise Invalid("A label must be 1 to 60 lowercase letters, digits, - or _, starting with a letter.")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise Invalid("An annotation can have at most 100,000 characters.")
    if value is None:
        raise Invalid("An annotation needs a value.")
    if label == COMMENT and not str(value).strip():
        raise Invalid(_NO_WORDS)
    with transaction.atomic():
        # one lock per episode orders an author's rows; NO KEY lets steps be added, which refer to the episode
        visible_or_404(Episode.every.select_for_update(no_key=True), actor, episode.pk)
        if schema is not None:
            _refuse_ended(schema, queue)
            # before the comparison below, so that values are compared in their stored form
            value = schemas.checked(schema, value)
        _refuse_nowhere(actor, episode, where, quote)
        fields = {**asdict(where), "label": label}
        before = _newest(Annotation.objects.filter(episode=episode, author_key=actor.key, **fields))
        # an equal value under a newer version is another answer, because its options can differ
        if before is not None and before.text == value and not before.withdrawn and before.schema_id == _id(schema):
            return before
        added = Annotation.objects.create(
            episode=episode,
            text=value,
            schema=schema,
            # several comments at one place are a conversation
            supersedes=None if label == COMMENT else before,
            **fields,
            **author(actor, episode, privilege),
        )
        if label == COMMENT:
            # in the same transaction: no notification about a comment that was rolled back
            mentions.tell(added)
        return added


def annotate_all(actor: Actor, ids: Sequence[str], schema: LabelSchema, value: Any) -> Counter[str]:
    """Label whole episodes, each in its own transaction. Return the number of labeled ones under "", and the number of
    unchanged ones by reason, as text that follows the number."""
    may_annotate(actor)
    value, tally = schemas.checked(schema, value), Counter[str]()
    # read once for all; `annotate` compares again under the lock
    before = own_labels(actor, ids, schema.name)
    for pk in ids:
        own_label = before.get(pk)
        if own_label is not None and (own_label.text, own_label.schema_id) == (value, schema.pk):
            tally["had this label already."] += 1
            continue
        try:
            annotate(actor, visible_episode(actor, pk), Place(), schema.name, value, schema=schema)
            tally[""] += 1
        except NotFound:
            tally["not found in this project."] += 1
        except SchemaEnded:  # the version can have ended since it was read above
            tally["not labeled: the label has a newer version."] += 1
    return tally


def undo_all(actor: Actor, ids: Sequence[str], label: str) -> int:
    """Withdraw the actor's own label from whole episodes; return the number of those."""
    own_rows = own_labels(actor, ids, label)
    for row in own_rows.values():
        undo(actor, row.pk)
    return len(own_rows)


def reword(actor: Actor, annotation_id: str, text: str) -> Annotation:
    """Edit one's own comment by a row that supersedes it. People who are named for the first time are notified, too."""
    may_annotate(actor)
    if not text.strip() or len(text) > _LONGEST:
        raise Invalid(_NO_WORDS)
    with transaction.atomic():
        row = _own(actor, annotation_id)
        if row.label != COMMENT:
            raise Invalid("Only a comment can be reworded. Set the label again instead.")
        # a row has at most one successor, so a second edit of the old row is a repeat or a conflict
        later = Annotation.objects.filter(supersedes=row).first()
        if later is not None and later.text == text:
            return later
        # another tab edited or withdrew it meanwhile, and its words would be lost
        if later is not None or row.withdrawn:
            raise Changed
        added = _superseding(actor, row, text=text)
        mentions.tell(added)
        return added


def undo(actor: Actor, annotation_id: str) -> Annotation:
    """Withdraw one's own annotation by a row that supersedes it; it stays readable in the history."""
    may_annotate(actor)
    with transaction.atomic():
        row = _own(actor, annotation_id)
        later = Annotation.objects.filter(supersedes=row).first()
        # a repeated undo returns what it did the first time
        if later is not None or row.withdrawn:
            return later or row
        return _superseding(actor, row, text="", withdrawn=True)


def _own(actor: Actor, annotation_id: str) -> Annotation:
    """Return an annotation of the actor, with its episode locked. The caller must be in a transaction."""
    row = visible_or_404(Annotation.objects.select_related("episode"), actor, annotation_id, "episode__project")
    # locked before the checks that follow, as for a new label
    Episode.every.select_for_update(no_key=True).get(pk=row.episode_id)
    if not actor.owns(row.author_key):
        raise NotYourAnnotation
    return row


def _superseding(actor: Actor, row: Annotation, **changes: Any) -> Annotation:
    """Return a new row at the same place that supersedes another."""
    place = {name: getattr(row, name) for name in ("seq", "path", "start", "end", "ask_id", "label", "schema")}
    return Annotation.objects.create(
        episode=row.episode, supersedes=row, **changes, **place, **author(actor, row.episode, row.privilege)
    )


def author(actor: Actor, episode: Episode, privilege: str = "") -> dict[str, str]:
    """Return the columns of a row for its author and their privilege."""
    informed = Privilege.SEES_VERIFIER if episode.expert == ExpertMode.INFORMED else Privilege.BLIND
    return {
        "author": actor.name,
        "author_key": actor.key,
        "author_kind": "model" if actor.model else "human" if actor.by_hand else "code",
        "privilege": privilege or informed,
    }


def _newest(rows: Any) -> Annotation | None:
    newest: Annotation | None = rows.order_by("-created_at", "-pk").first()
    return newest


def _id(schema: LabelSchema | None) -> str | None:
    return schema.pk if schema is not None else None


def _refuse_ended(schema: LabelSchema, queue: ReviewQueue | None) -> None:
    """Read again under the episode's lock: the version can have ended since the page was opened."""
    # a queue compares answers to the same question, so its reviewers keep the version that it pins
    if queue is not None and schema.pk in queue.schemas:
        return
    if not LabelSchema.objects.filter(pk=schema.pk, ended_at__isnull=True).exists():
        raise SchemaEnded(schemas.ended_words(schema))


def _refuse_nowhere(actor: Actor, episode: Episode, where: Place, quote: str | None) -> None:
    """Raise unless the step, the value and the characters exist, and equal `quote` if the author sent it."""
    if where.seq is None:
        if where.path or where.start is not None:
            raise Invalid("A path or a text range needs a step.")
        return
    # the step of the verifier would place the label on an outcome
    step = Step.objects.filter(episode=episode, seq=where.seq).exclude(kind="verification").first()
    if step is None:
        raise Invalid(f"This episode has no step {where.seq}.")
    if not where.path and where.start is None and where.end is None:
        return
    try:
        content = written_at(labelable(lens_of(actor, episode), step), where)
    except BadPath as error:
        raise Invalid(str(error)) from error
    # the numbers alone could mark other letters than the reader selected
    if quote is not None and where.start is not None and content != quote:
        raise Moved


def visible_episode(actor: Actor, episode_id: str) -> Episode:
    """Return an episode of the actor's project that they can label."""
    may_annotate(actor)
    return visible_or_404(Episode.every.all(), actor, episode_id)
