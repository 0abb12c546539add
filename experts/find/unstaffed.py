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


def skills(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield each skill that keeps everyone from an open ask, and what can be done."""
    asks = scoped(Ask.objects.open().filter(deadline_at__gt=now, tier__in=BEFORE_PEOPLE), actor.project)
    required = [row for row in asks.values_list("skills", flat=True) if row]
    if not required:
        return
    reach = advisers.reach_of(actor.project, now)
    waiting = Counter(skill for needs in required for skill in reach.missing(needs))
    for skill, asks_of_it in sorted(waiting.items()):
        waits = f"{count(asks_of_it, 'open ask')} {'requires' if asks_of_it == 1 else 'require'} it"
        why = f"{waits}, and no member has it. Set it on Members, or transfer or cancel the asks."
        yield Need(f"Skill {clean(skill)}", why, page="people")
