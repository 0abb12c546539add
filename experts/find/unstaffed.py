"""Reads: skills that open asks require and no one has, for those who set skills.

Registered with `people.operating`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from experts.models import BEFORE_PEOPLE, Ask
from experts.who import advisers
from people.access import Actor, scoped
from people.operating import Need
from people.text.in_words import count
from people.text.plain_text import clean


def _parts(reach: advisers.Reach, needs: list[str]) -> list[tuple[str, ...]]:
    """Return each skill that no one has, or else the skills that no one has together."""
    missing = reach.missing(needs)
    alone: list[tuple[str, ...]] = [(skill,) for skill in missing if reach.missing([skill])]
    return alone or ([tuple(missing)] if missing else [])


def skills(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield the skills that keep everyone from open asks, and what can be done."""
    asks = scoped(Ask.objects.open().filter(deadline_at__gt=now, tier__in=BEFORE_PEOPLE), actor.project)
    required = [row for row in asks.values_list("skills", flat=True) if row]
    if not required:
        return
    reach = advisers.reach_of(actor.project, now)
    waiting = Counter(part for needs in required for part in _parts(reach, needs))
    for skills_of_one, asks_of_it in sorted(waiting.items()):
        are_many = len(skills_of_one) > 1
        waits = f"{count(asks_of_it, 'open ask')} {'requires' if asks_of_it == 1 else 'require'}"
        why = f"{waits} {'all of them, and no one member has them' if are_many else 'it, and no member has it'}."
        name = f"Skill{'s' if are_many else ''} {', '.join(map(clean, skills_of_one))}"
        yield Need(name, f"{why} Set it on Members, or transfer or cancel the asks.", page="people")
