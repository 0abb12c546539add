"""Reads: the random blind sample of some episodes, as a queue drew it, and what people said of each.

Whether a sample was drawn without regard to outcomes is checked, not believed: the draw is a function of the queue's
seed and the episode, so a sample of all has every episode up to its highest draw. One of failures alone, of an older
set, or beside episodes that were chosen by hand leaves some out. Called by the comparison of a run, which refuses
readers who have to judge one of its episodes blind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from episodes.models import Privilege
from people.access import Actor, scoped
from reviews.models import Review, ReviewQueue, Verdict, VerdictDecision
from reviews.statistics import worth
from reviews.statistics.reports import consensus
from reviews.visible.pairs import draw


def blind_sample(actor: Actor, episodes: Iterable[str]) -> dict[str, bool | None]:
    """Return whether blind people accepted each drawn episode, None while they have not agreed; empty without a sample
    that was drawn from all of these. Of several samples, the largest; of equal ones, the oldest."""
    every = set(episodes)
    queues = scoped(ReviewQueue.objects.filter(is_blind=True), actor.project)
    rows = Review.objects.filter(queue__in=queues, in_sample=True, other=None, gold="", episode__in=every)
    by_queue: dict[str, dict[str, str]] = defaultdict(dict)
    drawn_at: dict[str, datetime] = {}
    for pk, episode, review, added_at in rows.values_list("queue_id", "episode_id", "pk", "created_at"):
        by_queue[pk][episode] = review
        drawn_at[pk] = max(added_at, drawn_at.get(pk, added_at))
    if not by_queue:
        return {}
    can_be_drawn = dict(worth.reviewable().filter(pk__in=every).values_list("pk", "created_at"))
    largest_first = sorted(queues.filter(pk__in=by_queue), key=lambda row: (-len(by_queue[row.pk]), row.created_at))
    for queue in largest_first:
        drawn = by_queue[queue.pk]
        highest = max(draw(queue.seed, episode) for episode in drawn)
        # an episode that began after the draw, as by a retry, was in none of it
        there = [episode for episode, began_at in can_be_drawn.items() if began_at <= drawn_at[queue.pk]]
        if all(episode in drawn for episode in there if draw(queue.seed, episode) <= highest):
            return _agreed(drawn)
    return {}


def _agreed(drawn: dict[str, str]) -> dict[str, bool | None]:
    """Return the consensus of people on each drawn episode, from verdicts given before they saw its outcome."""
    by_people: dict[str, list[Verdict]] = defaultdict(list)
    people = Verdict.objects.as_given().filter(
        review__in=drawn.values(), author_kind="human", privilege=Privilege.BLIND, is_blind=True
    )
    for verdict in people.order_by("created_at", "pk"):
        by_people[verdict.episode_id].append(verdict)
    decisions = {episode: consensus(by_people[episode]) for episode in drawn}
    return {episode: word == VerdictDecision.ACCEPT if word else None for episode, word in decisions.items()}
