"""Reads: what one person did with the reviews of a queue, and whether their verdicts differ from the verifier.

An outcome that is withheld from them is compared with nothing. Called by the page of a queue and beside a review.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from episodes.visible import visibility
from people.access import Actor
from people.slots import SlotState
from reviews.models import Preference, Review, ReviewDecline, ReviewQueue, Verdict
from reviews.statistics import worth
from reviews.visible.pairs import shown_choice

OPEN, CLAIMED = "Open", "Claimed"


@dataclass(frozen=True)
class OwnReview:
    """One review as its row says it: what this person gave, else its state, and `against` the verifier."""

    review: Review
    words: str
    against: str = ""
    at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Return whether this person can begin or finish it now."""
        return self.words in (OPEN, CLAIMED)

    @property
    def differs(self) -> bool:
        return self.against == "differs"


def own_reviews(actor: Actor, queue: ReviewQueue, limit: int) -> list[OwnReview]:
    """Return the reviews that a person gave, holds or declined, newest first."""
    slots = queue.slots.filter(holder=actor.key, state__in=[SlotState.SUBMITTED, SlotState.CLAIMED])
    rows = list(slots.select_related("review__episode").order_by("-claimed_at")[:limit])
    by_review = said_by(actor, queue, [one.review for one in rows if one.state == SlotState.SUBMITTED])
    own = [by_review.get(one.review_id) or OwnReview(one.review, CLAIMED, at=one.claimed_at) for one in rows]
    declines = ReviewDecline.objects.filter(review__queue=queue, author_key=actor.key).order_by("-at")
    own += [OwnReview(one.review, "Declined", at=one.at) for one in declines.select_related("review__episode")[:limit]]
    return own[:limit]


def said_by(actor: Actor, queue: ReviewQueue, reviews: Iterable[Review]) -> dict[str, OwnReview]:
    """Return what a person gave on these reviews, by review: a verdict, or an answer on a pair."""
    by_id = {one.pk: one for one in reviews}
    if queue.is_pairwise:
        pairs = Preference.objects.counted().filter(review__in=by_id, author_key__in=actor.keys)
        return {row.review_id: OwnReview(by_id[row.review_id], shown_choice(row), at=row.created_at) for row in pairs}
    verdicts = Verdict.objects.counted().filter(review__in=by_id, author_key__in=actor.keys)
    outcomes = visibility.verdict_types(actor, [one.episode_id for one in by_id.values()])
    return {one.review_id: _verdict(one, by_id[one.review_id], outcomes) for one in verdicts}


def _verdict(verdict: Verdict, review: Review, outcomes: dict[str, str]) -> OwnReview:
    expected = worth.SAYS.get(outcomes.get(verdict.episode_id, ""))
    against = "" if expected is None else "agrees" if expected == verdict.decision else "differs"
    return OwnReview(review, str(verdict.get_decision_display()), against, verdict.created_at)
