"""Writes: a reviewer's answer on a pair, and its undo.

An answer ends the claim. The outcomes of a pair open to its reviewer with their next answer, and with the last one that
the queue has for them: until then, an undo leaves them blind. Leaves claims to `assigning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from episodes.models import OutcomeHold, Privilege
from people.access import Actor, may_review, visible_or_404
from people.errors import Invalid
from people.record import leasing
from people.slots import SlotState
from reviews.errors import AlreadyReviewed, OutcomesOpen, ReviewClosed, ReviewLeaseLost
from reviews.models import Preference, Review, ReviewQueue, ReviewSlot
from reviews.record import annotating, assigning, withholding
from reviews.record.assigning import ReviewClaim
from reviews.visible.pairs import LETTERS, OVERALL, as_stored, is_swapped, questions_of


def prefer(
    actor: Actor, review_id: str, lease_token: str, answers: Mapping[str, str], *, nonce: str = "", model: str = ""
) -> Preference:
    """Store an answer on a pair, by question as its reviewer sees A and B: 1. return the first answer for a repeated
    nonce, 2. without the lease store it as late and raise, 3. else end the claim and open earlier pairs."""
    may_review(actor)
    refusal: ReviewLeaseLost | ReviewClosed | None = None
    with transaction.atomic():
        review = _locked(actor, review_id)
        swapped = is_swapped(actor, review)
        stored = _fitting(review, answers, swapped)
        mine = Preference.objects.filter(review=review, author_key=actor.key, withdrawn=False, superseded_by=None)
        before = mine.order_by("is_late", "-created_at").first()
        is_repeat = before is not None and nonce and before.nonce == nonce and _answers_of(before) == stored
        if before is not None and is_repeat and not before.is_late:
            return before
        if before is not None and not before.is_late:
            raise AlreadyReviewed
        slot = leasing.held_with(ReviewSlot.objects.filter(review=review, holder=actor.key), lease_token).first()
        if slot is None:
            refusal = ReviewClosed() if review.queue.closed_at is not None else ReviewLeaseLost()
        # the same late answer is stored once
        if refusal is None or before is None or before.nonce != nonce:
            answer = _stored(actor, review, slot, stored, swapped, nonce, model)
        if slot is not None:
            _close(actor, review, slot)
    # after the commit, so that the late answer stays stored
    if refusal is not None:
        raise refusal
    return answer


def _locked(actor: Actor, review_id: str) -> Review:
    rows = Review.objects.select_related("queue", "episode", "other").select_for_update(of=("self",), no_key=True)
    review = visible_or_404(rows, actor, review_id, "queue__project")
    if review.other is None:
        raise Invalid("This review is of one episode. Give a verdict.")
    return review


def _fitting(review: Review, answers: Mapping[str, str], swapped: bool) -> dict[str, str]:
    """Return the answers by the order of the row. Raises `Invalid`, which names what does not fit."""
    unknown = [one for one in answers if one not in questions_of(review.queue.rubric)]
    if unknown:
        raise Invalid(f"This queue has no question {unknown[0][:120]}.")
    if missing := [one for one in questions_of(review.queue.rubric) if not answers.get(one)]:
        raise Invalid(f"Answer {'this question' if len(missing) == 1 else 'these questions'}: {' · '.join(missing)}")
    stored = {question: as_stored(letter, swapped) for question, letter in answers.items()}
    if not all(stored.values()):
        raise Invalid(f"An answer is one of {', '.join(LETTERS)}.")
    return stored


def _answers_of(answer: Preference) -> dict[str, str]:
    """Return a stored answer by question, the first one with the others."""
    return {OVERALL: answer.choice, **answer.answers}


def _stored(
    actor: Actor,
    review: Review,
    slot: ReviewSlot | None,
    answers: Mapping[str, str],
    swapped: bool,
    nonce: str,
    model: str,
) -> Preference:
    assert review.other is not None
    by = annotating.author(actor, review.episode)
    # who saw the verifier of either has seen one
    privileges = {annotating.author(actor, one)["privilege"] for one in (review.episode, review.other)}
    by["privilege"] = next((one for one in privileges if one != Privilege.BLIND), Privilege.BLIND)
    # a person cannot sign as a model
    if model and not actor.by_hand:
        by |= {"author": model[:160], "author_kind": "model"}
    held = OutcomeHold.objects.filter(actor_key=actor.key, by=review.pk, episode__in=review.episode_ids)
    mine = Preference.objects.filter(review=review, author_key=actor.key, withdrawn=True, superseded_by=None)
    began = slot.claimed_at if slot is not None else None
    return Preference.objects.create(
        review=review,
        choice=answers[OVERALL],
        answers={question: choice for question, choice in answers.items() if question != OVERALL},
        is_swapped=swapped,
        is_blind=held.count() == len(review.episode_ids) and not withholding.opened_before(actor.key, review),
        is_late=slot is None,
        supersedes=mine.first() if slot is not None else None,
        nonce=nonce,
        took_s=(timezone.now() - began).total_seconds() if began else None,
        **by,
    )


def _close(actor: Actor, review: Review, slot: ReviewSlot) -> None:
    done = {"state": SlotState.SUBMITTED, "lease_token": "", "lease_until": None, "submitted_at": timezone.now()}
    ReviewSlot.objects.filter(pk=slot.pk).update(**done)
    # nothing follows that could open the last one
    is_last = not assigning.open_to(actor, review.queue, 1)
    withholding.open_answered_to(actor.key, review.queue, None if is_last else review)


@transaction.atomic
def undo(actor: Actor, queue_id: str, answer_id: str = "") -> ReviewClaim:
    """Undo the newest answer of this person in a queue, and claim its pair again. With `answer_id` no other one: a
    repeated undo returns the same claim. Raises `OutcomesOpen` once its outcomes are open: another answer would not be
    blind."""
    may_review(actor)
    queue = visible_or_404(ReviewQueue.objects.filter(closed_at=None), actor, queue_id)
    answer = newest_of(actor, queue)
    named = answer if answer is None or answer_id in ("", answer.pk) else _undone(actor, queue, answer_id)
    if named is None:
        raise Invalid("You have no answer here to undo.")
    # as an answer does, so that the second of two concurrent undos waits, and looks again
    Review.objects.select_for_update(no_key=True).get(pk=named.review_id)
    if (answer := newest_of(actor, queue)) != named:
        return _claimed(actor, named)
    if queue.is_blind and not OutcomeHold.objects.filter(actor_key=actor.key, by=named.review_id).exists():
        raise OutcomesOpen
    same = ("author", "author_key", "author_kind", "privilege", "choice", "is_swapped", "is_blind")
    again = {name: getattr(named, name) for name in same}
    Preference.objects.create(review=named.review, supersedes=named, withdrawn=True, **again)
    slot = ReviewSlot.objects.get(review=named.review, holder=actor.key)
    now = timezone.now()
    until = now + timedelta(seconds=queue.lease_s)
    ReviewSlot.objects.filter(pk=slot.pk).update(state=SlotState.CLAIMED, submitted_at=None)
    taken = leasing.claim(ReviewSlot.objects.filter(pk=slot.pk), actor, now, until)
    assert taken is not None, "a slot of one's own is claimed again"
    return ReviewClaim(named.review_id, slot.pk, str(taken["lease_token"]), until)


def newest_of(actor: Actor, queue: ReviewQueue) -> Preference | None:
    """Return the newest answer of a person in a queue: the one that an undo takes back."""
    rows = Preference.objects.counted().filter(review__queue=queue, author_key=actor.key).select_related("review")
    return rows.order_by("-created_at", "-pk").first()


def _undone(actor: Actor, queue: ReviewQueue, answer_id: str) -> Preference | None:
    rows = Preference.objects.filter(review__queue=queue, author_key=actor.key, superseded_by__withdrawn=True)
    return rows.filter(pk=answer_id).first()


def _claimed(actor: Actor, answer: Preference) -> ReviewClaim:
    """Return the claim of a pair whose answer was undone a moment ago. Raises `Invalid` if it is over."""
    slot = ReviewSlot.objects.filter(review=answer.review_id, holder=actor.key, state=SlotState.CLAIMED).first()
    if slot is None or slot.lease_until is None:
        raise Invalid("This answer was undone before.")
    return ReviewClaim(answer.review_id, slot.pk, slot.lease_token, slot.lease_until)
