"""Reads: what can be added to review queues, with counts, before anything is added.

Called by the pages about queues. `assigning.fill` adds.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max, QuerySet

from episodes.models import Episode, Run
from episodes.stored import run_names
from people.access import Actor, scoped
from reviews.models import Review, ReviewQueue
from reviews.statistics import worth
from reviews.statistics.reports import progress_of

QUEUES, SOURCES = 100, 200


@dataclass(frozen=True)
class QueueChoice:
    """An open queue to which episodes can be added: how many of them it has, and how many would come to it."""

    queue: ReviewQueue
    open_reviews: int
    there: int
    added: int


@dataclass(frozen=True)
class QueueChoices:
    """Some episodes: how many there are, how many of them can be reviewed, and the open queues."""

    total: int
    ready: int
    queues: list[QueueChoice]


def choices(actor: Actor, episodes: QuerySet[Episode], most: int) -> QueueChoices:
    """Return the open queues, newest first, with what they have of some episodes; one request adds at most `most`."""
    queues = list(scoped(ReviewQueue.objects.filter(closed_at=None), actor.project).order_by("-created_at")[:QUEUES])
    progress = progress_of(actor, queues)
    ids = episodes.order_by().values("pk")
    inside = Review.objects.filter(queue__in=queues, episode__in=ids)
    there = dict(inside.values_list("queue").annotate(n=Count("pk")))
    ready = worth.reviewable().filter(pk__in=ids).count()
    rows = [
        QueueChoice(
            queue=queue,
            open_reviews=progress[queue.pk].total - progress[queue.pk].done,
            there=there.get(queue.pk, 0),
            added=min(most, max(0, ready - there.get(queue.pk, 0))),
        )
        for queue in queues
    ]
    return QueueChoices(episodes.count(), ready, rows)


def sources(actor: Actor, queue: ReviewQueue) -> dict[str, list[tuple[str, str, int, int]]]:
    """Return the runs and scenarios from which episodes can be added to a queue: value, name, episodes, and how many of
    them are in the queue."""
    rows = scoped(Episode.objects.exclude(worth.never_ran()), actor.project)
    inside = Episode.objects.filter(reviews__queue=queue)

    def counted(column: str, order: str) -> list[tuple[str, int, int]]:
        there = dict(inside.values_list(column).annotate(n=Count("pk")))
        grouped = rows.exclude(**{column: None}).exclude(**{column: ""}).values_list(column)
        newest = grouped.annotate(n=Count("pk"), newest=Max("created_at")).order_by(order, column)[:SOURCES]
        return [(value, n, there.get(value, 0)) for value, n, _ in newest]

    runs = counted("run_id", "-newest")
    named = dict(scoped(Run.objects.filter(pk__in=[pk for pk, *_ in runs]), actor.project).values_list("pk", "name"))
    names = run_names.apart(actor.project, named)
    return {
        "runs": [(pk, names[pk], n, there) for pk, n, there in runs],
        "scenarios": [(name, name, n, there) for name, n, there in counted("scenario", "scenario")],
    }
