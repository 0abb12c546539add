"""Writes: the rule by which a queue fills itself: a share of the finished episodes that match a filter.

An episode is drawn by its ID and the seed of the queue: the same ones with each sweep, and a larger share has those of
a smaller one. A rule adds what its author can see, and each row names its rule. Leaves the rows to `assigning.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from django.db import DatabaseError, transaction
from django.db.models import F, Max, QuerySet, Value
from django.db.models.functions import MD5, Collate, Concat, Substr
from django.utils import timezone

from episodes.find.narrowing import matching
from episodes.models import Episode
from people.access import Actor, holds, may_set_reviews, person, system, visible_or_404
from people.errors import AppError, Invalid
from people.models import Membership
from people.record.audit import record
from reviews.models import QueueRule, ReviewQueue
from reviews.record import assigning, pairing
from reviews.statistics import worth

log = logging.getLogger(__name__)
EACH = 500
"""Episodes that one sweep adds to a queue; the next one takes the rest."""
DIGITS = 8
"""Hexadecimal digits of a draw."""


@transaction.atomic
def set_rule(
    actor: Actor,
    queue_id: str,
    filters: Mapping[str, Sequence[str]],
    share: float,
    annotators: int | None = None,
    view: str = "",
) -> QueueRule:
    """Give a queue another rule; the one before ends. Items that it added stay, and keep their number of reviews."""
    may_set_reviews(actor)
    rows = ReviewQueue.objects.filter(closed_at=None).select_for_update(no_key=True)
    queue = visible_or_404(rows, actor, queue_id)
    if not 0 < share <= 1:
        raise Invalid("A share is more than 0 and at most 1: 0.1 for 10%.")
    needed = queue.reviews_required if annotators is None else annotators
    if not 1 <= needed <= 20:
        raise Invalid("An item can have 1 to 20 annotators.")
    # raises for a filter or a value that does not exist
    matching(actor, filters)
    number = (queue.rules.aggregate(last=Max("number"))["last"] or 0) + 1
    queue.rules.filter(ended_at=None).update(ended_at=timezone.now())
    rule = QueueRule.objects.create(
        queue=queue,
        number=number,
        filter={name: list(values) for name, values in filters.items()},
        view=view[:120],
        share=share,
        annotators=needed,
        author=actor.name,
        author_key=actor.key,
    )
    record(actor, "queue.rule_set", queue.pk, f"{queue.name}: rule {number}, {share:.2%} of {rule.filter}"[:2000])
    return rule


@transaction.atomic
def end_rule(actor: Actor, queue_id: str) -> int:
    """End the rule of a queue. Return how many were in force: one, or none."""
    may_set_reviews(actor)
    queue = visible_or_404(ReviewQueue.objects.select_for_update(no_key=True), actor, queue_id)
    ended = queue.rules.filter(ended_at=None).update(ended_at=timezone.now())
    if ended:
        record(actor, "queue.rule_ended", queue.pk, queue.name)
    return ended


def fill_by_rules() -> int:
    """Fill all open queues by their rules. Called by the periodic sweep. Return the number of added items."""
    rules = QueueRule.objects.filter(ended_at=None, queue__closed_at=None).select_related("queue__project")
    return sum(_fill(rule) for rule in rules.order_by("pk"))


def _fill(rule: QueueRule) -> int:
    """Add what a rule draws. A rule that cannot run says why on the page of its queue, and stops no other."""
    added, problem = 0, ""
    try:
        author = _author(rule)
        added = _added(rule, system(author.project), drawn(matching(author, rule.filter), rule))
    except AppError as refused:
        problem = refused.message[:400]
        log.warning("%s of queue %s: %s", rule, rule.queue_id, problem)
    except DatabaseError as error:
        # a deadlock or a full disk; the next sweep tries again
        problem = f"The database refused it: {type(error).__name__}."
        log.exception("%s of queue %s", rule, rule.queue_id)
    if problem != rule.problem:
        QueueRule.objects.filter(pk=rule.pk).update(problem=problem)
    return added


def _author(rule: QueueRule) -> Actor:
    """Return who made a rule, with their present rights. Raises `Invalid` if they may not fill queues any more."""
    members = Membership.objects.current(timezone.now()).filter(project=rule.queue.project_id)
    people = [person(one) for one in members.select_related("project", "user")]
    author = next((one for one in people if one.key == rule.author_key), None)
    if author is None or not holds(author, may_set_reviews):
        raise Invalid(f"{rule.author} can't fill queues any more. Set the rule again.")
    return author


def drawn(episodes: QuerySet[Episode], rule: QueueRule) -> QuerySet[Episode]:
    """Return the share of these episodes that a rule draws: by the ID, so that each is drawn or not for good."""
    if rule.share >= 1:
        return episodes
    # in the database: most of the episodes are looked at with each sweep, and few are read
    text = Substr(MD5(Concat(Value(f"{rule.queue.seed}/"), F("pk"))), 1, DIGITS)
    return episodes.annotate(place=Collate(text, "C")).filter(place__lt=f"{int(rule.share * 16**DIGITS):0{DIGITS}x}")


def _added(rule: QueueRule, actor: Actor, episodes: QuerySet[Episode]) -> int:
    if rule.queue.is_pairwise:
        pairs = pairing.rows_of(rule.queue, episodes, rule=rule, most=EACH)
        return assigning.add_pairs(actor, rule.queue, pairs, str(rule))
    new = episodes.exclude(reviews__queue=rule.queue).order_by("pk").values("pk")
    ready = list(worth.reviewable().filter(pk__in=new).order_by("pk")[:EACH])
    rows = assigning.rows_of(rule.queue, ready, rule=rule)
    # without new rows, neither a lock nor a line in the audit
    return assigning.add(actor, rule.queue, rows, str(rule)) if rows else 0
