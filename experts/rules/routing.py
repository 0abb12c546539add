"""Decisions from numbers alone: who is to answer an ask, in which order, by when, and what if nobody does.

Pure: the clock, the load and the draw are passed in, so that a simulated desk and the real one decide by the same
lines. Called by `queue.py`, `desk.py` and `bench/desk.py`.

An ask follows its *plan*, a list of tiers. Human time is the scarce thing, so the plan is made from a stated rule:
where the policy lets the model answer first, an ask reaches people at once with a probability that is stored with it,
drawn from a seed. The rest reach people only when the model is unsure, asks for a person, or breaks.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

LEASE_S = 90
"""How long a claim lasts without a renewal; pages and documents say the same."""
LEASE = timedelta(seconds=LEASE_S)
PRESENT_FOR = timedelta(seconds=100)
DRAFT_SHARE = 0.6
"""When this share of an ask's time has gone, a model's answer is prepared, unseen, for the case that nobody comes."""
USUAL_S = 60.0
"""How long an answer takes as long as nobody has given one."""
ROOM_PER_PERSON = 2
"""Asks that may stand before people for each of them: one in hand and one that waits."""
AGING_S = 60.0
"""A point of priority is worth as much as waiting for so long."""
END_CHARS = 2_000
"""So much of either end of a very long question is compared with others."""
ALIKE = 0.75
"""From this share of common words on, two questions about one task are the same question."""


@dataclass(frozen=True)
class Policy:
    """How a project wants its asks routed; the columns of `models.Desk` as a value."""

    model_first: bool = False
    people_while_free: bool = False
    """With the model first: people come before it as long as they have room."""
    cache: str = "off"
    audit_share: float = 0.05
    low_confidence: float = 0.4
    large_group: int = 4
    seed: int = 1
    per_hour: int | None = None
    per_training_step: int | None = None
    wait_limit_s: int | None = None
    capacity: int = 3
    has_senior: bool = False
    has_models: bool = False
    only: str = ""
    """`people` or `models` where the episode's arm has only these to ask; empty: both."""


@dataclass(frozen=True)
class Load:
    """The desk at the moment in which an ask comes. Times in seconds.

    `present`: people who may answer this ask, are here and not away. `ahead`: asks that stand before people, and
    `ahead_of_run` those of the same run among them. `runs`: runs with asks before people, this one included.
    `hour` and `step`: how many of this run's asks went to people in the last hour and in this training step.
    `group`: open asks that ask the same, this one included. `left_s`: time until this ask's deadline.
    """

    present: int = 0
    ahead: int = 0
    ahead_of_run: int = 0
    runs: int = 1
    usual_s: float = USUAL_S
    hour: int = 0
    step: int = 0
    group: int = 1
    left_s: float = math.inf


@dataclass(frozen=True)
class Route:
    """The plan of an ask; no tiers at all means that it falls back at once, for `reason`."""

    tiers: tuple[str, ...]
    reason: str
    chance: float
    expected_wait_s: float


def deadline(now: datetime, deadline_s: float) -> datetime:
    return now + timedelta(seconds=deadline_s)


def lease_end(now: datetime, deadline_at: datetime) -> datetime:
    """Return the end of a lease, which never outlives the ask's deadline: beyond it there is nothing left to answer."""
    return min(now + LEASE, deadline_at)


def draft_time(now: datetime, deadline_at: datetime) -> datetime:
    return now + (deadline_at - now) * DRAFT_SHARE


def draw(seed: int, ask_id: str) -> float:
    """Return a number from 0 to 1 that follows from the seed and the ask, so that a decision can be
    checked afterwards."""
    digest = hashlib.sha256(f"{seed}/{ask_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def expected_wait(load: Load) -> float:
    """Return seconds until an ask that joins the people's queue now is answered, by its place in it. Runs take turns,
    so a run with little before people waits for no more than its own asks and as many of each other run.
    """
    ahead = min(load.ahead, load.ahead_of_run * load.runs)
    return load.usual_s * (1 + ahead // max(load.present, 1))


def in_time(load: Load) -> bool:
    """Return whether people would come to this ask before most of its time has gone. If not, a model's answer now is
    worth more than a person's too late, and the person's time is worth more elsewhere.
    """
    return expected_wait(load) <= load.left_s * DRAFT_SHARE


def spare(load: Load) -> float:
    """Return how free people are for this run, from 0 to 1: room before them, shared between the runs that want it."""
    share = load.present * ROOM_PER_PERSON / load.runs
    return max(0.0, 1 - load.ahead_of_run / share) if share else 0.0


def route(policy: Policy, load: Load, drawn: float) -> Route:
    """1. what the budgets and the wait limit leave, 2. whether people come before the model, 3. the tiers in order."""
    wait, people = expected_wait(load), ["people", *(["senior"] if policy.has_senior else [])]
    models = ["llm"] if policy.has_models and policy.only != "people" else []
    if policy.only == "models":
        return Route(tuple(models), "arm" if models else "no_model", 0.0, 0.0)
    why = _refused(policy, load, wait)
    if why:
        return Route(tuple(models), why, 0.0, 0.0 if models else wait)
    if not policy.model_first or not models:
        return Route((*people, *models), "policy", 1.0, wait)
    chance, reason = _chance(policy, load)
    if drawn < chance:
        return Route((*people, *models), reason, chance, wait)
    return Route((*models, *people), "model_first", chance, 0.0)


def _refused(policy: Policy, load: Load, wait: float) -> str:
    """Return why no person may be asked; empty if one may."""
    over_hour = policy.per_hour is not None and load.hour >= policy.per_hour
    over_step = policy.per_training_step is not None and load.step >= policy.per_training_step
    if over_hour or over_step:
        return "budget"
    return "backpressure" if policy.wait_limit_s is not None and wait > policy.wait_limit_s else ""


def _chance(policy: Policy, load: Load) -> tuple[float, str]:
    """Return the probability that people see an ask before the model does, and the rule behind it."""
    if not in_time(load):
        return 0.0, "people_busy"
    if load.group >= policy.large_group:
        return 1.0, "large_group"
    room = spare(load) if policy.people_while_free else 0.0
    if room > 0:
        return policy.audit_share + (1 - policy.audit_share) * room, "people_free"
    return policy.audit_share, "audit_sample"


class Waiting(Protocol):
    """What the order of the queue depends on; an `Ask` has it, and so has an ask of the simulated desk."""

    pk: str
    priority: int
    created_at: datetime
    deadline_at: datetime

    @property
    def run_key(self) -> str: ...


W = TypeVar("W", bound=Waiting)


def in_turn(asks: Iterable[W], now: datetime, served: Counter[str], usual_s: float = USUAL_S) -> list[W]:
    """Return the order in which people should take asks.

    What would miss its deadline if it waited for one more answer comes first, then the run that was served least, so
    that none starves another; within a run priority counts, and so does age, so that a low priority waits longer but
    not for ever. What nobody would finish in time any more comes last.
    """
    return sorted(asks, key=lambda ask: _turn(ask, now, served, usual_s))


def _turn(ask: Waiting, now: datetime, served: Counter[str], usual_s: float) -> tuple[int, float, float, str]:
    left = (ask.deadline_at - now).total_seconds()
    if left < usual_s:
        return (2, 0, -left, ask.pk)
    if left < 2 * usual_s:
        return (0, 0, left, ask.pk)
    worth = ask.priority * AGING_S + (now - ask.created_at).total_seconds()
    return (1, served[ask.run_key], -worth, ask.pk)


def may_take(needs: Collection[str], skills: Collection[str]) -> bool:
    """Return whether somebody with these skills may answer an ask that needs those."""
    return set(needs) <= set(skills)


def words_of(question: str) -> frozenset[str]:
    """Return the words by which questions are compared; of a very long one those of both ends, as it is done to
    hundreds.
    """
    both = question if len(question) <= 2 * END_CHARS else f"{question[:END_CHARS]} {question[-END_CHARS:]}"
    return frozenset(re.findall(r"\w+", both.casefold()))


def likeness(one: str, other: str) -> float:
    """Return the share of their words that two questions have in common, 0 to 1."""
    mine, theirs = words_of(one), words_of(other)
    if not mine or not theirs:
        return float(one.strip() == other.strip())
    return len(mine & theirs) / len(mine | theirs)


def alike(one: str, other: str) -> bool:
    """Return whether two questions about one task ask the same: equal, or most of their words in common."""
    return likeness(one, other) >= ALIKE


def next_tier(plan: Sequence[str], tier: str) -> str | None:
    """Return the tier after this one in the plan; None at its end."""
    place = plan.index(tier) if tier in plan else -1
    return next(iter(plan[place + 1 :]), None)
