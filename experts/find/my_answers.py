"""Reads: answers of a person, or of a standing answer, newest first, and what became of them.

Leaves the texts about the end of an ask to `endings.py`, and outcomes to `visibility`. Called by `pages/queue.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from episodes.models import Episode
from episodes.visible import visibility
from experts import endings
from experts.find.reading import NOT_LISTED
from experts.models import CUT_OFF, Advice, Ask, StandingAnswer
from people.access import Actor, scoped
from people.text.plain_text import clean

SHOWN = 100


@dataclass(frozen=True)
class MyAnswer:
    """One answer. `outcome` is empty before the verifier ran, and while it is withheld from this person."""

    ask: Ask
    question: str
    text: str
    at: datetime
    became: str
    episode: Episode
    outcome: str


def my_answers(actor: Actor) -> list[MyAnswer]:
    """Return the newest answers of this person in the last wording of each."""
    return _answers(actor, Advice.objects.filter(author_key=actor.key, amended_by=None))


def decided_by(actor: Actor, standing: StandingAnswer) -> list[MyAnswer]:
    """Return the newest asks that a standing answer decided."""
    return _answers(actor, standing.decided.all())


def _answers(actor: Actor, advice: QuerySet[Advice]) -> list[MyAnswer]:
    rows = scoped(advice, actor.project, "ask__project")
    rows = rows.select_related("ask__episode", "ask__episode__run", "ask__accepted", "ask__accepted__taken_from")
    answers = list(rows.defer(*(f"ask__{name}" for name in NOT_LISTED)).order_by("-created_at", "-pk")[:SHOWN])
    outcomes = visibility.verdict_types(actor, {one.ask.episode_id for one in answers})
    return [
        MyAnswer(
            answer.ask,
            clean(answer.ask.question),
            clean(answer.text),
            answer.created_at,
            _became(answer),
            answer.ask.episode,
            outcomes.get(answer.ask.episode_id, ""),
        )
        for answer in answers
    ]


def _became(advice: Advice) -> str:
    if advice.reason == CUT_OFF:
        return "Not sent: the ask ended while you could still undo it."
    if advice.late:
        return "Sent too late or without a claim; saved with the ask."
    if advice.ask.held_id == advice.pk:
        return "Held: you can undo it for a few seconds."
    if advice.ask.quorum_of > 1 and advice.ask.accepted_id != advice.pk and _counts(advice):
        return f"{advice.ask.progress}."
    return endings.line(advice.ask) if advice.ask.accepted_id == advice.pk else "Withdrawn."


def _counts(advice: Advice) -> bool:
    return advice.ask.decisions.filter(advice=advice, counts=True).exists()
