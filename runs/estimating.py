"""Reads: what a plan will take, in time, tokens and people's time, from earlier episodes of planned runs.

Says what it is from, and nothing where nothing is known. Called before a launch, by page and command.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q

from episodes.formatting import clock
from episodes.models import Episode, EpisodeState, Step, StepKind
from episodes.recording import policy_facts
from episodes.strip import BRIEFED
from experts.models import Advice
from people.access import Actor, scoped
from runs import launching
from runs.compare import count
from runs.plans import PlanDocument, PlannedArm

NEWEST = 200
SAMPLED = 50
"""Episodes of an arm whose steps are read for their tokens."""


@dataclass(frozen=True)
class Estimate:
    """What the episodes of a plan take; `earlier` ones it is from. `unknown` names arms without any.

    `seconds` is the time until the run has ended, with all its slots at work and people answering as they did.
    """

    episodes: int
    earlier: int
    unknown: tuple[str, ...]
    seconds: float
    tokens: int
    human_s: float

    @property
    def words(self) -> str:
        if not self.earlier:
            return "No earlier episodes of these arms: time and cost are unknown."
        parts = [f"about {clock(self.seconds)}" if self.seconds >= 1 else "<1 s"]
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
        if self.human_s >= 1:
            parts.append(f"{clock(self.human_s)} of people's time")
        but = f" Nothing is known of {', '.join(self.unknown)}." if self.unknown else ""
        return f"From {count(self.earlier, 'earlier episode')}: {', '.join(parts)}.{but}"


@dataclass(frozen=True)
class _Each:
    """What one episode of an arm took."""

    count: int
    seconds: float
    tokens: float
    human_s: float


def estimate(actor: Actor, document: PlanDocument, tasks: int) -> Estimate:
    """Return what a plan with this number of tasks takes. Raises `UnknownPolicy` or `NoEndpoint`."""
    each = {arm.name: _earlier(actor, document, arm) for arm in document.arms}
    known = [one for one in each.values() if one is not None]
    of_arm = tasks * document.seeds
    longest = max((one.seconds for one in known), default=0.0)  # slots shorten a run no further than one episode
    return Estimate(
        episodes=of_arm * len(document.arms),
        earlier=sum(one.count for one in known),
        unknown=tuple(name for name, one in each.items() if one is None),
        seconds=max(longest, sum(one.seconds for one in known) * of_arm / document.parallel),
        tokens=round(sum(one.tokens for one in known) * of_arm),
        human_s=sum(one.human_s for one in known) * of_arm,
    )


def _earlier(actor: Actor, document: PlanDocument, arm: PlannedArm) -> _Each | None:
    facts = policy_facts(launching.policy_named(arm.policy or document.policy))
    played = scoped(Episode.objects.all(), actor.project).filter(
        planned__isnull=False,
        state=EpisodeState.FINISHED,
        expert=arm.expert,
        started_at__isnull=False,
        ended_at__isnull=False,
        **facts,
    )
    briefed = Q(strip__contains=BRIEFED)
    played = played.filter(briefed if arm.briefing else ~briefed)
    rows = list(played.order_by("-created_at").values_list("pk", "started_at", "ended_at")[:NEWEST])
    if not rows:
        return None
    ids = [pk for pk, _, _ in rows]
    by_people = (1.0 if arm.offer is None else arm.offer) * (1.0 if arm.people is None else arm.people)
    return _Each(
        count=len(rows),
        seconds=statistics.fmean((ended - begun).total_seconds() for _, begun, ended in rows if begun and ended),
        tokens=_tokens(ids[:SAMPLED]) / len(ids[:SAMPLED]),
        human_s=_human_s(ids) / len(ids) * by_people,
    )


def _tokens(episodes: Collection[str]) -> int:
    """Return the tokens that endpoints counted in these episodes."""
    said = Step.objects.filter(episode__in=episodes, kind=StepKind.MESSAGE, body__contains='"usage"')
    usages = (json.loads(body).get("usage") or {} for body in said.values_list("body", flat=True))
    counts = (usage.get(name) for usage in usages for name in ("prompt_tokens", "completion_tokens"))
    return sum(count for count in counts if type(count) is int)


def _human_s(episodes: Collection[str]) -> float:
    """Return the seconds that people took, from claim to answer; programs that answer are none."""
    answers = Advice.objects.filter(ask__episode__in=episodes, source="human", took_s__isnull=False)
    return sum(answer.took_s or 0.0 for answer in answers if not answer.is_by_script)
