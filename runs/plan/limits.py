"""How many episodes of a run can be called now: by its own limit, those of its arms and of model endpoints, and its
share of the workers while other runs wait, too.

Workers take calls in the order in which they were made, and a call cannot be moved. So a run has few calls that no
worker has taken, and beside other runs no more than its share of the running ones. The number of threads and machines
need not be known. Reads only; called by `planning.py`, and by pages that say what a run waits for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Q

from awmclient.schema import AT_WORK_STATES
from episodes.models import RUN_HERE, Episode, EpisodeState
from people.text.in_words import count
from people.text.plain_text import first_line
from runs.models import Arm, ModelOutage, ModelSlots, Plan, PlanState

MODEL = "model"
FIRST = "agent"
"""The key of the default agent endpoint in `AGENT_ENDPOINTS`."""
SURPLUS = 4
"""The number of calls that a run can have beyond its share, so that no thread waits for the next one."""
AHEAD = 32
"""The most untaken calls of a run that runs alone: a later run waits behind no more than these."""
REFUSAL_CHARS = 200


LOADS = """
WITH called AS MATERIALIZED (
    -- tries with a call that no worker has taken: few, and in an index of their own
    SELECT arm_id, called_at, episode_id FROM runs_plannedtry WHERE called_at IS NOT NULL AND begun_at IS NULL
), live AS (
    -- running, waiting and parked ones; queued ones that an attempt had begun; queued ones with a call
    SELECT try.arm_id, try.called_at, episode.state
      FROM episodes_episode AS episode JOIN runs_plannedtry AS try ON try.episode_id = episode.id
     WHERE episode.state = ANY(%s)
    UNION ALL
    SELECT try.arm_id, try.called_at, episode.state
      FROM episodes_episode AS episode JOIN runs_plannedtry AS try ON try.episode_id = episode.id
     WHERE episode.state = 'queued' AND episode.attempt > 0
    UNION ALL
    SELECT called.arm_id, called.called_at, episode.state
      FROM called JOIN episodes_episode AS episode ON episode.id = called.episode_id
     WHERE episode.state = 'queued' AND episode.attempt = 0
), counted AS (
    -- the three kinds of live tries by arm
    SELECT arm_id,
           count(*) FILTER (WHERE state = ANY(%s)) AS at_work,
           count(*) FILTER (WHERE state = 'parked') AS parked,
           count(*) FILTER (WHERE state = 'queued' AND called_at IS NOT NULL) AS called
      FROM live GROUP BY arm_id
)
SELECT plan.run_id, plan.parallel, arm.name,
       coalesce(at_work, 0), coalesce(parked, 0), coalesce(called, 0),
       EXISTS (SELECT FROM runs_plannedtry AS try JOIN episodes_episode AS episode ON episode.id = try.episode_id
                WHERE try.plan_id = plan.run_id AND try.arm_id = arm.id AND try.called_at IS NULL
                  AND episode.state = 'queued')
  FROM runs_plan AS plan JOIN runs_arm AS arm ON arm.plan_id = plan.run_id LEFT JOIN counted ON arm_id = arm.id
 WHERE plan.state = 'running'
"""
"""The tries of running runs by arm: at work, waiting for an answer, called for, and whether there are any to call for.
Each of the three kinds of live tries has an index of its own; `called` is read first, whatever the planner thinks."""


@dataclass(frozen=True)
class LiveTries:
    """The live tries of a run or an arm: begun ones `at_work`, those that wait for an answer `parked`, those with a
    worker call `called`, and whether there are any to call for."""

    at_work: int = 0
    parked: int = 0
    called: int = 0
    has_uncalled: bool = False

    def __add__(self, other: LiveTries) -> LiveTries:
        return LiveTries(
            self.at_work + other.at_work,
            self.parked + other.parked,
            self.called + other.called,
            self.has_uncalled or other.has_uncalled,
        )

    @property
    def busy(self) -> int:
        """Tries that have a thread or wait for one."""
        return self.at_work + self.called

    @property
    def live(self) -> int:
        return self.busy + self.parked


@dataclass
class RunLoad:
    """The load of one run by arm, and what limits it."""

    parallel: int
    arms: dict[str, LiveTries] = field(default_factory=dict)

    @property
    def all(self) -> LiveTries:
        return sum(self.arms.values(), LiveTries())

    @property
    def wants_more(self) -> bool:
        """Whether the run has tries to call for or waiting calls, and its own limit leaves room for them."""
        mine = self.all
        return mine.called > 0 or (mine.has_uncalled and mine.live < self.parallel)


@dataclass(frozen=True)
class Endpoint:
    """A model endpoint with a limit, or those at one server: the number of episodes that use it now, how many of them
    are this run's, and whether the limit is its server's slots."""

    name: str
    limit: int
    used: int
    mine: int
    is_learned: bool = False

    @property
    def room(self) -> int:
        return max(0, self.limit - self.used)


def share(mine: RunLoad, others: Iterable[RunLoad]) -> int | None:
    """Return how many busy tries a run can have, or None if no other run waits for workers. Pure."""
    rivals = [one for one in others if one.wants_more]
    if not rivals or not mine.wants_more:
        return None
    at_work = sum(one.all.at_work for one in [mine, *rivals])
    # an equal part of what is running now: the number of threads and machines need not be known
    return math.ceil(at_work / (len(rivals) + 1)) + SURPLUS


def room(mine: RunLoad, others: Iterable[RunLoad]) -> int:
    """Return how many further tries of a run can be called, whatever its arms and models leave. Pure."""
    load, bound = mine.all, share(mine, others)
    # calls that no worker has taken cannot be moved, so a run has few of them
    left = min(mine.parallel - load.live, AHEAD - load.called)
    return left if bound is None else min(left, bound - load.busy)


def loads() -> dict[str, RunLoad]:
    """Return the load of every running run that has live tries. Reads those that are begun or called for, and one of
    those that wait: a run can have ten thousand, and this is asked at each end of an episode."""
    by_run: dict[str, RunLoad] = {}
    begun = [*AT_WORK_STATES, EpisodeState.PARKED]
    with connection.cursor() as cursor:
        cursor.execute(LOADS, [begun, list(AT_WORK_STATES)])
        for plan, parallel, arm, *counts in cursor.fetchall():
            if any(counts):
                by_run.setdefault(plan, RunLoad(parallel)).arms[arm] = LiveTries(*counts)
    return by_run


def arm_limits(plan: Plan) -> dict[str, int]:
    """Return the limits of arms that have one."""
    return {arm["name"]: arm["parallel"] for arm in plan.document["arms"] if arm.get("parallel") is not None}


def endpoint_of(policy: str) -> str:
    """Return the endpoint of a policy's name, or "" for a script."""
    kind, _, name = policy.partition(":")
    return (name or FIRST) if kind == MODEL else ""


@dataclass(frozen=True)
class ModelLimits:
    """How many episodes can ask each model at a time. Models at one server share its slots, and are one place."""

    most: Mapping[str, int]
    """The limit of each place, named by its models."""
    places: Mapping[str, str]
    """The place of each model that has a limit."""
    learned: Collection[str] = ()
    """Places whose limit is the number of slots of their server."""


def model_limits() -> ModelLimits:
    """Return the limits of the settings, and for other models the slots that these leave of their servers, where a
    server said how many it has."""
    most, places = dict(settings.AGENT_LIMITS), {name: name for name in settings.AGENT_LIMITS}
    at: dict[str, list[str]] = {}
    reserved: Counter[str] = Counter()
    for name, endpoint in settings.AGENT_ENDPOINTS.items():
        if name in most:
            reserved[endpoint.base_url] += most[name]
        else:
            at.setdefault(endpoint.base_url, []).append(name)
    learned = {}
    if at:
        telling = ModelSlots.objects.filter(address__in=at, slots__gt=0)
        # at least one each, or a model whose neighbor may take all slots would never begin
        learned = {
            ", ".join(at[address]): max(1, slots - reserved[address])
            for address, slots in telling.values_list("address", "slots")
        }
    places |= {name: place for place in learned for name in place.split(", ")}
    return ModelLimits(most | learned, places, frozenset(learned))


def limited(plan: Plan) -> dict[str, str]:
    """Return the place of each arm of a plan whose model has a limit."""
    places = model_limits().places
    if not places:
        return {}
    asked = {arm.name: endpoint_of(arm.policy) for arm in plan.arms.all()}
    return {arm: places[name] for arm, name in asked.items() if name in places}


def may_limit(run_id: str) -> bool:
    """Return whether an arm of a run asks a model that has a limit."""
    if not (places := model_limits().places):
        return False
    policies = Arm.objects.filter(plan=run_id).values_list("policy", flat=True)
    return any(endpoint_of(policy) in places for policy in policies)


def endpoint_in(policy: Mapping[str, Any]) -> str:
    """Return the endpoint of an episode's stored policy, or "" for one that asks none."""
    return str(policy.get("endpoint", FIRST)) if policy.get("awmweb") == MODEL else ""


def is_limited(episode: Episode) -> bool:
    """Return whether an episode uses room at an endpoint with a limit."""
    name = endpoint_in(episode.policy)
    return bool(name) and episode.is_builtin and name in model_limits().places


def away(plan: Plan) -> dict[str, ModelOutage]:
    """Return the outage of each arm of a plan whose model takes no request now."""
    outages = {outage.name: outage for outage in ModelOutage.objects.all()}
    if not outages:
        return {}
    asked = {arm.name: endpoint_of(arm.policy) for arm in plan.arms.all()}
    return {arm: outages[name] for arm, name in asked.items() if name in outages}


def lock(names: Iterable[str]) -> None:
    """Wait until no other transaction assigns room at these endpoints, and block others until this one ends."""
    with connection.cursor() as cursor:
        # in one order, so that two runs with two endpoints cannot wait for each other
        for name in sorted(set(names)):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"runs.limits:{name}"])


def endpoints(plan: Plan, names: Iterable[str]) -> list[Endpoint]:
    """Return the use of these endpoints: by running built-in episodes, and by tries with a worker call."""
    if not (asked_places := sorted(set(names))):
        return []
    bounds = model_limits()
    called = Q(state=EpisodeState.QUEUED, planned__called_at__isnull=False, planned__plan__state=PlanState.RUNNING)
    asking = Episode.every.filter(called | Q(state__in=AT_WORK_STATES), origin__in=RUN_HERE, policy_kind=MODEL)
    used: Counter[str] = Counter()
    mine: Counter[str] = Counter()
    # a policy is stored as text, which SQL cannot look into
    for run, policy in asking.values_list("run_id", "policy"):
        place = bounds.places.get(endpoint_in(policy), "")
        used[place] += 1
        mine[place] += run == plan.run_id
    # what a server no longer says is no limit any more
    there = [place for place in asked_places if place in bounds.most]
    return [Endpoint(place, bounds.most[place], used[place], mine[place], place in bounds.learned) for place in there]


def chosen(
    waiting: Iterable[tuple[str, str]],
    room: int,
    arms: Mapping[str, int],
    endpoint_of_arm: Mapping[str, str],
    endpoint_rooms: Mapping[str, int],
) -> list[str]:
    """Return which of the waiting tries, given in planned order as (id, arm), are called: those that fit the room of
    the run, of their arm and of its endpoint. A full arm holds up no other. Pure."""
    left, asked = dict(arms), dict(endpoint_rooms)
    called: list[str] = []
    for episode_id, arm in waiting:
        endpoint = endpoint_of_arm.get(arm, "")
        if len(called) >= room:
            break
        # an arm or an endpoint without a limit has room
        if left.get(arm, 1) <= 0 or asked.get(endpoint, 1) <= 0:
            continue
        if arm in left:
            left[arm] -= 1
        if endpoint in asked:
            asked[endpoint] -= 1
        called.append(episode_id)
    return called


def _of(used: int, limit: int) -> str:
    return f"{used} of {count(limit, 'episode')}"


def _are(live: int, limit: int) -> str:
    return f"{_of(live, limit)} {'is' if live == 1 else 'are'}"


def _of_outages(plan: Plan) -> list[str]:
    by_model: dict[str, list[str]] = {}
    outages = away(plan)
    for arm, outage in outages.items():
        by_model.setdefault(outage.name, []).append(arm)
    reasons = {outage.name: outage.reason for outage in outages.values()}
    queued = plan.tries.filter(episode__state=EpisodeState.QUEUED)
    sentences = []
    for name, arms in by_model.items():
        waiting = queued.filter(arm__name__in=arms).count()
        wait = f"{count(waiting, 'episode')} {'waits' if waiting == 1 else 'wait'}"
        sentences.append(
            f"Model {name} does not respond; {wait}. Last refusal: {first_line(reasons[name], REFUSAL_CHARS)}"
        )
    return sentences


def waits(plan: Plan) -> list[str]:
    """Return what the queued tries of a running run wait for; "" if none waits."""
    running = loads()
    mine = running.pop(plan.pk, None)
    if plan.state != PlanState.RUNNING or mine is None or not (mine.all.has_uncalled or mine.all.called):
        return []
    sentences, load = [], mine.all
    if load.has_uncalled and load.live >= plan.parallel:
        sentences.append(f"{_are(load.live, plan.parallel)} live, the limit of this run.")
    for name, limit in arm_limits(plan).items():
        arm = mine.arms.get(name, LiveTries())
        if arm.has_uncalled and arm.live >= limit:
            sentences.append(f"Arm {name}: {_are(arm.live, limit)} live, the limit of this arm.")
    asked = limited(plan)
    wanting = {name for arm, name in asked.items() if mine.arms.get(arm, LiveTries()).has_uncalled}
    for model in endpoints(plan, wanting):
        if not model.room:
            others = f", {model.used - model.mine} of them of other runs" if model.used > model.mine else ""
            slots = ", as many as its server has slots for them" if model.is_learned else ""
            asking = f"{_of(model.used, model.limit)} {'asks' if model.used == 1 else 'ask'} it"
            sentences.append(f"Model {model.name}: {asking}{others}{slots}.")
    sentences += _of_outages(plan)
    bound = share(mine, running.values())
    if bound is not None and load.has_uncalled and load.busy >= bound:
        rivals = sum(one.wants_more for one in running.values())
        sentences.append(f"{rivals} other run{'' if rivals == 1 else 's'} share the workers.")
    return sentences
