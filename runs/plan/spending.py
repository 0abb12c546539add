"""Reads: the cost of a run's episodes, by arm: tokens, money at the prices of its launch, elapsed time, people's time.

Every payment counts, including those for episodes that a retry replaced. Leaves arithmetic to `costs.py`. Called by
page, API and report, and by `planning.py` for the prices of a launch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet, Sum

from awmclient.schema import LIVE_STATES
from awmclient.words.faults import was_cut
from episodes.find.selection import among
from episodes.models import Episode, EpisodeState, Run, Step, StepKind
from experts.models import MODEL, Advice, ModelCall, by_program
from people.access import Actor
from runs.models import Plan
from runs.statistics.costs import (
    Bill,
    Cost,
    TokenPrice,
    Tokens,
    summed,
    tokens_of,
)

AGENT, EXPERT = "agent", "expert"
"""Roles of endpoints. The first endpoint of a role has the role's own name."""
BATCH = 500
KEPT = 50_000
"""The number of episodes whose tokens a process caches, about 10 MB."""
COLUMNS = [
    *("arm", "episodes", "tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning"),
    *("expert_tokens", "briefing_tokens"),
    *("usd", "unknown", "wall_s", "human_s"),
]
Prices = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By role and name of the endpoint: the `model`, and its `rate` if the table has one."""


@dataclass
class Spent:
    """The cost of some episodes: tokens by the endpoint that counted them, and time. `uncounted` episodes were run by a
    model whose endpoint counted nothing; of `cut` calls nothing came back."""

    episodes: int = 0
    wall_s: float = 0.0
    human_s: float = 0.0
    uncounted: int = 0
    cut: int = 0
    agents: dict[str, Tokens] = field(default_factory=dict)
    experts: dict[str, Tokens] = field(default_factory=dict)
    briefings: dict[str, Tokens] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return summed([*self.agents.values(), *self.experts.values()]).all

    def bill(self, prices: Prices) -> Bill:
        """Return the money of these episodes, at these prices."""
        bill = Bill()
        for role, counted in ((AGENT, self.agents), (EXPERT, self.experts), (EXPERT, self.briefings)):
            for endpoint, tokens in sorted(counted.items()):
                # a run without stored prices has none
                price = prices.get(role, {}).get(endpoint, {})
                rate = TokenPrice.model_validate(price["rate"]) if "rate" in price else None
                bill.add(str(price.get("model", endpoint)), tokens, rate)
        bill.uncounted(self.uncounted)
        bill.cut(self.cut)
        return bill


def prices_now() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the current prices of the configured endpoints, to be stored with a launch."""
    roles = {AGENT: settings.AGENT_ENDPOINTS, EXPERT: settings.EXPERT_ENDPOINTS}
    return {
        role: {name: _priced(endpoint.model) for name, endpoint in endpoints.items()}
        for role, endpoints in roles.items()
    }


def _priced(model: str) -> dict[str, Any]:
    rate = settings.PRICES.get(model)
    return {"model": model} | ({} if rate is None else {"rate": rate.model_dump()})


def costs_of(run: Run) -> list[Cost]:
    """Return the cost of each arm of a run so far, in the order of its plan. A run without a plan has no prices."""
    plan = Plan.objects.filter(run=run).first()
    episodes = Episode.objects.filter(run=run)
    names = (
        [arm.name for arm in plan.arms.all()]
        if plan
        else sorted({name or "" for name in episodes.values_list("arm", flat=True)})
    )
    # once for all arms: a query per arm would read the steps of all of them each time
    counted = _agent_tokens(episodes)
    costs = []
    for name in names:
        took = _spent(episodes.filter(arm=name), counted)
        calls = ModelCall.objects.filter(run=run, arm=name)
        took.briefings = _tokens_by_model(calls)
        took.cut += _cut(calls)
        costs.append(_cost(name, took, plan.prices if plan else {}))
    return costs


def _cost(name: str, took: Spent, prices: Prices) -> Cost:
    bill = took.bill(prices)
    return Cost(
        name,
        took.episodes,
        agent=summed(took.agents.values()),
        expert=summed(took.experts.values()),
        briefing=summed(took.briefings.values()),
        priced=bill.priced,
        unknown=tuple(bill.unknown),
        wall_s=took.wall_s,
        human_s=took.human_s,
    )


def spent(episodes: QuerySet[Episode]) -> Spent:
    """Return the cost of these episodes so far."""
    return _spent(episodes, _agent_tokens(episodes))


def _spent(episodes: QuerySet[Episode], counted: Mapping[str, Tokens]) -> Spent:
    total = Spent(experts=_expert_tokens(episodes), human_s=human_s(episodes), cut=_cut(_expert_calls(episodes)))
    columns = ("state", "policy", "policy_kind", "policy_name", "started_at", "ended_at", "fault", "fault_detail")
    for episode in episodes.only(*columns):
        # the turn in which the episode failed
        total.cut += episode.policy_kind == "model" and episode.fault == "model" and was_cut(episode.fault_detail)
        # one that never began took nothing
        total.episodes += episode.started_at is not None
        total.wall_s += (
            (episode.ended_at - episode.started_at).total_seconds() if episode.started_at and episode.ended_at else 0.0
        )
        if episode.pk in counted:
            endpoint = _endpoint(episode)
            total.agents[endpoint] = total.agents.get(endpoint, Tokens()) + counted[episode.pk]
        elif episode.policy_kind == "model" and episode.state == EpisodeState.FINISHED:
            total.uncounted += 1
    return total


def _endpoint(episode: Episode) -> str:
    """Return the endpoint of an episode: one of awmweb's by its name, or an external loop's own model."""
    if "awmweb" in episode.policy:
        return str(episode.policy.get("endpoint", AGENT))
    return episode.policy_name or "the agent's model"


def _agent_tokens(episodes: QuerySet[Episode]) -> dict[str, Tokens]:
    """Return the tokens that endpoints counted in the turns of these episodes, by episode. A process reads an ended
    episode once: its tokens change only if it gets further steps."""
    ends = {
        pk: None if state in LIVE_STATES else seq for pk, state, seq in episodes.values_list("pk", "state", "last_seq")
    }
    by_episode = _kept.of(ends)
    missing = [pk for pk in ends if pk not in by_episode]
    if missing:
        read = _read_tokens(missing)
        _kept.keep({(pk, seq): read[pk] for pk, seq in ends.items() if pk not in by_episode and seq is not None})
        by_episode |= read
    return {pk: tokens for pk, tokens in by_episode.items() if tokens.all}


def tokens_in(_actor: Actor, episodes: Sequence[str]) -> dict[str, str]:
    """Return the tokens of the agent of each of these episodes; none if its endpoint counted none."""
    return {pk: f"{one.all:,}" for pk, one in _agent_tokens(Episode.every.filter(pk__in=episodes)).items()}


def _read_tokens(ids: Sequence[str]) -> dict[str, Tokens]:
    # a body is text: this finds the turns that can have counts, and `tokens_of` reads them
    kinds = (StepKind.MESSAGE, StepKind.NOTE)  # a note has what all turns of a file used that counted none by itself
    steps = Step.objects.filter(episode__in=among(ids), kind__in=kinds, body__contains='"usage"').order_by()
    totals = dict.fromkeys(ids, Tokens())
    # the first steps of a branch are copies, which its parent paid for
    branches = Episode.every.filter(pk__in=among(ids), branch_seq__isnull=False)
    begins = {pk: seq or 0 for pk, seq in branches.values_list("pk", "branch_seq")}
    for episode, seq, body in steps.values_list("episode_id", "seq", "body").iterator(BATCH):
        if seq >= begins.get(episode, 0):
            totals[episode] += tokens_of(json.loads(body).get("usage"))
    return totals


class _Kept:
    """A bounded cache of tokens of ended episodes by ID and last step; the oldest are evicted first."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, int], Tokens] = {}
        self._lock = Lock()

    def of(self, ends: Mapping[str, int | None]) -> dict[str, Tokens]:
        """Return the cached tokens of episodes that ended at these steps."""
        return {pk: self._tokens[pk, seq] for pk, seq in ends.items() if seq is not None and (pk, seq) in self._tokens}

    def keep(self, tokens: Mapping[tuple[str, int], Tokens]) -> None:
        with self._lock:
            self._tokens |= tokens
            # a dictionary keeps the order of insertion, so the first are the oldest
            for old in list(islice(self._tokens, max(0, len(self._tokens) - KEPT))):
                del self._tokens[old]


_kept = _Kept()


def _expert_tokens(episodes: QuerySet[Episode]) -> dict[str, Tokens]:
    """Return the tokens of expert models for asks of these episodes: for answers, drafts and criteria."""
    return _tokens_by_model(_expert_calls(episodes))


def _expert_calls(episodes: QuerySet[Episode]) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(ask__episode__in=episodes)


def _cut(calls: QuerySet[ModelCall]) -> int:
    faults = calls.filter(tokens=0).exclude(fault="").order_by().values_list("fault", flat=True)
    return sum(map(was_cut, faults.iterator()))


def _tokens_by_model(calls: QuerySet[ModelCall]) -> dict[str, Tokens]:
    counts = {name: Sum(f"{name}_tokens", default=0) for name in ("prompt", "completion", "cached")}
    # calls whose endpoint reported only a total
    counts["untold"] = Sum("tokens", filter=Q(prompt_tokens=None), default=0)
    rows = calls.order_by().values_list("model_key").annotate(**counts)
    return {key.removeprefix(MODEL): Tokens(*counted) for key, *counted in rows}


def human_s(episodes: QuerySet[Episode]) -> float:
    """Return the seconds that people spent on asks of these episodes, from claim to answer; programs count 0. An edited
    answer has the time of its first version, once."""
    answers = Advice.objects.filter(ask__episode__in=episodes, source="human", amended_by=None)
    took = answers.exclude(by_program()).aggregate(s=Sum("took_s", default=0.0))["s"]
    return float(took)


def table(costs: Iterable[Cost]) -> list[dict[str, Any]]:
    """Return the costs as rows of a table; the money is empty where a part of it is unknown."""
    return [
        {
            "arm": cost.arm,
            "episodes": cost.episodes,
            "tokens_in": cost.agent.prompt,
            "tokens_cached": cost.agent.cached,
            "tokens_out": cost.agent.completion,
            "tokens_reasoning": cost.agent.reasoning,
            "expert_tokens": cost.expert.all,
            "briefing_tokens": cost.briefing.all,
            "usd": "" if cost.usd is None else round(cost.usd, 6),
            "unknown": "; ".join(cost.unknown),
            "wall_s": round(cost.wall_s, 1),
            "human_s": round(cost.human_s, 1),
        }
        for cost in costs
    ]
