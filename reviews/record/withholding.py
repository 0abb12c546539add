"""Writes: the outcomes that blind reviews withhold. `episodes.visible.visibility` reads the holds for all pages and
calls.

From members who judge and create no queues (experts and reviewers) an outcome is withheld as soon as the episode is in
a blind queue, before they claim: the list of episodes would reveal it. From others, who fill queues by outcome, and
from programs, it is withheld from their claim on. The outcomes of its branches are withheld with it. A hold ends with
their verdict or decline, with the last verdict that the review needs, or with the queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from episodes.models import Episode, OutcomeHold
from people import slots
from people.access import Actor, judges_only, members_who_judge, person
from people.models import Membership, Project
from people.slots import SlotState
from reviews.models import Preference, Review, ReviewDecline, ReviewQueue, ReviewSlot, Verdict

BATCH = 5_000


def from_everyone(reviews: Iterable[Review]) -> None:
    """Withhold the outcomes of these reviews of one blind queue from each member who can judge them."""
    rows = list(reviews)
    # all of one queue, so the first names the project
    keys = [one.key for one in members_who_judge(locked(rows[0].queue.project_id))] if rows else []
    _hold((key, review) for review in rows for key in keys)


def locked(project_id: str) -> Project:
    """Lock and return a project. Filling a queue then includes members who join meanwhile, or they see its holds."""
    # NO KEY, so that runs and episodes, which refer to the project, can start meanwhile
    return Project.objects.select_for_update(no_key=True).get(pk=project_id)


def from_one(actor: Actor, review: Review) -> None:
    """Withhold an outcome from an actor who claims a review; an existing hold stays unchanged."""
    _hold([(actor.key, review)])


def _hold(holds: Iterable[tuple[str, Review]]) -> None:
    pairs = list(holds)
    below = _branches({pk for _, review in pairs for pk in review.episode_ids})
    rows = [
        OutcomeHold(actor_key=key, episode_id=episode, by=review.pk)
        for key, review in pairs
        for episode in {one for pk in review.episode_ids for one in (pk, *below.get(pk, ()))}
    ]
    # a second hold by the same review is the same hold
    OutcomeHold.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)


def _branches(episodes: Collection[str]) -> dict[str, list[str]]:
    """Return all branches below each of these episodes; later ones get the holds of their parents."""
    branches: dict[str, list[str]] = {}
    roots = {episode: episode for episode in episodes}
    while roots:
        rows = Episode.every.filter(fork__parent__in=roots).values_list("pk", "fork__parent_id")
        roots = {pk: roots[str(parent)] for pk, parent in rows}
        for pk, root in roots.items():
            branches.setdefault(root, []).append(pk)
    return branches


def opened_before(actor_key: str, review: Review) -> bool:
    """Return whether an earlier review of one of its episodes has opened the outcome to this actor before this one
    withheld it from them: when it was queued for members who judge, else with their claim."""
    pair = review.episode_ids
    mine = OutcomeHold.objects.filter(actor_key=actor_key)
    since = mine.filter(by=review.pk, episode__in=pair).order_by("since").values("since")[:1]
    before = Coalesce(Subquery(since), Value(review.created_at))
    judged = Q(verdicts__author_key=actor_key, verdicts__is_late=False, verdicts__created_at__lt=before)
    compared = Q(preferences__author_key=actor_key, preferences__is_late=False, preferences__created_at__lt=before)
    declined = Q(declines__author_key=actor_key, declines__at__lt=before)
    # the newest pair is answered and still withheld
    opened = ~Exists(mine.filter(by=OuterRef("pk")))
    ended = Review.objects.filter(judged | compared & opened | declined).exclude(pk=review.pk)
    return ended.filter(Q(episode__in=pair) | Q(other__in=pair)).exists()


def open_to(actor_key: str, review: Review) -> None:
    """Open the outcome to an actor for whom this review is over."""
    # by this review only: another blind queue can still withhold the same episode
    OutcomeHold.objects.filter(actor_key=actor_key, by=review.pk).delete()


def open_answered_to(actor_key: str, queue: ReviewQueue, but: Review | None = None) -> None:
    """Open the outcomes of the pairs that an actor answered, but for the newest, which they can still undo."""
    answered = Preference.objects.counted().filter(review__queue=queue, author_key=actor_key)
    rows = answered.exclude(review=but) if but is not None else answered
    holds = OutcomeHold.objects.filter(actor_key=actor_key, by__in=rows.values("review"))
    opened = set(holds.values_list("by", flat=True))
    holds.delete()
    _open_done(opened)


def _open_done(reviews: Collection[str]) -> None:
    """Open the outcomes of pairs with all their answers to everyone, once none of these can be undone: until then a
    slot can become free again, for someone who must not have seen them."""
    answered = Preference.objects.counted().filter(review=OuterRef(OuterRef("pk"))).values("author_key")
    undoable = OutcomeHold.objects.filter(by=OuterRef("pk"), actor_key__in=answered)
    open_ones = ReviewSlot.objects.filter(review=OuterRef("pk"), state__in=slots.OPEN)
    done = Review.objects.filter(~Exists(open_ones), ~Exists(undoable), pk__in=reviews)
    open_to_everyone(done)


def open_all_to(actor_key: str, queue: ReviewQueue) -> None:
    """Open the outcomes of a whole queue to an actor who left it."""
    OutcomeHold.objects.filter(actor_key=actor_key, by__in=queue.reviews.values("pk")).delete()


def open_to_everyone(reviews: QuerySet[Review]) -> None:
    """Open the outcomes of reviews that no one judges any more."""
    OutcomeHold.objects.filter(by__in=reviews.values("pk")).delete()


def follow_role(membership: Membership) -> None:
    """Withhold blind outcomes from a member who judges from now on, and open unclaimed ones to a member who does not.
    Registered with `members.on_role`."""
    actor = person(membership)
    project = locked(membership.project_id)
    waiting = Review.objects.filter(queue__project=project, queue__is_blind=True, queue__closed_at=None)
    if judges_only(membership.role):
        judged = Verdict.objects.filter(author_key=actor.key, is_late=False).values("review")
        declined = ReviewDecline.objects.filter(author_key=actor.key).values("review")
        # a review without open slots needs no verdict; gold always has a slot for the next reviewer
        answered = Preference.objects.counted().filter(author_key=actor.key).values("review")
        waiting = waiting.exclude(pk__in=answered)
        open_reviews = waiting.filter(Q(slots__state__in=slots.OPEN) | ~Q(gold="")).distinct()
        _hold((actor.key, one) for one in open_reviews.exclude(pk__in=judged).exclude(pk__in=declined))
    else:
        claimed = ReviewSlot.objects.filter(holder=actor.key, state=SlotState.CLAIMED).values("review")
        holds = OutcomeHold.objects.filter(actor_key=actor.key, by__in=waiting.values("pk"))
        # what they hold is withheld until their verdict, in any role
        holds.exclude(by__in=claimed).delete()
