"""Reads: whose decision counts toward an approval that needs several people, and what was decided so far.

A person counts once, whichever way they come: page, link, Slack or a token that they use by hand. Tokens of the
project, programs, models and standing answers are no person. Leaves counting itself to `record/counting.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from awmclient.nouns.asks import PersonDecision
from awmclient.nouns.typed import Quorum
from experts.errors import AlreadyDecided, NotForYou
from experts.models import Ask, AskQuerySet, QuorumDecision
from experts.rules.decisions import Misfit
from experts.rules.quorum import digest_of_decision, has_role, people_in_words, refuse_mixed, verdict_of
from people.access import Actor
from people.text.plain_text import clean


def refuse_uncounted(actor: Actor, ask: Ask) -> None:
    """Raise if this actor's decision would not count toward an approval that needs several people."""
    if ask.quorum_of < 2:
        return
    needs = f"This approval needs {people_in_words(ask.quorum_of, ask.quorum_role)}."
    if actor.person is None or not actor.by_hand:
        raise NotForYou(f"{needs} Tokens of the project, programs and models are no person.")
    if not has_role(actor.role, ask.quorum_role):
        raise NotForYou(f"{needs} Your role is {actor.role}.")
    if QuorumDecision.objects.filter(ask=ask, author_key__in=actor.keys, counts=True).exists():
        raise AlreadyDecided


def edit_of(ask: Ask) -> QuorumDecision | None:
    """Return the edit that others are asked to approve."""
    if ask.quorum_of < 2:
        return None
    edits = QuorumDecision.objects.filter(ask=ask, counts=True, verdict="edit").select_related("advice")
    return edits.order_by("pk").first()


def calls_of_edit(edited: QuorumDecision) -> list[dict[str, Any]]:
    """Return the calls of an edit as others begin with them: without its author's reasons, which are not theirs."""
    calls = (edited.advice.decision or {})["calls"]
    return [{name: value for name, value in call.items() if name != "reason"} for call in calls]


def calls_seen(ask: Ask, seen: str) -> list[dict[str, Any]]:
    """Return the calls of the edit that a person saw, whose digest this is; none without one. It counts or not: with
    these arguments their decision is on what they saw."""
    rows = QuorumDecision.objects.filter(ask=ask, calls_digest=seen, verdict="edit").select_related("advice")
    edited = rows.first() if seen else None
    return calls_of_edit(edited) if edited is not None else []


def refuse_unshared(ask: Ask, decision: Mapping[str, Any] | None, seen: str) -> None:
    """Raise if a decision cannot be one of several: it mixes verdicts, or approves the agent's calls over a colleague's
    edit whose digest its author has not `seen`."""
    if ask.quorum_of < 2:
        return
    refuse_mixed(ask.quorum_of, decision)
    edited = edit_of(ask) if verdict_of(decision) == "approve" else None
    if edited is not None and edited.calls_digest not in (seen, digest_of_decision(decision)):
        raise Misfit(f"{clean(edited.author)} edited the call. Look at the edit before you approve.")


def decided_by(actor: Actor, asks: AskQuerySet) -> set[str]:
    """Return those of these asks that a person has decided and that wait for others."""
    rows = QuorumDecision.objects.filter(author_key__in=actor.keys, counts=True, ask__in=asks)
    return set(rows.values_list("ask", flat=True))


def quorum_of(ask: Ask) -> Quorum | None:
    return Quorum(of=ask.quorum_of, role=ask.quorum_role or None) if ask.quorum_of > 1 else None


def decided_on(ask: Ask) -> list[PersonDecision] | None:
    """Return the decisions that count on an approval that needs several people; None on any other ask."""
    return decided_among([ask]).get(ask.pk)


def decided_among(asks: Iterable[Ask]) -> dict[str, list[PersonDecision]]:
    """Return the decisions that count, oldest first, of each of these asks that needs several people."""
    decided: dict[str, list[PersonDecision]] = {ask.pk: [] for ask in asks if ask.quorum_of > 1}
    if decided:
        rows = QuorumDecision.objects.filter(ask__in=decided, counts=True).select_related("advice")
        for row in rows.order_by("pk"):
            decided[row.ask_id].append(_decision(row))
    return decided


def _decision(row: QuorumDecision) -> PersonDecision:
    calls = (row.advice.decision or {}).get("calls") if row.verdict == "edit" else None
    return PersonDecision(by=row.author, verdict=row.verdict, at=row.at, calls=calls)
