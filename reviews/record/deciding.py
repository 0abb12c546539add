"""Writes: a reviewer's verdict, its change, their explanation if it differs from the verifier, and the call for a third
reviewer.

Owns verdicts. Leaves the slot to `assigning.py` and the doubted task to `court.py`. A verdict without the lease is
stored and not counted; a form that is sent twice gives one verdict. A changed verdict is a new row; both are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from episodes.models import OutcomeHold
from episodes.visible import visibility
from people import slots
from people.access import Actor, may_review, may_see_reviews, visible_or_404
from people.errors import Invalid
from people.record import leasing
from people.slots import SlotState
from reviews.errors import AlreadyReviewed, NotBeforeVerdict, NotYourAnnotation, ReviewClosed, ReviewLeaseLost
from reviews.models import (
    Confidence,
    Disagreement,
    Explanation,
    Review,
    ReviewSlot,
    Verdict,
    VerdictDecision,
)
from reviews.record import annotating, court, withholding
from reviews.statistics import worth

NOTE_MAX = 20_000


SAID = ("decision", "failure_type", "rubric", "confidence", "note")


@dataclass(frozen=True)
class Wanted:
    """A verdict as it was sent. `model` names the model whose judgment a program submits."""

    decision: str
    failure_type: str = ""
    rubric: dict[str, Any] = field(default_factory=dict)
    confidence: str = ""
    note: str = ""
    nonce: str = ""
    model: str = ""


def decide(actor: Actor, review_id: str, lease_token: str, answer: Wanted) -> Verdict:
    """Store a verdict: 1. return the first verdict for a repeated nonce, 2. without the lease store it once as late and
    raise, 3. accept verdict and slot in one transaction and open the outcome, 4. call a third person if two differ."""
    may_review(actor)
    refusal: ReviewLeaseLost | ReviewClosed | None = None
    with transaction.atomic():
        review = visible_or_404(
            # only this row, not the queue; two forms of one person wait for each other here
            Review.objects.select_related("queue", "episode").select_for_update(of=("self",), no_key=True),
            actor,
            review_id,
            "queue__project",
        )
        _refuse_misfit(review, answer)
        # a verdict that counts comes before a late one with the same nonce
        mine = list(Verdict.objects.filter(review=review, author_key=actor.key).order_by("is_late"))
        repeated = next((verdict for verdict in mine if _is_repeat(verdict, answer)), None)
        if repeated is not None and not repeated.is_late:
            return repeated
        if mine and not mine[0].is_late:
            raise AlreadyReviewed
        # an expired lease that no one took still counts
        slot = leasing.held_with(ReviewSlot.objects.filter(review=review, holder=actor.key), lease_token).first()
        if slot is None:
            refusal = ReviewClosed() if review.queue.closed_at is not None else ReviewLeaseLost()
        if refusal is not None and repeated is not None:
            raise refusal  # it is already stored; if the lease is claimed again, the same verdict counts
        verdict = _stored(actor, review, slot, answer)
        if slot is not None:
            _close(actor, review, slot)
    # after the commit, so that the late verdict stays stored
    if refusal is not None:
        raise refusal
    return verdict


def _is_repeat(verdict: Verdict, answer: Wanted) -> bool:
    """Return whether a stored verdict is this one, sent again: it says the same, or is late under the same nonce.
    Without a nonce only a late one is."""
    says_the_same = all(getattr(verdict, name) == getattr(answer, name) for name in SAID)
    if answer.nonce:
        return verdict.nonce == answer.nonce and (verdict.is_late or says_the_same)
    return verdict.is_late and says_the_same


@transaction.atomic
def change(actor: Actor, review_id: str, answer: Wanted) -> Verdict:
    """Supersede the actor's verdict. Counts and filters take the new one. Agreement and gold items keep the first,
    which was given without the outcome in sight. No third person is called, because the outcome is open by now."""
    may_review(actor)
    review = visible_or_404(
        Review.objects.select_related("queue", "episode").select_for_update(of=("self",), no_key=True),
        actor,
        review_id,
        "queue__project",
    )
    _refuse_misfit(review, answer)
    mine = Verdict.objects.counted().filter(review=review, author_key=actor.key).first()
    if mine is None:
        raise NotBeforeVerdict
    # closing it opened the outcomes to everyone
    if review.queue.closed_at is not None:
        raise ReviewClosed("This queue is closed.")
    if all(getattr(mine, name) == getattr(answer, name) for name in SAID):
        return mine
    # no slot: a change needs no lease and has no duration
    changed = _stored(actor, review, None, answer, mine)
    _rank(review)
    return changed


def late_of(actor: Actor, review: Review) -> Verdict | None:
    """Return the actor's newest verdict on a review after their claim expired: it is stored and never counts."""
    mine = Verdict.objects.filter(review=review, author_key=actor.key, is_late=True)
    return mine.order_by("-created_at", "-pk").first()


def _refuse_misfit(review: Review, answer: Wanted) -> None:
    """Raise unless the verdict has the fields that its queue requires."""
    if review.other_id is not None:
        raise Invalid("This review is of a pair. Say which is better.")
    if answer.decision not in VerdictDecision.values:
        raise Invalid("A verdict is accept or reject.")
    # most reviewers leave a preset value as it is, so none is preset
    if answer.confidence and answer.confidence not in Confidence.values:
        raise Invalid("Confidence is high, medium or low.")
    if answer.failure_type and answer.failure_type not in review.queue.failure_types:
        raise Invalid(f"Unknown failure type. Use one of {', '.join(review.queue.failure_types)}.")
    if answer.failure_type and answer.decision == VerdictDecision.ACCEPT:
        raise Invalid("An accepted episode has no failure type.")
    # 1 and 0 of JSON equal true and false
    unfit = [name for name, met in answer.rubric.items() if name not in review.queue.rubric or met not in (True, False)]
    if unfit:
        raise Invalid(f"The rubric of this queue has no {unfit[0][:120]}, or its answer is not true or false.")
    if len(answer.note) > NOTE_MAX:
        raise Invalid("A note can have at most 20,000 characters.")


def _stored(
    actor: Actor, review: Review, slot: ReviewSlot | None, answer: Wanted, before: Verdict | None = None
) -> Verdict:
    """Return the verdict as a row. It was blind if the outcome was withheld until now, and never opened before."""
    by = annotating.author(actor, review.episode)
    # a person cannot sign as a model
    if answer.model and not actor.by_hand:
        by |= {"author": answer.model[:160], "author_kind": "model"}
    # the hold still exists at this point; `_close` ends it
    held = OutcomeHold.objects.filter(actor_key=actor.key, episode=review.episode, by=review.pk).exists()
    is_blind = held and not withholding.opened_before(actor.key, review)
    began = slot.claimed_at if slot is not None else None
    return Verdict.objects.create(
        review=review,
        episode=review.episode,
        decision=answer.decision,
        failure_type=answer.failure_type,
        rubric=answer.rubric,
        confidence=answer.confidence,
        note=answer.note,
        nonce=answer.nonce,
        is_blind=is_blind,
        # a change has no slot either, yet counts
        is_late=slot is None and before is None,
        # a third reviewer who changes their verdict is still the third
        adjudicates=before.adjudicates if before is not None else _adjudicates(review, slot),
        supersedes=before,
        took_s=(timezone.now() - began).total_seconds() if began else None,
        **by,
    )


def _adjudicates(review: Review, slot: ReviewSlot | None) -> bool:
    # slots beyond the required ones are made for a third reviewer only
    return slot is not None and not slot.is_gold and slot.number > review.required


def _close(actor: Actor, review: Review, slot: ReviewSlot) -> None:
    """Close the slot and open the outcome to this reviewer; update ranks and slots by the verdicts."""
    done = {"state": SlotState.SUBMITTED, "lease_token": "", "lease_until": None, "submitted_at": timezone.now()}
    ReviewSlot.objects.filter(pk=slot.pk).update(**done)
    withholding.open_to(actor.key, review)
    # gold has a known answer, so no third reviewer settles it
    if review.gold:
        return
    _rank(review)
    states = list(ReviewSlot.objects.filter(review=review).values_list("state", flat=True))
    # a verdict that is still to come could decide it
    if set(states) & set(slots.OPEN):
        return
    # one reviewer cannot differ from themselves; beyond the required slots, a third one was called already
    if 1 < len(states) == review.required and len(set(counted(review))) > 1:
        # one above the review's worth, so that the disputed one goes ahead of others of its rank
        ReviewSlot.objects.create(review=review, queue=review.queue, number=len(states) + 1, worth=review.worth + 1)
    else:
        withholding.open_to_everyone(Review.objects.filter(pk=review.pk))


def _rank(review: Review) -> None:
    """Update the worth of a review by the verdicts on its episode."""
    # a changed rank would pull the disputed ones of a sample ahead
    if review.gold or review.in_sample:
        return
    value, reason = worth.of_episodes([review.episode])[review.episode_id]
    # a person's verdict changes no rank, so most calls write nothing
    if (value, reason) != (review.worth, review.reason):
        Review.objects.filter(pk=review.pk).update(worth=value, reason=reason)
        ReviewSlot.objects.filter(review=review).update(worth=value)


def counted(review: Review) -> list[str]:
    """Return the decisions that count, oldest first."""
    rows = Verdict.objects.counted().filter(review=review)
    return list(rows.order_by("created_at", "pk").values_list("decision", flat=True))


@dataclass(frozen=True)
class Revealed:
    """The information that opens after the verdict: the outcome, the other verdicts, and whether the reviewer's differs
    from the verifier. `is_withheld` if another blind queue waits for this actor's verdict on the same episode. `first`
    is the reviewer's verdict before they changed it."""

    mine: Verdict
    outcome: Any
    is_withheld: bool
    others: list[Verdict]
    differs: bool
    explanation: str
    first: Verdict | None

    @property
    def met(self) -> list[str]:
        """What this reviewer's verdict says is met of the rubric."""
        return [name for name, is_met in self.mine.rubric.items() if is_met]


def reveal(actor: Actor, review_id: str) -> Revealed:
    """Return the outcome and the other verdicts. Raises `NotBeforeVerdict` before the actor's own verdict."""
    may_see_reviews(actor)
    review = visible_or_404(Review.objects.select_related("episode"), actor, review_id, "queue__project")
    rows = Verdict.objects.filter(review=review, is_late=False).select_related("disagreement")
    verdicts = list(rows.order_by("created_at", "pk"))
    own = [one for one in verdicts if actor.owns(one.author_key)]
    # only the newest of each other judge is shown
    superseded = {one.supersedes_id for one in verdicts}
    if not own:
        raise NotBeforeVerdict
    # rows are by age, so the last is the current one
    mine = own[-1]
    outcome = visibility.of_episode(actor, review.episode)
    # a missing outcome and a withheld one look alike here, and only the second hides the others
    is_withheld = outcome is None and visibility.is_withheld(actor, review.episode)
    return Revealed(
        mine=mine,
        outcome=outcome,
        is_withheld=is_withheld,
        others=[] if is_withheld else [one for one in verdicts if one not in own and one.pk not in superseded],
        # an outcome without a corresponding verdict, such as an error of the judge, differs from none
        differs=outcome is not None and worth.SAYS.get(outcome.reward_type, mine.decision) != mine.decision,
        explanation=mine.disagreement.explanation if hasattr(mine, "disagreement") else "",
        first=own[0] if len(own) > 1 else None,
    )


@transaction.atomic
def explain(actor: Actor, verdict_id: str, explanation: str) -> Disagreement:
    """Record why one's verdict differs from the verifier. All answers but "I was wrong" open a case in the court."""
    may_review(actor)
    if explanation not in Explanation.values:
        raise Invalid(f"Use one of {', '.join(Explanation.values)}.")
    verdict = visible_or_404(Verdict.objects.select_related("review", "episode"), actor, verdict_id, "episode__project")
    if not actor.owns(verdict.author_key):
        raise NotYourAnnotation
    if not reveal(actor, verdict.review_id).differs:
        raise Invalid("This verdict agrees with the verifier.")
    # one explanation for each verdict, the first; a repeat of it is no error
    disagreement, made = Disagreement.objects.get_or_create(verdict=verdict, defaults={"explanation": explanation})
    if not made and disagreement.explanation != explanation:
        raise Invalid("You already answered this.")
    if made and explanation != Explanation.I_WAS_WRONG:
        court.doubt(verdict.episode)
    return disagreement
