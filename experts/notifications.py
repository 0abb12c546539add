"""Reads: an ask as the subject of notifications.

Owns who is notified of an ask, when a notification is no longer needed, and its text. Leaves queueing, sending and
people's own rules to `notices`, which asks these questions again just before it sends.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.utils import timezone

from episodes.show.decisions import in_one_line, in_plain_lines, proposed_lines
from experts import endings
from experts.find.answer_links import answer_path
from experts.find.pictured import pictures_by_ask, pictures_line
from experts.models import BEFORE_PEOPLE, Ask, AskStatus
from experts.rules.risk import is_high
from experts.who.advisers import reach_of, to_tell
from experts.who.policies import desk_of
from notices.subjects import KEEP, Relevance, SharedView, put_off, skip
from people.text.in_words import count
from people.text.plain_text import clean
from people.text.prose import without_marks

KIND = "ask"
WITHDRAWN_FOR = timedelta(hours=1)
"""An answer that its agent has not read counts as final in a channel after this time."""


@dataclass(frozen=True)
class AskSubject:
    """One ask; it is announced once for each tier of people, and each colleague, that it reaches."""

    ask: Ask
    kind: str = KIND

    @property
    def id(self) -> str:
        return self.ask.pk

    @property
    def project_id(self) -> str:
        return self.ask.project_id

    @property
    def rank(self) -> str:
        return self.ask.handed_to[:20] or self.ask.tier

    @property
    def group(self) -> str:
        return self.ask.group

    @property
    def expires_at(self) -> datetime:
        return self.ask.deadline_at

    @property
    def text(self) -> str:
        return without_marks(self.ask.question)

    def title(self, open_count: int) -> str:
        more = f" ({open_count} open)" if open_count > 1 else ""
        shown = pictures_by_ask([self.ask]).get(self.ask.pk, ())
        more = f" with {count(len(shown), 'picture')}{more}" if shown else more
        if missing := reach_of(self.ask.project, timezone.now()).missing(self.ask.skills):
            skills = f"{'all of the skills' if len(missing) > 1 else 'the skill'} {', '.join(map(clean, missing))}"
            return f"No member of {self.ask.project.slug} has {skills}: an agent waits"
        return f"An agent asks in {self.ask.project.slug}{more}"

    def recipients(self, now: datetime) -> set[str]:
        return to_tell(self.ask, now)

    # called again just before sending, when much can have changed
    def standing(self, rank: str, now: datetime) -> Relevance:
        slot = self.ask.assignment
        if not self.ask.is_open or self.ask.deadline_at <= now:
            state = "past its deadline" if self.ask.is_open else self.ask.get_status_display().lower()
            return skip(f"Not sent: the ask was already closed ({state}).")
        if self.ask.held_until is not None:
            return put_off(self.ask.held_until, f"Answered by {slot.holder_name}.")
        if self.rank != rank:
            where = self.ask.handed_to_name or self.ask.get_tier_display().lower()
            return skip(f"Not sent: the ask moved to another tier or person ({where}).")
        if slot.is_held(now) and slot.lease_until is not None:
            return put_off(slot.lease_until, f"Claimed by {slot.holder_name}.")
        return KEEP

    def standing_for(self, person: str, now: datetime) -> Relevance:
        if person in to_tell(self.ask, now):
            return KEEP
        return skip("Not sent: you declined it, set yourself to Away, or can no longer answer it.")

    @property
    def is_over(self) -> bool:
        return not self.ask.is_open

    def state_for(self, person: str, now: datetime) -> str:
        slot = self.ask.assignment
        if not self.ask.is_open:
            return endings.headline(self.ask)
        if self.ask.held_id is not None:
            return f"Answered by {slot.holder_name}."
        if not slot.is_held(now):
            has_decided = self.ask.quorum_of > 1 and self.ask.decisions.filter(counts=True, author_key=person).exists()
            return f"You decided. {self.ask.progress}." if has_decided else ""
        return "Claimed by you." if self.is_held_by(person, now) else f"Claimed by {slot.holder_name}."

    def is_held_by(self, person: str, now: datetime) -> bool:
        slot = self.ask.assignment
        return self.ask.is_open and slot.is_held(now) and slot.holder == person

    def answer_path(self, person: str) -> str:
        return answer_path(self.ask, person) if desk_of(self.ask.project).answer_links else ""

    def shared(self, now: datetime) -> SharedView:
        ask, desk = self.ask, desk_of(self.ask.project)
        typed = ask.typed or {}
        calls = typed.get("calls") or []
        can_press = ask.is_open and ask.held_id is None and ask.deadline_at > now and desk.answer_links
        for_people = can_press and ask.tier in BEFORE_PEOPLE
        return SharedView(
            title=self.title(1),
            text=clean(self.text),
            details=[*filter(None, [pictures_line(ask)]), *_details(calls, typed.get("options") or [])],
            state=clean(self.state_for("", now)),
            expires_at=ask.deadline_at,
            is_free=for_people and not ask.assignment.is_held(now),
            is_answerable=for_people,
            is_over=self.is_over,
            is_settled=self._is_settled(now),
            skills=ask.skills,
            is_high_risk=any(is_high(desk.high_risk, call["name"]) for call in calls),
            earlier=ask.thread_id or "",
        )

    def _is_settled(self, now: datetime) -> bool:
        if self.ask.status != AskStatus.ANSWERED or self.ask.is_final:
            return self.is_over
        return self.ask.closed_at is not None and self.ask.closed_at < now - WITHDRAWN_FOR


def _details(calls: list[dict[str, Any]], options: list[dict[str, Any]]) -> list[str]:
    lines = [in_plain_lines(number, line) for number, line in enumerate(proposed_lines(calls), 1)]
    return [*chain.from_iterable(lines), *(f"- {in_one_line(clean(one['label']))}" for one in options)]


@dataclass(frozen=True)
class AskKind:
    """Asks, as `notices.subjects.register` takes them."""

    name: str = KIND
    label: str = "Ask"

    def path(self, subject_id: str) -> str:
        return f"/asks/{subject_id}/"

    def read(self, ids: Collection[str]) -> dict[str, AskSubject]:
        asks = Ask.objects.filter(pk__in=ids).select_related("project", "episode", "assignment", "accepted")
        return {ask.pk: AskSubject(ask) for ask in asks}

    def open_among(self, ids: Collection[str]) -> set[str]:
        return set(Ask.objects.open().filter(pk__in=ids).values_list("pk", flat=True))

    def open_count(self, project_id: str, now: datetime) -> int:
        return Ask.objects.to_take(now).filter(project=project_id).count()
