"""Reads: a comment that names people, as the subject of notifications.

Owns who is notified, when the notification expires, and its text, which is the comment's text at the time of sending. A
person who judges the episode blind is notified only afterward, because a comment can reveal the outcome. Leaves
queueing, sending and people's own rules to `notices`, which calls this again just before sending.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from episodes.visible import visibility
from notices.subjects import KEEP, Relevance, put_off, skip
from reviews.models import Annotation, Mention

KIND = "comment"
LISTENS_FOR = timedelta(days=7)
LOOK_AGAIN = timedelta(minutes=5)


@dataclass(frozen=True)
class CommentSubject:
    """One comment. Each person whom it names is notified once, however often it is edited."""

    comment: Annotation
    kind: str = KIND
    rank: str = ""
    group: str = ""

    @property
    def id(self) -> str:
        return self.comment.pk

    @property
    def project_id(self) -> str:
        return self.comment.episode.project_id

    @property
    def expires_at(self) -> datetime:
        return self.comment.created_at + LISTENS_FOR

    @property
    def text(self) -> str:
        return str(self.newest.text)

    @cached_property
    def newest(self) -> Annotation:
        return self.comment.newest()

    def title(self, open_count: int) -> str:
        return f"{self.comment.author} mentioned you in {self.comment.episode.project.slug}"

    def recipients(self, now: datetime) -> set[str]:
        # an edit is another row: without this, each edit would notify all again
        earlier = Mention.objects.filter(annotation__in=self.comment.earlier()).values("user_id")
        named = self.comment.mentions.exclude(user_id__in=earlier)
        return {f"user:{user}" for user in named.values_list("user_id", flat=True)}

    def standing(self, rank: str, now: datetime) -> Relevance:
        if self.expires_at <= now:
            return skip("Not sent: the comment is more than 7 days old.")
        if self.newest.withdrawn:
            return skip("Not sent: the comment was withdrawn.")
        return KEEP

    def standing_for(self, person: str, now: datetime) -> Relevance:
        mention = self.newest.mentions.filter(user_id=person.removeprefix("user:")).first()
        # read from the newest version: an edit can have removed the name after the notification was queued
        if mention is None:
            return skip("Not sent: the comment no longer names you.")
        if mention.seen_at is not None:
            return skip("Not sent: you already opened it.")
        # put off, not skipped: after the verdict the comment can be read
        if visibility.is_held_from(person, self.comment.episode):
            return put_off(now + LOOK_AGAIN, "You review this episode blind.")
        return KEEP

    @property
    def is_over(self) -> bool:
        return True

    def state_for(self, person: str, now: datetime) -> str:
        return ""

    def is_held_by(self, person: str, now: datetime) -> bool:
        return False

    def answer_path(self, person: str) -> str:
        return ""

    def shared(self, now: datetime) -> None:
        return None


@dataclass(frozen=True)
class CommentKind:
    """Comments, as `notices.subjects.register` takes them."""

    name: str = KIND
    label: str = "Comment"

    def path(self, subject_id: str) -> str:
        return f"/reviews/mentions/{subject_id}/"

    def read(self, ids: Collection[str]) -> dict[str, CommentSubject]:
        rows = Annotation.objects.filter(pk__in=ids).select_related("episode__project")
        return {one.pk: CommentSubject(one) for one in rows}

    def open_among(self, ids: Collection[str]) -> set[str]:
        return set(Mention.objects.filter(annotation__in=ids, seen_at=None).values_list("annotation_id", flat=True))

    def open_count(self, project_id: str, now: datetime) -> int:
        """Return zero: a mention is for one person, so no one else could claim it."""
        return 0
