"""Reads for pages: the queue as rows, its headline, what became of closed asks, and one ask's page.

Owns the words about waiting and leases. Leaves state to `queue.py`, rows to `models.py`. Called by views.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from django.db.models import Q

from episodes.cards import clean
from episodes.models import EpisodeState, VerifierOutcome
from episodes.strip import actions_in
from episodes.words import clock, in_words
from experts.models import Advice, Ask, AskStatus, Assignment
from experts.reading import NOT_LISTED, asks_of
from people.access import Actor, holds, may_advise

LISTED = 200
CLOSED = 15
SEARCHED = 500
NOT_FETCHED = "The agent has not fetched it yet."
ENDED: dict[str, str] = {
    EpisodeState.FINISHED: "The episode ended",
    EpisodeState.FAILED: "The episode failed",
    EpisodeState.CANCELLED: "The episode was stopped",
}


@dataclass(frozen=True)
class AskRow:
    """One open ask in a list."""

    ask: Ask
    question: str
    budget_s: float
    left_s: float
    held: bool
    mine: bool
    passed: bool
    may_claim: bool
    why: str
    acted: int

    @property
    def late(self) -> bool:
        return self.left_s < 0.2 * self.budget_s

    @property
    def state(self) -> str:
        return "leased" if self.held else "open"


@dataclass(frozen=True)
class ClosedRow:
    ask: Ask
    question: str
    by: str
    waited: float


def budget_of(ask: Ask) -> float:
    return (ask.deadline_at - ask.created_at).total_seconds()


def open_rows(actor: Actor, now: datetime) -> list[AskRow]:
    """Open asks in turn, as this person sees them."""
    open_now = asks_of(actor).filter(status=AskStatus.OPEN, deadline_at__gt=now)
    asks = open_now.defer("context", *NOT_LISTED).prefetch_related("declines")
    advises = holds(actor, may_advise)
    return [_row(ask, actor, now, advises) for ask in asks.in_turn()[:LISTED]]


def _row(ask: Ask, actor: Actor, now: datetime, advises: bool) -> AskRow:
    held = ask.assignment.is_held(now)
    declined = [one.author for one in ask.declines.all()]
    passed = any(one.author_key == actor.key for one in ask.declines.all())
    return AskRow(
        ask=ask,
        question=clean(ask.question),
        budget_s=budget_of(ask),
        left_s=(ask.deadline_at - now).total_seconds(),
        held=held,
        mine=held and ask.assignment.holder == actor.key,
        passed=passed,
        may_claim=advises and not held,
        why=_why(ask, ask.assignment if held else None, actor, declined, passed),
        acted=actions_in(ask.episode.strip[: ask.seq]),
    )


def _why(ask: Ask, held: Assignment | None, actor: Actor, declined: list[str], passed: bool) -> str:
    if held is not None:
        return "You are answering." if held.holder == actor.key else f"{held.holder_name} is answering."
    if passed:
        return "You passed on it; others may answer."
    if declined:
        return f"{', '.join(declined[:2])} passed."
    return f"Priority {ask.priority}." if ask.priority else "Anybody here may answer."


def _belongs(row: AskRow, show: str) -> bool:
    if show == "unclaimed":
        return not row.held
    return row.mine or show != "mine"


def filtered(rows: Iterable[AskRow], show: str, q: str) -> list[AskRow]:
    return [row for row in rows if _belongs(row, show) and _says(row.ask, q)]


def _says(ask: Ask, q: str) -> bool:
    return q.casefold() in f"{clean(ask.question)} {ask.episode} {ask.episode.task}".casefold()


def facets(rows: list[AskRow]) -> list[tuple[str, str, int]]:
    return [
        ("all", "Open", len(rows)),
        ("unclaimed", "Unclaimed", sum(not row.held for row in rows)),
        ("mine", "Mine", sum(row.mine for row in rows)),
    ]


def headline(rows: list[AskRow], last: str = "Next deadline in") -> str:
    """ "Three asks are open, one is leased. Next deadline in 0:42." """
    if not rows:
        return "No ask is open."
    count = f"{in_words(len(rows))} {'ask is' if len(rows) == 1 else 'asks are'} open"
    part = _leased(sum(row.held for row in rows), len(rows))
    return f"{count}{part}. {last} {clock(min(row.left_s for row in rows))}."


def _leased(leased: int, total: int) -> str:
    """How many of the open asks somebody is answering already, as the end of a sentence."""
    if not leased:
        return ""
    if leased == total:
        return " and leased" if total == 1 else ", all of them leased"
    return f", {in_words(leased).lower()} of them leased"


def underline(usual_s: float | None) -> str:
    if usual_s is None:
        return "Nobody has answered one in this project yet."
    return f"Half of the last answers came within {clock(usual_s)}."


def closed_rows(actor: Actor, q: str = "") -> list[ClosedRow]:
    closed = asks_of(actor).exclude(status=AskStatus.OPEN).defer("context", *NOT_LISTED)
    asks = [ask for ask in closed.order_by("-closed_at")[: SEARCHED if q else CLOSED] if _says(ask, q)][:CLOSED]
    return [ClosedRow(ask, clean(ask.question), _by(ask), _waited(ask)) for ask in asks]


def _by(ask: Ask) -> str:
    return ask.accepted.author if ask.accepted and ask.status == AskStatus.ANSWERED else ""


def _waited(ask: Ask) -> float:
    return ((ask.closed_at or ask.deadline_at) - ask.created_at).total_seconds()


def next_for(actor: Actor, now: datetime) -> Ask | None:
    """Mine if I hold one, else the nearest deadline among those that are free and that I did not pass on."""
    rows = open_rows(actor, now)
    mine = [row.ask for row in rows if row.mine]
    free = [row.ask for row in rows if not row.held and not row.passed]
    return next(iter(mine + free), None)


def aftermath(ask: Ask) -> tuple[str, str]:
    """What became of a closed ask: a headline and a line under it."""
    if ask.status == AskStatus.CANCELLED:
        return "The episode ended before an answer.", "Nothing was sent to the agent."
    if ask.status == AskStatus.FELL_BACK:
        return "Nobody answered in time.", "The agent was told that there is no advice, and went on alone."
    by = ask.accepted.author if ask.accepted else "Somebody"
    return f"{by} answered after {clock(_waited(ask))}.", _delivery(ask)


def _delivery(ask: Ask) -> str:
    if ask.delivered_at is None or ask.closed_at is None:
        ended = ENDED.get(ask.episode.state)
        return f"{ended} before the agent fetched it; the advice was not used." if ended else NOT_FETCHED
    took = max(0.0, (ask.delivered_at - ask.closed_at).total_seconds())
    read = " It has it in its context." if ask.consumed_at else ""
    ended = ENDED.get(ask.episode.state)
    return f"Delivered to the agent after {took:.1f} s.{read}{f' {ended} since.' if ended else ''}"


def outcome_of(ask: Ask) -> str:
    """What the verifier found, once it has spoken."""
    found = VerifierOutcome.objects.filter(episode=ask.episode_id, source="verifier").order_by("-at")
    return found.values_list("reward_type", flat=True).first() or ""


def late_advice(ask: Ask) -> list[Advice]:
    """Texts that came too late or lost the lease, kept beside the accepted one."""
    return list(ask.advice.filter(late=True).order_by("created_at"))


def closed_today(actor: Actor, since: datetime) -> dict[str, Any]:
    """Counts and the median wait of what was asked since midnight."""
    rows = asks_of(actor).filter(created_at__gte=since)
    answered = rows.filter(status=AskStatus.ANSWERED)
    waits = [_waited(ask) for ask in answered[:500]]
    return {
        "asked": rows.count(),
        "answered": answered.count(),
        "mine": answered.filter(Q(accepted__author_key=actor.key)).count(),
        "fell_back": rows.filter(status=AskStatus.FELL_BACK).count(),
        "median": median(waits) if waits else None,
    }
