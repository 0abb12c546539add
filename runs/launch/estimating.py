"""Reads: the cost of a plan in time, tokens, money and people's time, from earlier episodes of planned runs.

States its basis, and gives no figure without one. Called before a launch, by page and command.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from django.db.models import Q

from episodes.models import Episode, EpisodeState
from episodes.stored.policies import policy_facts
from episodes.stored.strip import BRIEFED
from people.access import Actor, scoped
from people.text.in_words import clock, count
from runs.launch import launching
from runs.plan import spending
from runs.plan.plans import PlanDocument, PlannedArm
from runs.statistics.costs import dollars

NEWEST = 200
SAMPLED = 50
"""The number of episodes of an arm whose steps are read for their tokens."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a plan's episodes, from `earlier` ones. `unknown` names arms without any.

    `seconds` is the time until the run has ended, with all its slots in use and people answering as before.

    """

    episodes: int
    earlier: int
    unknown: tuple[str, ...]
    seconds: float
    tokens: int
    human_s: float
    usd: float | None = 0.0
    """The money at today's prices, or None where a part of it is unknown."""
    unpriced: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        if not self.earlier:
            return "No earlier episodes of these arms: time and cost are unknown."
        parts = [f"about {clock(self.seconds)}" if self.seconds >= 1 else "<1 s"]
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
            parts.append("money unknown" if self.usd is None else dollars(self.usd))
        if self.human_s >= 1:
            parts.append(f"{clock(self.human_s)} of people's time")
        but = f" Nothing is known of {', '.join(self.unknown)}." if self.unknown else ""
        why = f" Money: {'; '.join(self.unpriced)}." if self.unpriced else ""
        return f"From {count(self.earlier, 'earlier episode')}: {', '.join(parts)}.{but}{why}"


@dataclass(frozen=True)
class _Each:
    """The average cost of one episode of an arm."""

    count: int
    seconds: float
    tokens: float
    human_s: float
    usd: float
    unpriced: tuple[str, ...]


def estimate(actor: Actor, document: PlanDocument, tasks: int) -> Estimate:
    """Return the cost of a plan with this number of tasks. Raises `UnknownPolicy` or `NoEndpoint`."""
    each = {arm.name: _earlier(actor, document, arm) for arm in document.arms}
    earlier = [one for one in each.values() if one is not None]
    of_arm = tasks * document.seeds
    unpriced = tuple(dict.fromkeys(reason for one in earlier for reason in one.unpriced))
    # more slots than episodes do not make a run shorter than one episode
    longest = max((one.seconds for one in earlier), default=0.0)
    return Estimate(
        episodes=of_arm * len(document.arms),
        earlier=sum(one.count for one in earlier),
        unknown=tuple(name for name, one in each.items() if one is None),
        # all slots in use: the time of all episodes, divided by how many run together
        seconds=max(longest, sum(one.seconds for one in earlier) * of_arm / document.parallel),
        tokens=round(sum(one.tokens for one in earlier) * of_arm),
        human_s=sum(one.human_s for one in earlier) * of_arm,
        usd=None if unpriced else sum(one.usd for one in earlier) * of_arm,
        unpriced=unpriced,
    )


def _earlier(actor: Actor, document: PlanDocument, arm: PlannedArm) -> _Each | None:
    facts = policy_facts(launching.policy_named(arm.policy or document.policy))
    earlier = scoped(Episode.objects.all(), actor.project).filter(
        planned__isnull=False,
        state=EpisodeState.FINISHED,
        expert=arm.expert,
        started_at__isnull=False,
        ended_at__isnull=False,
        **facts,
    )
    briefed = Q(strip__contains=BRIEFED)
    earlier = earlier.filter(briefed if arm.briefing else ~briefed)
    rows = list(earlier.order_by("-created_at").values_list("pk", "started_at", "ended_at")[:NEWEST])
    if not rows:
        return None
    ids = [pk for pk, _, _ in rows]
    by_people = (1.0 if arm.offer is None else arm.offer) * (1.0 if arm.people is None else arm.people)
    sample = spending.spent(Episode.objects.filter(pk__in=ids[:SAMPLED]))
    bill = sample.bill(spending.prices_now())
    return _Each(
        count=len(rows),
        seconds=statistics.fmean((ended - begun).total_seconds() for _, begun, ended in rows if begun and ended),
        tokens=sample.tokens / len(ids[:SAMPLED]),
        human_s=spending.human_s(Episode.objects.filter(pk__in=ids)) / len(ids) * by_people,
        usd=bill.priced / len(ids[:SAMPLED]),
        unpriced=tuple(bill.unknown),
    )
