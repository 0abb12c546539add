"""Reads: the answers of a person that they can still undo, for the toast of every page.

Called by the top bar of all pages and by the page that sends an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from awmclient.nouns.ask_kinds import ASK_KINDS
from experts.models import Ask
from people.access import Actor, scoped
from people.text.in_words import count


@dataclass(frozen=True)
class HeldAnswers:
    """The asks that the newest press of a person answered, and until when that can be undone."""

    asks: list[str]
    own: str
    """The ask that the answer was written on; empty for a batch, which is pressed in the queue."""
    words: str
    until: datetime
    hold_s: float


def of(actor: Actor, now: datetime) -> HeldAnswers | None:
    """Return what the person's newest press holds; None if it is sent or undone."""
    held = Ask.objects.open().filter(held_until__gt=now, held__author_key=actor.key).select_related("held")
    rows = list(scoped(held.order_by("-held__created_at").defer("question", "context"), actor.project))
    roots = [row.held.nonce.partition("/")[0] for row in rows if row.held is not None]
    together = [row for row, root in zip(rows, roots, strict=True) if root == roots[0]]
    if not together:
        return None
    first = next((row for row in together if row.held is not None and "/" not in row.held.nonce), None)
    # one toast for all: it goes as the first of them leaves
    soonest = min(together, key=lambda row: row.held_until or now)
    assert soonest.held is not None and soonest.held_until is not None
    return HeldAnswers(
        asks=[row.pk for row in together],
        own=first.pk if first is not None else "",
        words=_words(together, is_batch=first is None),
        until=soonest.held_until,
        hold_s=(soonest.held_until - soonest.held.created_at).total_seconds(),
    )


def _words(asks: list[Ask], is_batch: bool) -> str:
    if not all(ASK_KINDS[ask.kind].is_approval for ask in asks):
        return "Answered" if len(asks) == 1 else f"Answered {count(len(asks), 'ask')}"
    verdicts = {call.get("verdict") for ask in asks if ask.held for call in (ask.held.decision or {}).get("calls", [])}
    done = "Approved" if verdicts == {"approve"} else "Rejected" if verdicts == {"reject"} else "Decided"
    calls = sum(len((ask.held.decision or {}).get("calls", [])) for ask in asks if ask.held)
    return f"{done} {count(calls, 'call')}"
