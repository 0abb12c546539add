"""Reads: what people decided earlier on calls of the same tools.

Decisions of an ask whose expert sees the verifier are never read for a blind one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from awmclient.nouns.sources import DECIDERS
from episodes.show.decisions import Decided, decided_lines
from episodes.visible import visibility
from experts.find.reading import NOT_LISTED
from experts.models import Advice, Ask, AskStatus, Privilege
from people.access import Actor, scoped
from people.text.plain_text import clean

LOOKED_BACK = timedelta(days=30)
READ, SHOWN = 300, 12
"""The newest approvals that are looked at, and the decisions that are shown."""


@dataclass(frozen=True)
class EarlierDecision:
    """A decision on a call of one of the tools, with the outcome of its episode as far as the reader may see it."""

    ask: Ask
    said: Advice
    lines: list[Decided]
    """One: the call."""
    outcome: str


def earlier_decisions(actor: Actor, ask: Ask, now: datetime) -> tuple[list[EarlierDecision], int]:
    """Return the newest decisions on the tools of an approval, and how many of 30 days were found."""
    tools = {clean(call["name"]) for call in (ask.typed or {}).get("calls") or []}
    asks = Ask.objects.filter(kind="approval", status=AskStatus.ANSWERED, closed_at__gt=now - LOOKED_BACK)
    if ask.privilege == Privilege.BLIND:
        asks = asks.filter(privilege=Privilege.BLIND)
    rows = scoped(asks, actor.project).exclude(pk=ask.pk).select_related("accepted", "episode")
    decisions = [
        (past_ask, advice, [line])
        for past_ask in rows.defer("context", *NOT_LISTED).order_by("-closed_at")[:READ]
        if (advice := past_ask.accepted) is not None and advice.by and DECIDERS[advice.by].has_looked
        for line in decided_lines(past_ask.typed, advice.decision)
        if line.name in tools
    ]
    shown = decisions[:SHOWN]
    outcomes = visibility.verdict_types(actor, [one.episode_id for one, *_ in shown])
    return [EarlierDecision(*row, outcomes.get(row[0].episode_id, "")) for row in shown], len(decisions)
