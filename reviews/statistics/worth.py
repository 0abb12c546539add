"""Reads: the value of reviewing an episode, and whether its outcome can still follow.

Owns the ranking of review queues. It reads outcomes on behalf of all and shows them to no one: the reason of a rank
opens with the outcome, after the verdict. Called by `assigning.py` and `deciding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from episodes.models import Episode, EpisodeState
from episodes.stored import outcomes, settled
from reviews.models import Verdict, VerdictDecision

AGAINST_VERIFIER, AGAINST_EACH_OTHER, NEAR_THE_LINE = 3.0, 2.0, 1.0
# of rewards from 0 to 1; both ends count as near
NEAR = (0.25, 0.75)
SAYS = {"complete": VerdictDecision.ACCEPT, "others": VerdictDecision.REJECT}
"""The verdict that corresponds to a verifier's outcome; other types have none."""


def is_settled(episode: Episode) -> bool:
    """Return whether the episode has ended and its verifier has run or will not run."""
    return settled.settled().filter(pk=episode.pk).exists()


def never_ran() -> Q:
    """Return what finds episodes that were cancelled before their first step: they have nothing to review."""
    return Q(state=EpisodeState.CANCELLED, last_seq=0)


def reviewable() -> QuerySet[Episode]:
    """Return episodes that can be added to a queue."""
    return settled.settled().exclude(never_ran())


def of_episodes(episodes: Iterable[Episode]) -> dict[str, tuple[float, str]]:
    """Return, by episode, its worth and the reason: a model disagrees with the verifier, models disagree, or it is
    borderline."""
    ids = [one.pk for one in episodes]
    by_models: dict[str, set[str]] = {}
    verdicts = Verdict.objects.counted().filter(episode__in=ids).exclude(author_kind="human")
    for episode, decision in verdicts.values_list("episode_id", "decision"):
        by_models.setdefault(episode, set()).add(decision)
    ranked = dict.fromkeys(ids, (0.0, ""))
    for row in outcomes.of_episodes(ids).found_here():
        expected = SAYS.get(row.reward_type)
        # an error of the judge is no result, so a person has to look
        near = row.reward_type == "judge_error" or (row.reward is not None and NEAR[0] <= row.reward <= NEAR[1])
        if expected is not None and by_models.get(row.episode_id, set()) - {expected}:
            ranked[row.episode_id] = (AGAINST_VERIFIER, "model against verifier")
        elif near:
            ranked[row.episode_id] = (NEAR_THE_LINE, "near the pass line")
    for pk, decisions in by_models.items():
        # never below what the verifier's disagreement gave
        if len(decisions) > 1 and ranked[pk][0] < AGAINST_EACH_OTHER:
            ranked[pk] = (AGAINST_EACH_OTHER, "model against model")
    return ranked
