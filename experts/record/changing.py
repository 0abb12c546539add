"""Reads: which answer its author can still edit or withdraw.

Owns when it is final. Leaves the writes to `advising.py`, which calls this under the locks of episode and ask.
"""

from __future__ import annotations

from awmclient.nouns.sources import SOURCES
from experts.errors import NotYours, StillOpen, TooLate, Used
from experts.models import Advice, Ask, AskStatus
from people.access import Actor


def changeable_answer(ask: Ask, actor: Actor) -> Advice:
    """Return the caller's answer that is held, that waits for other people, or else can still change."""
    if ask.is_open and ask.held is not None and actor.owns(ask.held.author_key):
        return ask.held
    counted = ask.decisions.filter(counts=True, author_key__in=actor.keys).select_related("advice").first()
    if not ask.is_open or counted is None:
        return editable_answer(ask, actor)
    if ask.held is not None:
        raise TooLate(f"{ask.held.author} has answered this ask.")
    return counted.advice


def editable_answer(ask: Ask, actor: Actor) -> Advice:
    """Return the caller's accepted answer if it can still change. The caller must hold the episode and ask locks."""
    if ask.status != AskStatus.ANSWERED or ask.accepted is None:
        raise TooLate if ask.status != AskStatus.OPEN else StillOpen
    # a reused answer was written for another ask
    if not actor.owns(ask.accepted.author_key) or SOURCES[ask.accepted.source].is_reused:
        raise NotYours
    if ask.is_final:
        raise Used
    return ask.accepted
