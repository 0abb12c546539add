"""Reads: a project's routing settings, who is online, and how much work they have.

Owns the values that `routing.py` decides from. Leaves changes to `desk.py` and `queue.py`. Called by both, and by the
pages that show who is online.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from awmclient.schema import ASKS_BACK
from episodes.models import Episode, StepKind
from episodes.visible import visibility
from experts.find.arriving import FoundDesk, NearAsk, arrival, is_indexed, times_of
from experts.models import (
    ERASED,
    MODEL,
    SIMULATED,
    TOKEN,
    Advice,
    Ask,
    Assignment,
    Decline,
    Desk,
    ModelCall,
    Presence,
    Privilege,
    Tier,
)
from experts.rules.routing import (
    PRESENT_FOR,
    USUAL_S,
    DeskLoad,
    RoutingRules,
    alike,
    expected_wait,
    may_take,
)
from people.access import Actor
from people.models import Membership, Project, Role, display_name, granted
from people.slots import SlotState

ADVISERS = (Role.ADMIN, Role.RESEARCHER, Role.EXPERT)
BEFORE_PEOPLE = (Tier.PEOPLE, Tier.SENIOR)
RUN_KEY = Coalesce("episode__run_id", "episode_id")
"""`Ask.run_key` as an expression."""


@dataclass(frozen=True)
class Member:
    """A person who can answer, online or not."""

    key: str
    skills: frozenset[str]
    is_senior: bool

    def lacks(self, needs: Iterable[str]) -> list[str]:
        """Return the skills that an ask requires and this person does not have."""
        return sorted(set(needs) - self.skills)

    def may_take(self, needs: Collection[str], tier: str) -> bool:
        return may_take(needs, self.skills) and (tier != Tier.SENIOR or self.is_senior)


def desk_of(project: Project) -> Desk:
    """Return the desk's settings. A project without a row has the defaults."""
    return Desk.objects.filter(project=project).first() or Desk(project=project)


def desk_read_with(project: Project) -> Desk:
    """Return the settings of a project that was read with its `desk` in this transaction, without another query."""
    return getattr(project, "desk", None) or Desk(project=project)


def policy_of(desk: Desk, episode: Episode) -> RoutingRules:
    """Return the desk's settings as a value.

    An arm can narrow which experts its episodes ask: `policy.experts` of the episode.
    """
    shared = ("model_first", "people_while_free", "cache", "audit_share", "low_confidence", "large_group", "seed")
    more = ("per_hour", "per_training_step", "wait_limit_s", "capacity")
    given: dict[str, Any] = {name: getattr(desk, name) for name in (*shared, *more)}
    # Loops record any JSON as their policy.
    only = episode.policy.get("experts") if isinstance(episode.policy, dict) else ""
    # any other value is a loop's own and narrows nothing
    given["only"] = only if only in ("people", "models") else ""
    return RoutingRules(**given, has_senior=desk.senior_id is not None, has_models=bool(settings.EXPERT_ENDPOINTS))


def models_may_help(ask: Ask) -> bool:
    policy = policy_of(desk_of(ask.project), Episode.every.get(pk=ask.episode_id))
    return policy.has_models and policy.only != "people"


def members_of(project: Project, now: datetime, desk: Desk | None = None) -> list[Member]:
    """Return the people who can answer in this project. `desk` has its settings, if they are read already."""
    rows = Membership.objects.current(now).filter(project=project, role__in=ADVISERS)
    senior = (desk or desk_of(project)).senior_id
    return [Member(f"user:{row.user_id}", frozenset(row.skills), row.pk == senior) for row in rows]


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
    found = []
    for row in advisers(project, now):
        key = f"user:{row.user_id}"
        state = ("away" if away[key] else "online") if key in away else "offline"
        found.append(Colleague(key, display_name(row.user), frozenset(row.skills), state))
    return sorted(found, key=lambda one: one.state != "online")


def here(project: Project, now: datetime) -> QuerySet[Presence]:
    """Return who is online at the desk: seen recently and not set to Away."""
    recent = Presence.objects.filter(project=project, seen_at__gt=now - PRESENT_FOR)
    return recent.available(now).order_by("name")


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

    `present` counts the experts that asks wait for. The wait is the value for a new ask. `models_first`: a model
    answers a new ask before people are asked.
    """

    seats: list[Seat]
    present: int
    by_tier: dict[str, int]
    expected_wait_s: float
    usual_s: float
    has_models: bool
    models_first: bool

    @property
    def scripts(self) -> int:
        """The number of scripts among the experts that asks wait for."""
        return sum(one.is_waited_for and one.is_script for one in self.seats)


def away_of(actor: Actor, now: datetime) -> Presence | None:
    """Return the presence of a person who is set to Away now; None of one who is not."""
    return Presence.objects.set_away(now).filter(project=actor.project, actor_key=actor.key).first()


def outlook(project: Project, now: datetime) -> Outlook:
    """Return who is online, what they have claimed, open asks by tier, and the expected wait."""
    seats, usual_s = _seats(project, now), usual_time(project)
    rows = Ask.objects.open().filter(project=project, deadline_at__gt=now).values_list("tier")
    by_tier = {str(tier): count for tier, count in rows.annotate(count=Count("pk")).order_by()}
    present = sum(one.is_waited_for for one in seats)
    ahead = sum(by_tier.get(tier, 0) for tier in BEFORE_PEOPLE)
    wait = expected_wait(DeskLoad(present=present, ahead=ahead, ahead_of_run=ahead, usual_s=usual_s))
    rules, has_models = desk_of(project), bool(settings.EXPERT_ENDPOINTS)
    models_first = has_models and rules.model_first and not (rules.people_while_free and present)
    return Outlook(seats, present, by_tier, wait, usual_s, has_models, models_first)


def _seats(project: Project, now: datetime) -> list[Seat]:
    held = Assignment.objects.filter(ask__project=project, state=SlotState.CLAIMED, lease_until__gt=now)
    hands = Counter(held.values_list("holder", "holder_name"))
    recent = list(Presence.objects.filter(project=project, seen_at__gt=now - PRESENT_FOR).order_by("name"))
    # False sorts first: those who are not Away
    recent.sort(key=lambda one: one.has_left(now))
    in_hand = {key: count for (key, _), count in hands.items()}
    seats = [
        Seat(one.actor_key, one.name, one.skills, one.has_left(now), in_hand.get(one.actor_key, 0)) for one in recent
    ]
    known = {one.key for one in seats}
    others = sorted((name, key, count) for (key, name), count in hands.items() if key not in known)
    # they hold a claim though no page of theirs is open
    return [*seats, *(Seat(key, name, [], False, count, seen=False) for name, key, count in others)]


def pool(ask: Ask, now: datetime) -> tuple[set[str], set[str]]:
    """Return the keys of everyone who can still answer this ask, and of those who are online.

    Scripts with an expert token are not members: they count while they are online.
    """
    present = {one.actor_key: one.skills for one in here(ask.project, now)}
    fit = (_fit(ask, members_of(ask.project, now)) | _fit_scripts(ask, present)) - _declined(ask)
    return fit, fit & present.keys()


def online_for(ask: Ask, now: datetime, present: Mapping[str, Sequence[str]], desk: Desk | None = None) -> int:
    """Return how many of those who can still answer this ask are online: present are these keys with their skills."""
    people = {key for key in present if not key.startswith(TOKEN)}
    if people:  # of the members only who is online counts
        people &= _fit(ask, members_of(ask.project, now, desk))
    return len((people | _fit_scripts(ask, present)) - _declined(ask))


def _declined(ask: Ask) -> set[str]:
    # no one has declined what is not stored yet
    return set() if ask._state.adding else set(Decline.objects.filter(ask=ask).values_list("author_key", flat=True))


def _fit(ask: Ask, members: list[Member]) -> set[str]:
    """Return the keys of the members with the skills. If the senior has left the project, everyone with them can
    answer what is for the senior."""
    fit = {one.key for one in members if may_take(ask.skills, one.skills)}
    seniors = {one.key for one in members if one.is_senior}
    return fit & seniors if ask.tier == Tier.SENIOR and seniors else fit


def _fit_scripts(ask: Ask, present: Mapping[str, Sequence[str]]) -> set[str]:
    fit = {key for key, skills in present.items() if key.startswith(TOKEN) and may_take(ask.skills, skills)}
    return fit if ask.tier != Tier.SENIOR else set()


def to_tell(ask: Ask, now: datetime) -> set[str]:
    """Return the keys of those to notify about this ask: they can answer it and are not set to Away. One that was
    handed to a colleague concerns only them."""
    away = Presence.objects.set_away(now).filter(project=ask.project).values_list("actor_key", flat=True)
    fit = pool(ask, now)[0]
    # the colleague alone, as long as they can still answer it
    return (fit & {ask.handed_to} or fit) - set(away)


def member_of(actor: Actor, desk: Desk) -> Member | None:
    """Return this person as an expert. Where no senior is named, everyone is senior."""
    mine = Membership.objects.filter(project=actor.project, user=actor.person).first()
    return Member(actor.key, frozenset(mine.skills), desk.senior_id in (None, mine.pk)) if mine is not None else None


def fits(actor: Actor, ask: Ask, desk: Desk) -> bool:
    """Return whether this person has the skills, and is the senior if the ask requires the senior."""
    mine = member_of(actor, desk)
    return mine is not None and mine.may_take(ask.skills, ask.tier)


def load_for(
    ask: Ask, policy: RoutingRules, now: datetime, desk: Desk | None = None, found: FoundDesk | None = None
) -> DeskLoad:
    """Return the load on people at the time of this ask; as it was `found`, if that is known."""
    found = found or arrival(ask.episode, now, ask=ask.pk, is_question=False)
    return DeskLoad(
        present=online_for(ask, now, found.present, desk),
        ahead=found.ahead,
        ahead_of_run=found.ahead_of_run,
        # This run counts too, also if this is its first ask.
        runs=found.runs + (found.ahead_of_run == 0),
        usual_s=_usual(found.times),
        left_s=((ask.human_deadline_at or ask.deadline_at) - now).total_seconds(),
        group=_others_of_group(ask) + 1,
        **_spent(ask, policy, now),
    )


def _others_of_group(ask: Ask) -> int:
    if ask._state.adding and ask.group == ask.pk:
        return 0  # it begins one
    return Ask.objects.open().filter(project=ask.project, group=ask.group).exclude(pk=ask.pk).count()


def _before_people(project: Project) -> QuerySet[Ask]:
    return Ask.objects.open().filter(project=project, tier__in=BEFORE_PEOPLE)


def _spent(ask: Ask, policy: RoutingRules, now: datetime) -> dict[str, int]:
    """Return the human time that this ask's run has used; counted only if there is a budget."""
    if not policy.has_budget:
        return {}
    same = {"episode__run": ask.episode.run_id} if ask.episode.run_id else {"episode": ask.episode_id}
    # By event, not by tier: an ask that has moved on from people used their budget all the same.
    had = Ask.objects.filter(events__verb="to_people", **same).distinct()
    return {
        "hour": had.filter(created_at__gt=now - timedelta(hours=1)).count(),
        "step": had.filter(episode__training_step=ask.episode.training_step).count(),
    }


def usual_time(project: Project) -> float:
    """Return the median seconds from claim to answer over the last answers of people."""
    return _usual(times_of(project))


def _usual(times: Sequence[float]) -> float:
    return median(times) if times else USUAL_S


def same_question(ask: Ask, near: Iterable[NearAsk]) -> NearAsk | None:
    """Return the newest of these open asks that has the same question."""
    return next((one for one in near if alike(one.question, ask.question)), None)


def _same_task(episode: Episode, path: str) -> Q:
    if is_indexed(episode):
        return Q(**{f"{path}__scenario": episode.scenario, f"{path}__task_idx": episode.task_idx})
    return Q(**{f"{path}__task": episode.task})


def known_answer(ask: Ask, cache: str) -> Advice | None:
    """Return the newest advice for the same question of the same task, if the policy allows cached answers."""
    sources = {"models": ["llm"], "all": ["llm", "human"]}.get(cache)
    if sources is None:
        return None
    rows = Advice.objects.filter(_same_task(ask.episode, "ask__episode"), ask__project=ask.project, source__in=sources)
    # of an arm that is measured, and perhaps no answer at all
    rows = rows.exclude(author_key=SIMULATED)
    # exactly the same words: no person looks at a reused answer before the agent gets it
    same = rows.filter(ask__question=ask.question, ask__context=ask.context, privilege=ask.privilege, late=False)
    if ask.privilege == Privilege.BLIND:  # a briefing may have contained outcomes that its asker passed on
        same = same.exclude(visibility.was_informed("ask__episode", [StepKind.BRIEFING]))
    # only an answer that its own agent got, and no question to that agent
    got = same.filter(ask__accepted=F("pk")).exclude(reason__in=(ASKS_BACK, ERASED))
    return got.order_by("-created_at").first()


def held_by(key: str, now: datetime) -> int:
    """Return how many asks this expert has claimed."""
    return Assignment.objects.filter(holder=key, state=SlotState.CLAIMED, lease_until__gt=now).count()


def served(project: Project) -> Counter[str]:
    """Return the number of claimed asks by run."""
    rows = _before_people(project).filter(assignment__state=SlotState.CLAIMED)
    return Counter(rows.values_list(RUN_KEY, flat=True))


@dataclass(frozen=True)
class ExpertModel:
    """A configured expert model and the result of its last call."""

    name: str
    model: str
    base_url: str
    at_work: int
    last: ModelCall | None


def expert_models(project: Project, now: datetime) -> list[ExpertModel]:
    """Return the expert models in the order in which they are asked."""
    calls = ModelCall.objects.filter(project=project).order_by("-at")
    return [
        ExpertModel(
            name,
            endpoint.model,
            endpoint.base_url,
            held_by(f"model:{name}", now),
            calls.filter(model_key=f"model:{name}").first(),
        )
        for name, endpoint in settings.EXPERT_ENDPOINTS.items()
    ]


def tokens_spent(project: Project, now: datetime) -> int:
    """Return the tokens that this project's models have used in the last hour."""
    recent = ModelCall.objects.filter(project=project, at__gt=now - timedelta(hours=1))
    return recent.aggregate(total=Sum("tokens"))["total"] or 0


def tokens_are_spent(project: Project, now: datetime) -> bool:
    """Return whether the project's models have used up this hour's tokens."""
    limit = desk_of(project).model_tokens_per_hour
    return limit is not None and tokens_spent(project, now) >= limit


def may_be_present(role: str | None, scope: str | None) -> bool:
    """Return whether asks can wait for this kind of actor."""
    by_token = scope is not None and "answer" in granted(scope)
    return by_token if role is None else role in ADVISERS and (scope is None or by_token)
