"""Reads: which tries of planned runs infrastructure ended without an outcome, so that a retry replaces them.

Such are faults that no arm can cause, and worlds that were lost before their verifier had run. A task that has no
verifier is none: another episode of it would end the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q, QuerySet

from episodes.models import EpisodeEvent, EpisodeState
from episodes.stored import outcomes
from episodes.stored.settled import NOT_VERIFIED
from runs.models import INFRASTRUCTURE, PlannedTry

NO_VERIFIER, LOST = "not verified", "outcome lost"
"""Why a finished episode has no outcome, as comparisons name it."""
WITHOUT = r"^(The task has no verifier|No \w+ verifier available|Cannot verify: the episode has no task)"
"""What the history says then of a task without a verifier: `playing.py` and environment servers write it."""


def unverified(episodes: Collection[str]) -> dict[str, str]:
    """Return why these finished episodes have no outcome, by episode; one that still waits for its verifier is none."""
    told = EpisodeEvent.objects.filter(episode__in=list(episodes), verb=NOT_VERIFIED)
    found = dict.fromkeys(told.values_list("episode_id", flat=True), LOST)
    return found | dict.fromkeys(told.filter(reason__regex=WITHOUT).values_list("episode_id", flat=True), NO_VERIFIER)


def tries_of(plans: Iterable[str]) -> QuerySet[PlannedTry]:
    """Return the tries of these plans that a retry replaces."""
    tries = PlannedTry.objects.filter(plan__in=list(plans))
    of_tries = Q(episode__planned__plan__in=list(plans), episode__state=EpisodeState.FINISHED)
    told = EpisodeEvent.objects.filter(of_tries, verb=NOT_VERIFIED).exclude(reason__regex=WITHOUT)
    lost = set(told.values_list("episode_id", flat=True))  # few: an episode with an outcome has no such event
    lost -= set(outcomes.of_episodes(lost).filter(source=outcomes.VERIFIER).values_list("episode_id", flat=True))
    return tries.filter(Q(episode__state=EpisodeState.FAILED, episode__fault__in=INFRASTRUCTURE) | Q(episode__in=lost))
