"""Reads: how the asks of a run ended, by arm, and for whom its live episodes wait.

Says nothing of what help did: that belongs to `comparison.py`, which counts the same ends for each try.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, Q, QuerySet

from awmclient.nouns.sources import SOURCES
from experts.models import BEFORE_PEOPLE, SIMULATED, Ask, AskStatus, by_program
from people.text.in_words import count
from runs.models import Plan

_ANSWERED = Q(status=AskStatus.ANSWERED)
_BY_HAND = _ANSWERED & Q(accepted__source="human")
_BY_RULE = Q(accepted__by="standing")
_SIMULATED = Q(accepted__author_key=SIMULATED)
_SCRIPT = by_program("accepted__")
WITH_ADVICE = Q(accepted__source__in=[name for name, source in SOURCES.items() if source.is_answer])
"""Asks whose agent got words of someone: an answer, or the draft that a model had ready at the deadline."""
SIDES = {
    "people": ("by people", _BY_HAND & ~_BY_RULE & ~_SCRIPT),
    "standing": ("by standing answers", _ANSWERED & _BY_RULE),
    "simulated": ("by the tasks' registries", _BY_HAND & _SIMULATED),
    "scripts": ("by scripts", _BY_HAND & ~_BY_RULE & _SCRIPT & ~_SIMULATED),
    "models": ("by models", _ANSWERED & Q(accepted__source="llm")),
    "reused": ("by reused answers", _ANSWERED & Q(accepted__source="cache")),
}
"""Who answered: the words, and the asks. No ask is of two of them."""


@dataclass(frozen=True)
class ArmHelp:
    """How the asks of one arm ended. `by` counts the answered ones by who answered, in the order of `SIDES`; `drafts`
    are those of `fell_back` whose agent got a model's draft."""

    arm: str
    asks: int
    by: dict[str, int]
    fell_back: int
    drafts: int
    cancelled: int
    open: int

    @property
    def answered(self) -> int:
        return sum(self.by.values())

    @property
    def words(self) -> str:
        """Return the ends in one sentence: "8 asks: 3 answered by people, 5 fell back."."""
        parts = [f"{n:,} answered {SIDES[name][0]}" for name, n in self.by.items() if n] or ["0 answered"]
        if self.fell_back:
            drafts = f" ({self.drafts:,} with a model's draft)" if self.drafts else ""
            parts.append(f"{self.fell_back:,} fell back{drafts}")
        parts += [f"{n:,} {word}" for n, word in ((self.cancelled, "cancelled"), (self.open, "open")) if n]
        return f"{count(self.asks, 'ask')}: {', '.join(parts)}."


@dataclass(frozen=True)
class WaitingAgents:
    """The episodes of a run that wait for a person, and the nearest deadline of their asks."""

    agents: int
    due_at: datetime

    @property
    def words(self) -> str:
        return f"{count(self.agents, 'agent')} {'waits' if self.agents == 1 else 'wait'} for a person, due in"


def of_arms(plan: Plan, arms: Sequence[str]) -> list[ArmHelp]:
    """Return how the asks of each arm ended, in the order of the arms, without arms that asked nothing."""
    counts = _asks(plan).values_list("episode__planned__arm__name")
    parts = {name: Count("pk", filter=condition) for name, (_, condition) in SIDES.items()}
    fell = Q(status=AskStatus.FELL_BACK)
    rows = counts.annotate(
        asks=Count("pk"),
        **parts,
        fell_back=Count("pk", filter=fell),
        with_draft=Count("pk", filter=fell & WITH_ADVICE),
        cancelled=Count("pk", filter=Q(status=AskStatus.CANCELLED)),
        open=Count("pk", filter=Q(status=AskStatus.OPEN)),
    )
    by_arm = {}
    for arm, asks, *ends in rows:
        by = dict(zip(SIDES, ends[: len(SIDES)], strict=True))
        by_arm[arm] = ArmHelp(arm, asks, by, *ends[len(SIDES) :])
    return [by_arm[arm] for arm in arms if arm in by_arm]


def waiting_in(plans: Iterable[Plan]) -> dict[str, WaitingAgents]:
    """Return who waits for a person now, by run; runs in which no one does are left out."""
    asks = Ask.objects.open().filter(tier__in=BEFORE_PEOPLE, episode__planned__plan__in=[one.pk for one in plans])
    # an answer that is held is on its way
    rows = asks.filter(held=None).order_by().values_list("episode__planned__plan")
    waits = rows.annotate(agents=Count("episode", distinct=True), due_at=Min("deadline_at"))
    return {plan: WaitingAgents(agents, due_at) for plan, agents, due_at in waits}


def ends_of(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return, by episode, how many of its asks got advice, and how many closed without any; cancelled ones are
    neither."""
    closed = _asks(plan).filter(status__in=[AskStatus.ANSWERED, AskStatus.FELL_BACK]).values_list("episode_id")
    rows = closed.annotate(got=Count("pk", filter=WITH_ADVICE), silent=Count("pk", filter=~WITH_ADVICE))
    return {episode: (got, silent) for episode, got, silent in rows}


def _asks(plan: Plan) -> QuerySet[Ask]:
    return Ask.objects.filter(episode__planned__plan=plan).order_by()
