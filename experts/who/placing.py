"""Reads: where an ask goes: its group, its plan of tiers and the load on people that the plan follows from.

Owns the numbers of `rules/routing.py`, which decides. The desk is as `arriving.py` found it. Called by
`record/opening.py` for a new ask, and by `llm.py` for one that people could still take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from episodes.show.legend import NO_ANSWER
from experts.models import Ask, Desk, Tier
from experts.rules.routing import DeskLoad, RoutingRules, alike, draft_time, draw, route
from experts.who.advisers import online_for
from experts.who.arriving import FoundDesk, NearAsk, arrival
from experts.who.policies import policy_of


def place(ask: Ask, desk: Desk, arrived: FoundDesk, now: datetime) -> str:
    """Set a new ask's group and plan. Return the reason if it must fall back immediately."""
    policy = policy_of(desk, ask.episode)
    if ask.quorum_of > 1:  # only people count, and the senior is one of them
        policy = replace(policy, has_models=False, has_senior=False)
    elif ask.pictures_digest:  # only people see them
        policy = replace(policy, has_models=False)
    same = same_question(ask, arrived.alike)
    ask.group = same.group if same is not None else ask.pk
    # the ID is known before the row exists, so the draw follows from it
    way = route(policy, load_for(ask, policy, now, desk, arrived), draw(policy.seed, ask.pk))
    if way.reason == "no_model" and ask.pictures_digest:
        way = replace(way, reason="pictures")
    ask.tiers, ask.tier_reason, ask.chance = list(way.tiers), way.reason, way.chance
    ask.tier = way.tiers[0] if way.tiers else Tier.PEOPLE
    ask.expected_wait_s = way.expected_wait_s
    # of a typed ask no draft is prepared: at the deadline silence means what its asker said
    if Tier.LLM in way.tiers and not ask.typed:
        ask.draft_at = draft_time(now, min(ask.deadline_at, ask.human_deadline_at or ask.deadline_at))
    known = NO_ANSWER.get(way.reason)
    return way.reason if not way.tiers and known is not None and known.is_immediate else ""


def load_for(
    ask: Ask, policy: RoutingRules, now: datetime, desk: Desk | None = None, arrived: FoundDesk | None = None
) -> DeskLoad:
    """Return the load on people at the time of this ask; as it was `arrived`, if that is known."""
    arrived = arrived or arrival(ask.episode, now, ask=ask.pk, is_question=False)
    return DeskLoad(
        present=online_for(ask, now, arrived.present, desk),
        ahead=arrived.ahead,
        ahead_of_run=arrived.ahead_of_run,
        # This run counts too, also if this is its first ask.
        runs=arrived.runs + (arrived.ahead_of_run == 0),
        usual_s=arrived.usual_s,
        left_s=((ask.human_deadline_at or ask.deadline_at) - now).total_seconds(),
        group=_others_of_group(ask) + 1,
        **_spent(ask, policy, now),
    )


def _others_of_group(ask: Ask) -> int:
    if ask._state.adding and ask.group == ask.pk:
        return 0  # it begins one
    return Ask.objects.open().filter(project=ask.project, group=ask.group).exclude(pk=ask.pk).count()


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


def same_question(ask: Ask, near: Iterable[NearAsk]) -> NearAsk | None:
    """Return the newest of these open asks that has the same question."""
    same = (one for one in near if one.pictures == ask.pictures_digest and alike(one.question, ask.question))
    return next(same, None)
