"""Reads: the open asks for one person: which they can claim, in which order, and why not the others.

Owns the state of an ask for a person. The order is `routing.in_turn`'s; the text of a row is `board.py`'s. Reads no
long texts, since every page of the queue looks through up to a thousand open asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import F, FloatField, Func, Q

from episodes.models import RUN_HERE
from experts.models import BEFORE_PEOPLE, Ask, AskQuerySet, AskStatus, Decline
from experts.rules.quorum import ROLES, has_role
from experts.rules.routing import in_turn
from experts.rules.sources import source_of
from experts.who import advisers, arriving, online, policies
from experts.who.counting import decided_by
from people.access import Actor, holds, may_advise, scoped
from people.slots import SlotState

FREE, MINE, HELD, MODEL = "free", "mine", "held", "model"
PASSED, SKILL, SENIOR, LOOKS = "passed", "skill", "senior", "looks"
DECIDED, ROLE = "decided", "role"


class Epoch(Func):
    """A time as seconds since 1970, which is read many times faster than a time with its zone."""

    template = "EXTRACT(EPOCH FROM %(expressions)s)::float8"
    output_field = FloatField()


COLUMNS = (
    *("pk", "tier", "priority", Epoch(F("created_at")), Epoch(F("deadline_at")), "skills", "group", "privilege"),
    *(
        "kind",
        "calls_digest",
        "quorum_of",
        "quorum_role",
        "episode__run_id",
        "episode__run__name",
        "episode__arm",
        "episode_id",
    ),
    *("episode__environment", "episode__origin", "episode__policy_name"),
    *(
        "handed_to",
        "assignment__state",
        "assignment__holder",
        "assignment__holder_name",
        Epoch(F("assignment__lease_until")),
    ),
)
TIMES = [n for n, column in enumerate(COLUMNS) if isinstance(column, Epoch)]


@dataclass(slots=True)
class Spot:
    """One open ask.

    `place` is its state for this person: free, mine, claimed by someone else, a model's, or the reason why they cannot
    claim it: declined, decided by them, a missing skill, another role, for the senior only, or read-only access.
    """

    pk: str
    tier: str
    priority: int
    created_at: datetime
    deadline_at: datetime
    skills: list[str]
    group: str
    privilege: str
    kind: str
    calls_digest: str
    quorum_of: int
    quorum_role: str
    run_id: str | None
    run: str | None
    arm: str
    episode_id: str
    environment: str
    origin: str
    client: str
    handed_to: str
    state: str
    holder: str
    holder_name: str
    lease_until: datetime | None
    place: str = FREE
    for_me: bool = False
    """Whether it was handed to this person, or to a group of theirs."""
    for_other: bool = False
    """Whether it was handed to a colleague who is online: *Claim next* leaves it to them."""
    lacks: list[str] = field(default_factory=list)

    @property
    def family(self) -> str:
        """What the asks of one row share: their question, or the calls that they want approved."""
        return self.calls_digest or self.group

    @property
    def source(self) -> str:
        return source_of(self.environment, self.client, is_ours=self.origin in RUN_HERE)

    @property
    def run_key(self) -> str:
        return self.run_id or self.episode_id

    @property
    def for_people(self) -> bool:
        return self.tier in BEFORE_PEOPLE

    def held(self, now: datetime) -> bool:
        return self.state == SlotState.CLAIMED and self.lease_until is not None and self.lease_until > now

    def place_for(
        self, actor: Actor, me: advisers.Member | None, passed: set[str], decided: set[str], now: datetime
    ) -> str:
        held = self.held(now)
        if held and actor.owns(self.holder):
            return MINE
        if not self.for_people:
            return MODEL
        if held:
            return HELD
        if me is None:
            return LOOKS
        if self.pk in decided:
            return DECIDED
        if self.pk in passed:
            return PASSED
        if me.may_take(self.skills, self.tier, self.quorum_role, self.quorum_of):
            return FREE
        self.lacks = me.lacks(self.skills)
        return SKILL if self.lacks else SENIOR if has_role(me.role, self.quorum_role) else ROLE


def open_of(actor: Actor, now: datetime) -> AskQuerySet:
    """Return the open asks to work on, without those whose answer is held."""
    return scoped(Ask.objects.filter(status=AskStatus.OPEN, deadline_at__gt=now, held=None), actor.project)


@dataclass(frozen=True)
class Claimable:
    """How many unclaimed asks of a project a person can claim, and of the nearest when it was asked and is due."""

    count: int = 0
    nearest: tuple[datetime, datetime] | None = None


def claimable(actor: Actor, now: datetime) -> Claimable:
    """Count the unclaimed asks; a person who answers none can see, but not claim, all of them.

    By skills and tier, of which a project has few: the top bar of every page asks for it.
    """
    asks = scoped(Ask.objects.to_take(now), actor.project)
    can = advisers.may_be_present(actor.role, actor.scope) and actor.person is not None
    if me := advisers.member_of(actor, policies.desk_of(actor.project)) if can else None:
        kinds = list(asks.order_by().values_list("skills", "tier", "quorum_role", "quorum_of").distinct())
        fitting = [
            Q(skills=skills, tier=tier, quorum_role=role, quorum_of=of)
            for skills, tier, role, of in kinds
            if me.may_take(skills, tier, role, of)
        ]
        decided = decided_by(actor, asks) if any(of > 1 for *_, of in kinds) else set[str]()
        out = {*declined_by(actor, asks), *decided}
        asks = asks.filter(reduce(or_, fitting, Q(pk__in=[]))).exclude(pk__in=out)
    nearest = asks.order_by("deadline_at").values_list("created_at", "deadline_at").first()
    return Claimable(asks.count(), nearest)


def declined_by(actor: Actor, asks: AskQuerySet) -> list[str]:
    """Return those of these asks that a person has declined."""
    return list(Decline.objects.filter(author_key=actor.key, ask__in=asks).values_list("ask", flat=True))


def out_for(actor: Actor, asks: AskQuerySet) -> list[str]:
    """Return those of these asks that a person has declined or decided, or that want another role."""
    several = asks.filter(quorum_of__gt=1)
    roles = [role for role in ("", *ROLES) if has_role(actor.role, role)]
    others = several.exclude(quorum_role__in=roles).values_list("pk", flat=True)
    return [*{*declined_by(actor, asks), *decided_by(actor, several), *others}]


def spots(actor: Actor, now: datetime, *, turns: bool = False) -> list[Spot]:
    """Return the project's open asks, those for people first.

    In the recommended order if requested; otherwise, and for the rest, by deadline.
    """
    me = advisers.member_of(actor, policies.desk_of(actor.project)) if holds(actor, may_advise) else None
    asks = open_of(actor, now)
    passed = set(Decline.objects.filter(author_key=actor.key, ask__in=asks).values_list("ask", flat=True))
    # in Python: the list is read whole in any case, and has up to a thousand rows
    all_spots = sorted((_spot(row) for row in asks.values_list(*COLUMNS)), key=lambda spot: (spot.deadline_at, spot.pk))
    decided = decided_by(actor, asks) if any(spot.quorum_of > 1 for spot in all_spots) else set[str]()
    present = set(online.here(actor.project, now).values_list("actor_key", flat=True))
    for spot in all_spots:
        spot.place = spot.place_for(actor, me, passed, decided, now)
        spot.for_me = me is not None and spot.handed_to in me.names
        spot.for_other = spot.handed_to in present - {actor.key}
    for_people = [one for one in all_spots if one.for_people]
    others = [one for one in all_spots if not one.for_people]
    if turns:
        for_people = in_turn(for_people, now, online.served(actor.project), arriving.usual_time(actor.project))
    return [*for_people, *others]


def _spot(row: Sequence[Any]) -> Spot:
    cells = list(row)
    for n in TIMES:
        cells[n] = datetime.fromtimestamp(cells[n], UTC) if cells[n] is not None else None
    return Spot(*cells)


def spot_of(actor: Actor, pk: str, now: datetime) -> Spot | None:
    """Return one open ask with its state for this person; None once it is closed."""
    row = open_of(actor, now).filter(pk=pk).values_list(*COLUMNS).first()
    if row is None:
        return None
    spot = _spot(row)
    me = advisers.member_of(actor, policies.desk_of(actor.project)) if holds(actor, may_advise) else None
    declined = {pk} if Decline.objects.filter(author_key=actor.key, ask=pk).exists() else set[str]()
    decided = decided_by(actor, Ask.objects.filter(pk=pk)) if spot.quorum_of > 1 else set[str]()
    spot.place = spot.place_for(actor, me, declined, decided, now)
    return spot


def newest_of(all_spots: list[Spot]) -> Spot | None:
    """Return the newest ask that this person can act on."""
    # IDs sort by their creation time.
    return max((one for one in all_spots if one.place in (MINE, FREE)), key=lambda spot: spot.pk, default=None)


def next_of(all_spots: list[Spot], listed: list[Spot]) -> Spot | None:
    """Return the ask to work on next: the claimed one due first, else one that was handed to this person, else the
    first free one of the list."""
    mine = sorted((one for one in all_spots if one.place == MINE), key=lambda spot: spot.deadline_at)
    free = [one for one in listed if one.place == FREE and not one.for_other]
    handed = [one for one in free if one.for_me]
    return next(iter([*mine, *handed, *free]), None)
