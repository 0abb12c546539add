"""Which pairs of episodes a queue of pairs gets: episodes of one task, and the branches of each.

Reads only; `assigning.add` stores the rows. Neither outcome nor arm is looked at, so the choice shows nothing of them.
A pair whose sides are the same is left out and counted: a person could only say *equal*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from heapq import nsmallest
from itertools import combinations
from typing import NamedTuple

from django.db.models import Q, QuerySet

from episodes.models import Episode
from episodes.stored.splits import task_key
from reviews.models import QueueRule, Review, ReviewQueue
from reviews.statistics import worth
from reviews.visible.pairs import digest_of, draw

EPISODES, MEMBERS, PAIRS = 5_000, 60, 4
"""Episodes of one fill, episodes of a task among which pairs are drawn, and pairs of a task in a queue."""
REMEMBERED = 20_000
"""Digests of ended episodes that a process keeps, so that a rule does not read the same steps each minute."""


class DrawnPairs(NamedTuple):
    """The pairs that come to a queue, and how many were left out because their sides are the same."""

    rows: list[Review]
    alike: int


def rows_of(
    queue: ReviewQueue, episodes: QuerySet[Episode], *, sample: int = 0, seed: int = 0, rule: QueueRule | None = None
) -> DrawnPairs:
    """Return the pairs that come to a queue: at most `PAIRS` of a task, with those that it has; with `sample`, only so
    many of all. Each is drawn by the seed, and no pair is there twice."""
    seed = seed or queue.seed
    there = set(queue.reviews.values_list("episode_id", "other_id"))
    tasks = queue.reviews.values_list("episode__scenario", "episode__task_idx", "episode__task")
    counts = Counter(task_key(*task) for task in tasks)
    drawn = [_drawn(members, there, counts[task], seed) for task, members in _by_task(queue, episodes).items()]
    chosen = [pair for pairs, _ in drawn for pair in pairs]
    if sample:
        chosen = sorted(chosen, key=lambda pair: draw(seed, f"sample/{pair}"))[:sample]
    rows = [
        Review(
            queue=queue,
            episode_id=first,
            other_id=second,
            rule=rule,
            in_sample=bool(sample),
            # by chance: a rank by outcomes would show them
            worth=3 * draw(queue.seed, f"place/{first}/{second}"),
        )
        for first, second in chosen
    ]
    return DrawnPairs(rows, sum(alike for _, alike in drawn))


def _by_task(queue: ReviewQueue, episodes: QuerySet[Episode]) -> dict[str, list[str]]:
    """Return the episodes that can be reviewed, and the branches of these, by task."""
    newest = list(episodes.order_by("-created_at", "-pk").values_list("pk", flat=True)[:EPISODES])
    family = Q(pk__in=newest) | Q(fork__parent__in=newest)
    rows = worth.reviewable().filter(family, project=queue.project_id).order_by("pk")
    tasks: dict[str, list[str]] = {}
    for pk, scenario, task_idx, task in rows.values_list("pk", "scenario", "task_idx", "task"):
        tasks.setdefault(task_key(scenario, task_idx, task), []).append(pk)
    return tasks


def _drawn(
    members: list[str], there: Collection[tuple[str, str | None]], full: int, seed: int
) -> tuple[list[tuple[str, str]], int]:
    """Return the pairs of one task that come to a queue which has `full` of it, and how many were passed over because
    their sides are the same."""
    if full >= PAIRS:
        return [], 0
    few = sorted(nsmallest(MEMBERS, members, key=lambda pk: draw(seed, pk)))
    new = [pair for pair in combinations(few, 2) if pair not in there]
    chosen: list[tuple[str, str]] = []
    alike = 0
    for pair in sorted(new, key=lambda pair: draw(seed, f"pair/{pair}")):
        if len(chosen) == PAIRS - full:
            break
        if _remembered(pair[0]) == _remembered(pair[1]):
            alike += 1
        else:
            chosen.append(pair)
    return chosen, alike


@lru_cache(maxsize=REMEMBERED)
def _remembered(episode: str) -> str:
    return digest_of(episode)
