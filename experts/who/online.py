"""Reads: who is online, what they have claimed, and how long a new ask waits.

Owns the counts of the desk's pages and of the order of the queue. Leaves changes to `record/desk.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Coalesce

from experts.models import BEFORE_PEOPLE, MODEL, TOKEN, Ask, Assignment, Presence
from experts.rules.routing import PRESENT_FOR, DeskLoad, expected_wait
from experts.who.arriving import answer_times, usual
from experts.who.policies import desk_of
from people.access import Actor
from people.models import Project
from people.slots import SlotState

RUN_KEY = Coalesce("episode__run_id", "episode_id")


def here(project: Project, now: datetime) -> QuerySet[Presence]:
    """Return who is online at the desk: seen recently and not set to Away."""
    recent = Presence.objects.filter(project=project, seen_at__gt=now - PRESENT_FOR)
    return recent.available(now).order_by("name")


def away_of(actor: Actor, now: datetime) -> Presence | None:
    """Return the presence of a person who is set to Away now; None of one who is not."""
    return Presence.objects.set_away(now).filter(project=actor.project, actor_key=actor.key).first()


@dataclass(frozen=True)
class Seat:
    """A person, script or model at the desk, with the number of asks they have claimed."""

    key: str
    name: str
    skills: list[str]
    away: bool
    in_hand: int
    seen: bool = True

    @property
    def is_model(self) -> bool:
        return self.key.startswith(MODEL)

    @property
    def is_script(self) -> bool:
        return self.key.startswith(TOKEN)

    @property
    def is_waited_for(self) -> bool:
        """Whether asks wait for this expert: people and scripts that are online."""
        return self.seen and not self.away and not self.is_model


@dataclass(frozen=True)
class Outlook:
    """The current state of the desk.

    `present` counts the experts that asks wait for. The wait is the value for a new ask; None while an open ask has
    already waited longer, which shows that it does not hold. `models_first`: a model answers a new ask before people
    are asked.
    """

    seats: list[Seat]
    present: int
    by_tier: dict[str, int]
    expected_wait_s: float | None
    usual_s: float
    """Assumed while no person has answered."""
    has_answers: bool
    has_models: bool
    models_first: bool

    @property
    def scripts(self) -> int:
        """The number of scripts among the experts that asks wait for."""
        return sum(one.is_waited_for and one.is_script for one in self.seats)


def outlook(project: Project, now: datetime) -> Outlook:
    """Return who is online, what they have claimed, open asks by tier, and the expected wait."""
    seats, times = _seats(project, now), answer_times(project)
    usual_s = usual(times)
    rows = Ask.objects.open().filter(project=project, deadline_at__gt=now).order_by().values_list("tier")
    tiers = {str(tier): (count, since) for tier, count, since in rows.annotate(Count("pk"), Min("created_at"))}
    by_tier = {tier: count for tier, (count, _) in tiers.items()}
    waited = max(((now - tiers[tier][1]).total_seconds() for tier in BEFORE_PEOPLE if tier in tiers), default=0.0)
    present = sum(one.is_waited_for for one in seats)
    ahead = sum(by_tier.get(tier, 0) for tier in BEFORE_PEOPLE)
    expected_s = expected_wait(DeskLoad(present=present, ahead=ahead, ahead_of_run=ahead, usual_s=usual_s))
    rules, has_models = desk_of(project), bool(settings.EXPERT_ENDPOINTS)
    models_first = has_models and rules.model_first and not (rules.people_while_free and present)
    wait_s = expected_s if waited <= expected_s else None
    return Outlook(seats, present, by_tier, wait_s, usual_s, bool(times), has_models, models_first)


def _seats(project: Project, now: datetime) -> list[Seat]:
    held = Assignment.objects.filter(ask__project=project, state=SlotState.CLAIMED, lease_until__gt=now)
    hands = Counter(held.values_list("holder", "holder_name"))
    recent = list(Presence.objects.filter(project=project, seen_at__gt=now - PRESENT_FOR).order_by("name"))
    # False sorts first: those who are not Away
    recent.sort(key=lambda row: row.has_left(now))
    in_hand = {key: count for (key, _), count in hands.items()}
    seats = [
        Seat(row.actor_key, row.name, row.skills, row.has_left(now), in_hand.get(row.actor_key, 0)) for row in recent
    ]
    keys = {one.key for one in seats}
    others = sorted((name, key, count) for (key, name), count in hands.items() if key not in keys)
    # they hold a claim though no page of theirs is open
    return [*seats, *(Seat(key, name, [], False, count, seen=False) for name, key, count in others)]


def served(project: Project) -> Counter[str]:
    """Return the number of claimed asks by run."""
    rows = Ask.objects.open().filter(project=project, tier__in=BEFORE_PEOPLE, assignment__state=SlotState.CLAIMED)
    return Counter(rows.values_list(RUN_KEY, flat=True))
