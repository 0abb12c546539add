"""Writes: the people whom a comment names with `@`, who are notified and find it on the page Review.

Called by `annotating.py`, in the transaction of the comment, and by the pages that list and open mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.db.models import F, QuerySet
from django.utils import timezone

from notices.record import deliveries
from people.access import Actor, scoped, visible_or_404
from people.models import Membership, Project, display_name
from reviews.errors import UnknownName
from reviews.models import Annotation, Mention
from reviews.notifications import CommentSubject

PEOPLE_MAX = 20
# `+` after the braces forbids backtracking: else `@scope/package` would name `@scop`
_NAMED = re.compile(r"(?<![\w@.])@(\w[\w.+-]{0,149}+)(?!/\w|\()")
_CODE = re.compile(
    r"""```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+"""
    r"""|^[ \t]*@\w[\w.]*[ \t]*$(?=\n[ \t]*(?:@|def |class |async |export |function |public ))""",
    re.DOTALL | re.MULTILINE,
)
"""Code and decorators. What follows an @ there names no one, nor do addresses, `@scope/package` and `@call(...)`."""


def tell(comment: Annotation) -> list[Mention]:
    """Store whom a comment names, and queue notifications for people whom its earlier version did not name: earlier
    notifications link to the new version. People who have opened the earlier version have no unread mention."""
    people = _named(comment)
    # a person can be named in several versions: the last of equal keys wins, so a read one beats an unread one
    before = Mention.objects.filter(annotation__in=comment.earlier()).order_by(F("seen_at").asc(nulls_first=True))
    seen = dict(before.values_list("user_id", "seen_at"))
    made = Mention.objects.bulk_create(
        [Mention(annotation=comment, user_id=user, seen_at=seen.get(user)) for user in people]
    )
    # those who were named before have their notification, which links here
    if not seen.keys() >= set(people):
        deliveries.queue_for(CommentSubject(comment))
    return made


def _named(comment: Annotation) -> list[int]:
    """Return the members whose names follow an @, without the author; any other text after an @ has no effect."""
    words = {name.lower() for name in _names_in(str(comment.text))}
    if not words:
        return []
    users = [one.user for one in _members(comment.episode.project) if one.user.get_username().lower() in words]
    return [user.pk for user in users if f"user:{user.pk}" != comment.author_key][:PEOPLE_MAX]


def _names_in(text: str) -> Iterator[str]:
    """Return what is written as the name of a person, in order."""
    # a dot or plus can be in a name, but at its end it belongs to the sentence
    return (name.rstrip(".+-") for name in _NAMED.findall(_CODE.sub(" ", text)))


def _members(project: Project) -> QuerySet[Membership]:
    current = Membership.objects.current(timezone.now())
    return scoped(current, project).select_related("user").order_by("user_id")


def names(actor: Actor) -> list[dict[str, str]]:
    """Return the members whom this person can name, each with their full name."""
    others = [one.user for one in _members(actor.project) if one.user != actor.person]
    listed = [{"name": user.get_username(), "title": display_name(user)} for user in others]
    return sorted(listed, key=lambda person: person["name"])


def refuse_unknown(actor: Actor, text: str) -> None:
    """Raise if a name in a comment names no member: its author then mends it, or posts it as text."""
    usernames = {one.user.get_username().lower() for one in _members(actor.project)}
    # a number after an @ is no misspelled name
    wrong = [name for name in _names_in(text) if name.lower() not in usernames and not name.isdecimal()]
    if wrong:
        raise UnknownName.of(list(dict.fromkeys(wrong))[:3])


def of_person(actor: Actor) -> QuerySet[Mention]:
    """Return the current comments that name this person, unread ones first."""
    rows = scoped(Mention.objects.filter(user=actor.person), actor.project, "annotation__episode__project")
    still = rows.filter(annotation__superseded_by__isnull=True, annotation__withdrawn=False)
    return still.select_related("annotation__episode").order_by(F("seen_at").asc(nulls_first=True), "-at")


def unread(actor: Actor) -> int:
    return of_person(actor).filter(seen_at__isnull=True).count() if actor.person is not None else 0


def behind(actor: Actor, annotation_id: str) -> Annotation:
    """Return the current version of the comment of a notification."""
    rows = Annotation.objects.select_related("episode__project")
    return visible_or_404(rows, actor, annotation_id, "episode__project").newest()


def see(actor: Actor, comment: Annotation) -> None:
    """Record that this person has read the comment."""
    Mention.objects.filter(annotation=comment, user=actor.person, seen_at__isnull=True).update(seen_at=timezone.now())
