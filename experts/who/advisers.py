"""Reads: who can answer, and which of them this ask: by role, skills, tier and declines.

Owns the people and scripts that an ask can reach. Leaves the rule about skills to `rules/routing.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from experts.models import TOKEN, Ask, Decline, Desk, Presence, QuorumDecision, Tier
from experts.rules.quorum import has_role
from experts.rules.routing import PRESENT_FOR, may_take
from experts.who.online import here
from experts.who.policies import desk_of
from people.access import Actor
from people.models import Membership, Project, Role, display_name, granted

LEADS = (Role.ADMIN, Role.RESEARCHER)
GROUP = "group:"
"""Prefix of a role or skill that an ask is handed to."""
ADVISERS = (Role.ADMIN, Role.RESEARCHER, Role.EXPERT)


@dataclass(frozen=True)
class Member:
    """A person who can answer, online or not."""

    key: str
    skills: frozenset[str]
    is_senior: bool
    role: str

    def lacks(self, needs: Iterable[str]) -> list[str]:
        """Return the skills that an ask requires and this person does not have."""
        return sorted(set(needs) - self.skills)

    def may_take(self, needs: Collection[str], tier: str, role: str, of: int) -> bool:
        """Return whether this person can answer. What needs several people (`of`) is never for the senior alone."""
        by_tier = tier != Tier.SENIOR or self.is_senior or of > 1
        return may_take(needs, self.skills) and by_tier and has_role(self.role, role)

    @property
    def names(self) -> frozenset[str]:
        """What an ask is handed to that is theirs: they, their role and each of their skills."""
        return frozenset({self.key, *(f"{GROUP}{one}" for one in (self.role, *self.skills))})


def members_of(project: Project, now: datetime, desk: Desk | None = None) -> list[Member]:
    """Return the people who can answer in this project. `desk` has its settings, if they are read already."""
    rows = Membership.objects.current(now).filter(project=project, role__in=ADVISERS)
    senior = (desk or desk_of(project)).senior_id
    return [Member(f"user:{row.user_id}", frozenset(row.skills), row.pk == senior, row.role) for row in rows]


def advisers(project: Project, now: datetime) -> list[Membership]:
    """Return the memberships of people who can answer, by name: the choices for the senior expert."""
    rows = Membership.objects.current(now).filter(project=project, role__in=ADVISERS)
    return sorted(rows.select_related("user"), key=lambda row: display_name(row.user))


def senior_name(project: Project) -> str:
    """Return the name of the senior expert; empty if there is none."""
    row = Membership.objects.select_related("user").filter(senior_of__project=project).first()
    return display_name(row.user) if row is not None else ""


def name_of(project: Project, key: str) -> str:
    """Return the name of a member by key."""
    row = Membership.objects.filter(project=project, user_id=key.partition(":")[2]).select_related("user").first()
    return display_name(row.user) if row is not None else ""


@dataclass(frozen=True)
class Colleague:
    """A member that an ask can be handed to by name."""

    key: str
    name: str
    skills: frozenset[str]
    state: str
    """`online`, `away` or `offline`."""


def colleagues(project: Project, now: datetime) -> list[Colleague]:
    """Return the members who can answer, those online first, then by name."""
    recent = Presence.objects.filter(project=project, seen_at__gt=now - PRESENT_FOR)
    away = {one.actor_key: one.has_left(now) for one in recent}
    people = []
    for row in advisers(project, now):
        key = f"user:{row.user_id}"
        state = ("away" if away[key] else "online") if key in away else "offline"
        people.append(Colleague(key, display_name(row.user), frozenset(row.skills), state))
    return sorted(people, key=lambda person: person.state != "online")


@dataclass(frozen=True)
class Reach:
    """Everyone who could answer asks of a project at one moment, read once for many asks.

    Scripts with an expert token are not members: they count while they are online.
    """

    members: list[Member]
    present: Mapping[str, Sequence[str]]
    """The skills of everyone who is online, by key."""

    def able(self, ask: Ask) -> set[str]:
        """Return the keys of everyone who could claim an ask with its skills, at its tier."""
        return _fit(ask, self.members) | _fit_scripts(ask, self.present)

    def missing(self, needs: Collection[str]) -> list[str]:
        """Return the skills that keep everyone from an ask; empty if someone has all of them."""
        if any(may_take(needs, has) for has in self._skills):
            return []
        return sorted(set(needs).difference(*self._skills)) or sorted(needs)

    @cached_property
    def _skills(self) -> list[frozenset[str]]:
        scripts = [frozenset(skills) for key, skills in self.present.items() if key.startswith(TOKEN)]
        return [*(one.skills for one in self.members), *scripts]


def reach_of(project: Project, now: datetime, desk: Desk | None = None) -> Reach:
    return Reach(members_of(project, now, desk), {one.actor_key: one.skills for one in here(project, now)})


def pool(ask: Ask, now: datetime) -> tuple[set[str], set[str]]:
    """Return the keys of everyone who can still answer this ask, and of those who are online."""
    reach = reach_of(ask.project, now)
    fit = reach.able(ask) - out_of(ask)
    return fit, fit & reach.present.keys()


def online_for(ask: Ask, now: datetime, present: Mapping[str, Sequence[str]], desk: Desk | None = None) -> int:
    """Return how many of those who can still answer this ask are online: present are these keys with their skills."""
    people = {key for key in present if not key.startswith(TOKEN)}
    if people:  # of the members only who is online counts
        people &= _fit(ask, members_of(ask.project, now, desk))
    return len((people | _fit_scripts(ask, present)) - out_of(ask))


def out_of(ask: Ask) -> set[str]:
    """Return the keys of those who declined an ask, or decided it and wait for others."""
    if ask._state.adding:  # no one has declined what is not stored yet
        return set()
    out = set(Decline.objects.filter(ask=ask).values_list("author_key", flat=True))
    decided = (
        QuorumDecision.objects.filter(ask=ask, counts=True) if ask.quorum_of > 1 else QuorumDecision.objects.none()
    )
    return out | set(decided.values_list("author_key", flat=True))


def _fit(ask: Ask, members: list[Member]) -> set[str]:
    """Return the keys of the members with the skills. If the senior has left the project, everyone with them can
    answer what is for the senior; what needs several people everyone can in any case."""
    fit = {one.key for one in members if may_take(ask.skills, one.skills) and has_role(one.role, ask.quorum_role)}
    seniors = {one.key for one in members if one.is_senior}
    return fit & seniors if ask.tier == Tier.SENIOR and seniors and ask.quorum_of < 2 else fit


def _fit_scripts(ask: Ask, present: Mapping[str, Sequence[str]]) -> set[str]:
    fit = {key for key, skills in present.items() if key.startswith(TOKEN) and may_take(ask.skills, skills)}
    return fit if ask.tier != Tier.SENIOR and ask.quorum_of < 2 else set()


def may_count(ask: Ask, now: datetime) -> set[str]:
    """Return the keys of the members whose decision counts on an approval that needs several people."""
    return {one.key for one in members_of(ask.project, now) if has_role(one.role, ask.quorum_role)}


def leads_of(project: Project, now: datetime) -> set[str]:
    """Return the keys of those who can set skills, or transfer and cancel asks."""
    rows = Membership.objects.current(now).filter(project=project, role__in=LEADS)
    return {f"user:{user}" for user in rows.values_list("user", flat=True)}


def to_tell(ask: Ask, now: datetime) -> set[str]:
    """Return the keys of those to notify about this ask: they can answer it and are not set to Away. One that was
    handed to a colleague concerns only them, and one that requires a skill that no one has the leads."""
    away = Presence.objects.set_away(now).filter(project=ask.project).values_list("actor_key", flat=True)
    reach = reach_of(ask.project, now)
    if reach.missing(ask.skills):
        return leads_of(ask.project, now) - set(away)  # no one can answer it: those who set skills, transfer or cancel
    fit = reach.able(ask) - out_of(ask)
    named = {one.key for one in reach.members if ask.handed_to in one.names}
    # the colleague or the group alone, as long as they can still answer it
    return (fit & named or fit) - set(away)


def member_of(actor: Actor, desk: Desk) -> Member | None:
    """Return this person as an expert. Where no senior is named, everyone is senior."""
    mine = Membership.objects.filter(project=actor.project, user=actor.person).first()
    if mine is None:
        return None
    return Member(actor.key, frozenset(mine.skills), desk.senior_id in (None, mine.pk), mine.role)


def fits(actor: Actor, ask: Ask, desk: Desk) -> bool:
    """Return whether this person has the skills, and is the senior if the ask requires the senior."""
    mine = member_of(actor, desk)
    return mine is not None and mine.may_take(ask.skills, ask.tier, ask.quorum_role, ask.quorum_of)


def may_be_present(role: str | None, scope: str | None) -> bool:
    """Return whether asks can wait for this kind of actor."""
    by_token = scope is not None and "answer" in granted(scope)
    return by_token if role is None else role in ADVISERS and (scope is None or by_token)
