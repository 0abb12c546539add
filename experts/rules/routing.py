"""Routing rules as pure functions: who answers an ask, in which order, by when, and when it falls back.

The clock, the load and the draw are arguments, so that a simulated desk and the real one decide by the same code.
Called by `queue.py`, `desk.py` and `bench/desk.py`.

An ask follows its *plan*, a list of tiers. Human time is scarce, so the plan follows a stated rule: if the policy lets
the model answer first, an ask goes to people first with a probability that is stored with it, drawn from a seed. The
others reach people only if the model is unsure, asks for a person, or fails.
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
LEAST_HOLD_S = 1.0
"""A shorter hold would slow the agent and give no one the time to undo."""
PRESENT_FOR = timedelta(seconds=100)
DRAFT_SHARE = 0.6
"""After this share of an ask's time a model prepares a draft, unseen, in case no one answers."""
USUAL_S = 60.0
"""The assumed time of an answer before the first one."""
ROOM_PER_PERSON = 2
"""Asks at people's tiers per person online: one claimed and one waiting."""
AGING_S = 60.0
"""Seconds of waiting that are worth one point of priority."""
END_CHARS = 2_000
"""Characters at either end of a very long question that are compared."""
ALIKE = 0.75
"""The share of common words from which two questions about one task are the same."""


@dataclass(frozen=True)
class RoutingRules:
    """How a project wants its asks routed; the columns of `models.Desk` as a value."""

    model_first: bool = False
    people_while_free: bool = False
    """With the model first: people still come before it while they have room."""
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

    @property
    def has_budget(self) -> bool:
        return self.per_hour is not None or self.per_training_step is not None


@dataclass(frozen=True)
class DeskLoad:
    """The load on the desk when an ask arrives. Times are in seconds.

    `present`: people who can answer this ask, are online and not set to Away. `ahead`: asks in front of it at people's
    tiers, of which `ahead_of_run` are of the same run. `runs`: runs with asks at people's tiers, this one included.
    `hour` and `step`: asks of this run that went to people in the last hour and in this training step. `group`: open
    asks with the same question, this one included. `left_s`: time until this ask's deadline.
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
    """The plan of an ask. Without tiers it falls back immediately, for `reason`."""

    tiers: tuple[str, ...]
    reason: str
    chance: float
    expected_wait_s: float


def deadline(now: datetime, deadline_s: float) -> datetime:
    return now + timedelta(seconds=deadline_s)


def lease_end(now: datetime, deadline_at: datetime) -> datetime:
    """Return the end of a lease, at most the ask's deadline: after it no answer counts."""
    return min(now + LEASE, deadline_at)


def hold_s(wanted_s: float, now: datetime, deadline_at: datetime) -> float:
    """Return how long an answer is held so that it can be undone: at most a tenth of what is left to the deadline, and
    not at all where that is too short for a person to press a key."""
    longest = min(wanted_s, (deadline_at - now).total_seconds() / 10)
    return longest if longest >= LEAST_HOLD_S else 0.0


def draft_time(now: datetime, deadline_at: datetime) -> datetime:
    return now + (deadline_at - now) * DRAFT_SHARE


def draw(seed: int, ask_id: str) -> float:
    """Return a number from 0 to 1 that follows from the seed and the ask, so that a decision can be reproduced."""
    digest = hashlib.sha256(f"{seed}/{ask_id}".encode()).digest()
    # the first 64 bits of the hash, as a share of 2**64
    return int.from_bytes(digest[:8], "big") / 2**64


def expected_wait(load: DeskLoad) -> float:
    """Return the expected seconds until a new ask of this run is answered, by its place in the queue.

    Runs take turns, so a run with few asks waits only for its own and as many of each other run.
    """
    # of each other run at most as many as of this one
    ahead = min(load.ahead, load.ahead_of_run * load.runs)
    # With no one online, the wait is that of one person: the deadline bounds it.
    return load.usual_s * (1 + ahead // max(load.present, 1))


def in_time(load: DeskLoad) -> bool:
    """Return whether people would reach this ask before most of its time is used.

    If not, a model's answer now is worth more than a person's too late, and the person's time is better spent on other
    asks.
    """
    return expected_wait(load) <= load.left_s * DRAFT_SHARE


def spare(load: DeskLoad) -> float:
    """Return how free people are for this run, from 0 to 1: their capacity, shared between the runs that need it."""
    share = load.present * ROOM_PER_PERSON / load.runs
    return max(0.0, 1 - load.ahead_of_run / share) if share else 0.0


def route(policy: RoutingRules, load: DeskLoad, drawn: float) -> Route:
    """Return the plan of an ask.

    1. Apply the budgets and the wait limit. 2. Decide whether people come before the model. 3. Order the tiers.
    """
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


def _refused(policy: RoutingRules, load: DeskLoad, wait: float) -> str:
    """Return why people cannot be asked, or an empty text."""
    over_hour = policy.per_hour is not None and load.hour >= policy.per_hour
    over_step = policy.per_training_step is not None and load.step >= policy.per_training_step
    if over_hour or over_step:
        return "budget"
    return "backpressure" if policy.wait_limit_s is not None and wait > policy.wait_limit_s else ""


def _chance(policy: RoutingRules, load: DeskLoad) -> tuple[float, str]:
    """Return the probability that people see an ask before the model does, and the rule that sets it."""
    if not in_time(load):
        return 0.0, "people_busy"
    if load.group >= policy.large_group:
        return 1.0, "large_group"
    room = spare(load) if policy.people_while_free else 0.0
    if room > 0:
        # the audit share is the least, and the room before people raises it toward 1
        return policy.audit_share + (1 - policy.audit_share) * room, "people_free"
    return policy.audit_share, "audit_sample"


class WaitingAsk(Protocol):
    """The fields that the order of the queue depends on, of an `Ask` and of a simulated one."""

    pk: str
    priority: int
    created_at: datetime
    deadline_at: datetime

    @property
    def run_key(self) -> str: ...


W = TypeVar("W", bound=WaitingAsk)


def in_turn(asks: Iterable[W], now: datetime, served: Counter[str], usual_s: float = USUAL_S) -> list[W]:
    """Return asks in the order in which people should claim them.

    First the asks that would miss their deadline after one more answer. Then the run that was served least, so that no
    run starves. Within a run priority and age count, so that a low priority waits longer but not for ever. Last the
    asks that no one would finish in time.
    """
    return sorted(asks, key=lambda ask: _turn(ask, now, served, usual_s))


def _turn(ask: WaitingAsk, now: datetime, served: Counter[str], usual_s: float) -> tuple[int, float, float, str]:
    left = (ask.deadline_at - now).total_seconds()
    if left < usual_s:
        # Any answer would be late: last, those with the most time left first.
        return (2, 0, -left, ask.pk)
    if left < 2 * usual_s:
        # It would expire after one more answer: first, nearest deadline first.
        return (0, 0, left, ask.pk)
    worth = ask.priority * AGING_S + (now - ask.created_at).total_seconds()
    return (1, served[ask.run_key], -worth, ask.pk)


def may_take(needs: Collection[str], skills: Collection[str]) -> bool:
    """Return whether someone with these skills can answer an ask that requires those."""
    return set(needs) <= set(skills)


def words_of(question: str) -> frozenset[str]:
    """Return the words that identify a question.

    Of a very long one only both ends count, since hundreds are compared.
    """
    both = question if len(question) <= 2 * END_CHARS else f"{question[:END_CHARS]} {question[-END_CHARS:]}"
    return frozenset(re.findall(r"\w+", both.casefold()))


def likeness(question: str, other: str) -> float:
    """Return the share of words that two questions have in common, 0 to 1."""
    mine, theirs = words_of(question), words_of(other)
    if not mine or not theirs:
        return float(question.strip() == other.strip())
    return len(mine & theirs) / len(mine | theirs)


def alike(question: str, other: str) -> bool:
    """Return whether two questions about one task are the same: equal, or with most of their words in common."""
    return likeness(question, other) >= ALIKE


def next_tier(plan: Sequence[str], tier: str) -> str | None:
    """Return the tier after this one in the plan; None at its end."""
    # -1: a tier that the plan does not have is followed by its first one
    place = plan.index(tier) if tier in plan else -1
    return next(iter(plan[place + 1 :]), None)
