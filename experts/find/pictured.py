"""Reads: the pictures of questions, which their steps have, for readers that show no thumbnails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awmclient.nouns.pictures import pictures_of
from episodes.models import Step
from experts.models import Ask
from people.text.in_words import count


def pictures_by_ask(asks: Iterable[Ask]) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of the pictures of those of these asks that have some."""
    places = {(ask.episode_id, ask.seq): ask.pk for ask in asks if ask.pictures_digest}
    if not places:
        return {}
    episodes, numbers = {episode for episode, _ in places}, {seq for _, seq in places}
    steps = Step.objects.filter(episode__in=episodes, seq__in=numbers, kind="ask")
    asked = ((places.get((step.episode_id, step.seq)), step) for step in steps)
    return {ask: parts for ask, step in asked if ask and (parts := pictures_of(step.wire()))}


def pictures_line(ask: Ask) -> str:
    """Return the line that sends a reader to the pictures of a question; empty without one."""
    number = len(pictures_by_ask([ask]).get(ask.pk, ()))
    them = "it" if number == 1 else "them"
    return f"{count(number, 'picture')}: open the ask to see {them}." if number else ""
