"""Reads: tries of planned runs that infrastructure ended without an outcome, which a retry replaces.

These are faults that no arm can cause, environments that were lost before their verifier had run, and episodes in which
a person took part. A task without a verifier does not count: another episode of it would end the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q, QuerySet

from episodes.models import EpisodeEvent, EpisodeState
from episodes.stored import outcomes
from episodes.stored.settled import NOT_VERIFIED
from runs.models import INFRASTRUCTURE, PlannedTry

NO_VERIFIER, LOST = "not verified", "outcome lost"
"""The reason a finished episode has no outcome, as comparisons show it."""
WITHOUT = (
    r"^(The task has no verifier|No \w+ verifier available|Cannot verify: the episode has no task"
    r"|The environment ended the episode without a reward)"
)
"""The reason in the history for a task without a verifier, written by `playing.py` and environment servers: another try
would end the same way."""


def unverified(episodes: Collection[str]) -> dict[str, str]:
    """Return why these finished episodes have no outcome, by episode; one that still waits for its verifier is not
    included."""
    reports = EpisodeEvent.objects.filter(episode__in=list(episodes), verb=NOT_VERIFIED)
    reasons = dict.fromkeys(reports.values_list("episode_id", flat=True), LOST)
    return reasons | dict.fromkeys(
        reports.filter(reason__regex=WITHOUT).values_list("episode_id", flat=True), NO_VERIFIER
    )


def tries_of(plans: Iterable[str]) -> QuerySet[PlannedTry]:
    """Return the tries of these plans that a retry replaces."""
    tries = PlannedTry.objects.filter(plan__in=list(plans))
    of_tries = Q(episode__planned__plan__in=list(plans), episode__state=EpisodeState.FINISHED)
    reports = EpisodeEvent.objects.filter(of_tries, verb=NOT_VERIFIED).exclude(reason__regex=WITHOUT)
    lost = set(reports.values_list("episode_id", flat=True))  # few: an episode with an outcome has no such event
    lost -= set(outcomes.of_episodes(lost).found_here().values_list("episode_id", flat=True))
    faulty = Q(episode__state=EpisodeState.FAILED, episode__fault__in=INFRASTRUCTURE)
    helped = Q(episode__assisted=True, episode__state__in=(EpisodeState.FINISHED, EpisodeState.FAILED))
    return tries.filter(faulty | helped | Q(episode__in=lost))
