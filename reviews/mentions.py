"""Writes: the people whom a comment names with `@`, who hear of it and find it on the page Review.

Called by `annotating.py`, in the transaction of the comment, and by the pages that list and open mentions.
"""

from __future__ import annotations

import re

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from notices import deliveries
from people.access import Actor, scoped, visible_or_404
from people.models import Membership
from reviews.models import Annotation, Mention
from reviews.notifications import CommentSubject

PEOPLE_MAX = 20
_NAMED = re.compile(r"(?<![\w@.])@(\w[\w.+-]{0,149})")


def tell(comment: Annotation) -> list[Mention]:
    """Note whom a comment names, and queue their notices. Who heard of its earlier words does not hear again."""
    people = _named(comment)
    if not people:
        return []
    told = Mention.objects.filter(annotation__in=_earlier(comment)).values_list("user_id", flat=True)
    new = [user for user in people if user not in set(told)]
    made = Mention.objects.bulk_create([Mention(annotation=comment, user_id=user) for user in new])
    if made:
        deliveries.queue_for(CommentSubject(comment))
    return made


def _named(comment: Annotation) -> list[int]:
    """Return the members whose names stand behind an @, without the author; other words with an @ are only words."""
    words = {word.rstrip(".+-").lower() for word in _NAMED.findall(str(comment.text))}
    if not words:
        return []
    current = Q(ends_at__isnull=True) | Q(ends_at__gt=timezone.now())
    rows = (
        scoped(Membership.objects.filter(current), comment.episode.project).select_related("user").order_by("user_id")
    )
    found = [one.user for one in rows if one.user.get_username().lower() in words]
    return [user.pk for user in found if f"user:{user.pk}" != comment.author_key][:PEOPLE_MAX]


def _earlier(comment: Annotation) -> list[str]:
    """Return the rows that a comment supersedes, through all its rewordings."""
    found, row = [], comment
    while row.supersedes is not None:
        row = row.supersedes
        found.append(row.pk)
    return found


def of_person(actor: Actor) -> QuerySet[Mention]:
    """Return where somebody named this person in words that still stand, what they have not opened first."""
    rows = scoped(Mention.objects.filter(user=actor.user), actor.project, "annotation__episode__project")
    still = rows.filter(annotation__superseded_by__isnull=True, annotation__withdrawn=False)
    return still.select_related("annotation__episode").order_by(F("seen_at").asc(nulls_first=True), "-at")


def unread(actor: Actor) -> int:
    return of_person(actor).filter(seen_at__isnull=True).count() if actor.user is not None else 0


def see(actor: Actor, annotation_id: str) -> Annotation:
    """Return the comment behind a notice, and note that this person has opened it."""
    rows = Annotation.objects.select_related("episode")
    comment = visible_or_404(rows, actor, annotation_id, "episode__project")
    Mention.objects.filter(annotation=comment, user=actor.user, seen_at__isnull=True).update(seen_at=timezone.now())
    return comment
