"""Which pairs of episodes a queue of pairs gets: episodes of one task, and the branches of each.

Reads only; `assigning.add` stores the rows. Neither outcome nor arm is looked at, so the choice shows nothing of them.
A pair whose sides are the same is left out and counted: a person could only say *equal*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import nsmallest
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple

from django.db.models import Q, QuerySet

from episodes.models import Episode
from episodes.stored.splits import task_key
from reviews.models import QueueRule, Review, ReviewQueue
from reviews.statistics import worth
from reviews.visible.pairs import answers_by_episode, digests_of, draw

EPISODES, MEMBERS, PAIRS = 5_000, 60, 4
"""Episodes of one fill, episodes of a task among which pairs are drawn, and pairs of a task in a queue."""
REMEMBERED = 20_000
"""Digests of ended episodes that a process keeps, so that a rule does not read the same steps each minute."""
TOGETHER = 100
"""Pairs that are compared at a time, by two queries."""
_DIGESTS: dict[str, str] = {}


class DrawnPairs(NamedTuple):
    """The pairs that come to a queue, and how many were left out because their sides are the same."""

    rows: list[Review]
    alike: int


def rows_of(
    queue: ReviewQueue,
    episodes: QuerySet[Episode],
    *,
    sample: int = 0,
    seed: int = 0,
    rule: QueueRule | None = None,
    most: int = 0,
) -> DrawnPairs:
    """Return the pairs that come to a queue: at most `PAIRS` of a task, with those that it has; with `sample` or
    `most`, at most that number in all. Each is drawn by the seed, and no pair is there twice."""
    seed = seed or queue.seed
    there = set(queue.reviews.values_list("episode_id", "other_id"))
    tasks = queue.reviews.values_list("episode__scenario", "episode__task_idx", "episode__task")
    counts = Counter(task_key(*task) for task in tasks)
    places: list[tuple[float, Iterator[tuple[str, str]]]] = []
    for task, members in _by_task(queue, episodes).items():
        if (room := PAIRS - counts[task]) > 0:
            pairs = _drawn(members, there, seed)
            places += [(draw(seed, f"sample/{task}/{number}") if sample else 0, pairs) for number in range(room)]
    comparing = _Comparing()
    comparing.fill([pairs for _, pairs in sorted(places, key=itemgetter(0))], sample or most or len(places))
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
        for first, second in comparing.chosen
    ]
    return DrawnPairs(rows, comparing.alike)


def _by_task(queue: ReviewQueue, episodes: QuerySet[Episode]) -> dict[str, list[str]]:
    """Return the episodes that can be reviewed, and the branches of these, by task."""
    newest = list(episodes.order_by("-created_at", "-pk").values_list("pk", flat=True)[:EPISODES])
    family = Q(pk__in=newest) | Q(fork__parent__in=newest)
    rows = worth.reviewable().filter(family, project=queue.project_id).order_by("pk")
    tasks: dict[str, list[str]] = {}
    for pk, scenario, task_idx, task in rows.values_list("pk", "scenario", "task_idx", "task"):
        tasks.setdefault(task_key(scenario, task_idx, task), []).append(pk)
    return tasks


def _drawn(members: list[str], there: Collection[tuple[str, str | None]], seed: int) -> Iterator[tuple[str, str]]:
    """Yield the new pairs of one task, drawn by the seed."""
    few = sorted(nsmallest(MEMBERS, members, key=lambda pk: draw(seed, pk)))
    new = [pair for pair in combinations(few, 2) if pair not in there]
    yield from sorted(new, key=lambda pair: draw(seed, f"pair/{pair}"))


class _Comparing:
    """Takes pairs whose sides differ, one for each place, and reads no more episodes than it needs."""

    def __init__(self) -> None:
        self.chosen: list[tuple[str, str]] = []
        self.alike = 0
        self._answers: dict[str, str] = {}

    def fill(self, places: Sequence[Iterator[tuple[str, str]]], most: int) -> None:
        """Fill these places in turn until there are `most` pairs. A task's iterator is there once for each place."""
        rest = list(places)
        while rest and len(self.chosen) < most:
            # few more than are missing, so that what is read is used
            together = min(TOGETHER, most - len(self.chosen))
            batch, rest = rest[:together], rest[together:]
            while batch:
                batch = self._tried(batch)

    def _tried(self, batch: Sequence[Iterator[tuple[str, str]]]) -> list[Iterator[tuple[str, str]]]:
        """Try the next pair of each place. Return the places that are still free."""
        pairs = [(place, pair) for place in batch if (pair := next(place, None)) is not None]
        unread = {pk for _, pair in pairs for pk in pair} - self._answers.keys()
        if unread:
            self._answers |= answers_by_episode(unread)
        # without those that were erased meanwhile
        pairs = [(place, pair) for place, pair in pairs if self._answers.keys() >= set(pair)]
        equal = [pair for _, pair in pairs if self._answers[pair[0]] == self._answers[pair[1]]]
        digests = _remembered({pk for pair in equal for pk in pair})
        free = []
        for place, pair in pairs:
            if pair in equal and digests[pair[0]] == digests[pair[1]]:
                self.alike += 1
                free.append(place)
            else:
                self.chosen.append(pair)
        return free


def _remembered(episodes: set[str]) -> dict[str, str]:
    """Return digests of episodes, and read those that this process does not remember."""
    if len(_DIGESTS) > REMEMBERED:
        _DIGESTS.clear()
    digests = {pk: _DIGESTS[pk] for pk in episodes & _DIGESTS.keys()}
    if unread := episodes - digests.keys():
        digests |= digests_of(unread)
        _DIGESTS.update(digests)
    return digests
