"""Writes: review queues, their contents, and their claims: create, fill, pull, claim, renew, release, decline.

Owns the slots of reviews. Leaves verdicts to `deciding.py`, and the withheld outcomes of blind reviews to
`withholding.py`. A release or an expired lease opens no outcome, because the reviewer could read it and claim again.
People, programs and models claim through the same functions. Nothing is reserved before a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from episodes.models import Episode
from episodes.stored import settled
from people.access import Actor, may_review, may_set_reviews, scoped, visible_or_404
from people.errors import AppError, Invalid
from people.record import leasing
from people.record.audit import record
from people.slots import FREED, OPEN, SlotState, is_free
from people.text.plain_text import storable
from reviews.errors import (
    AlreadyReviewed,
    Declined,
    NothingToReview,
    NotSettled,
    ReviewClaimed,
    ReviewClosed,
    ReviewLeaseLost,
)
from reviews.models import (
    LEASE_S,
    Preference,
    QueueKind,
    QueueRule,
    Review,
    ReviewDecline,
    ReviewQueue,
    ReviewSlot,
    Verdict,
    VerdictDecision,
)
from reviews.record import pairing, schemas, withholding
from reviews.statistics import worth
from reviews.statistics.reports import known_to
from reviews.visible.pairs import draw

FILL_MAX = 5_000
INSTRUCTIONS_MAX, INSTRUCTED = 10_000, 12_000
"""Characters of instructions, and of their line in the audit trail."""
# defaults of a queue; each can replace them by its own
FAILURE_TYPES = ["wrong_goal", "wrong_argument", "missed_step", "extra_change", "gave_up", "no_help_asked"]


@dataclass(frozen=True)
class ReviewClaim:
    """An active lease: send its `lease_token` with every command on the review."""

    review_id: str
    slot_id: str
    lease_token: str
    lease_until: datetime


def create_queue(
    actor: Actor,
    name: str,
    *,
    reviews_required: int = 1,
    is_blind: bool = True,
    lease_s: int = LEASE_S,
    gold_share: float = 0.0,
    seed: int = 1,
    rubric: Sequence[str] = (),
    failure_types: Sequence[str] = tuple(FAILURE_TYPES),
    kind: str = QueueKind.VERDICT,
    instructions: str = "",
) -> ReviewQueue:
    """Create a queue; it pins the current label schemas. Pairs have no labels, failure types and gold items."""
    may_set_reviews(actor)
    if kind not in QueueKind.values:
        raise Invalid(f"Unknown kind of queue. Use one of {', '.join(QueueKind.values)}.")
    if kind == QueueKind.PAIRWISE and gold_share:
        raise Invalid("A queue of pairs has no gold items.")
    is_pairwise = kind == QueueKind.PAIRWISE
    name = name.strip()
    if not 1 <= len(name) <= 120:
        raise Invalid("A queue needs a name of 1 to 120 characters.")
    if not (1 <= reviews_required <= 20 and 60 <= lease_s <= 86_400 and 0 <= gold_share <= 0.5):
        raise Invalid("Use 1 to 20 reviews per episode, a lease of 60 to 86,400 s and a gold share from 0 to 0.5.")
    # the constraint of the database catches the race of two forms; this gives the readable refusal
    if scoped(ReviewQueue.objects.filter(name=name), actor.project).exists():
        raise Invalid(f"This project already has a queue named {name}.")
    queue = ReviewQueue.objects.create(
        project=actor.project,
        name=name,
        reviews_required=reviews_required,
        is_blind=is_blind,
        lease_s=lease_s,
        gold_share=gold_share,
        seed=seed,
        rubric=[one.strip()[:120] for one in rubric if one.strip()][:20],
        kind=kind,
        instructions=_instructions(instructions),
        failure_types=[] if is_pairwise else [one.strip()[:60] for one in failure_types if one.strip()][:30],
        # pinned by ID: a later version has other options, and two reviewers would answer different questions
        schemas=[] if is_pairwise else list(schemas.of_project(actor.project).values_list("pk", flat=True)),
        author=actor.name,
    )
    record(actor, "queue.created", queue.pk, f"{name}, {'blind' if is_blind else 'open'}")
    return queue


@transaction.atomic
def instruct(actor: Actor, queue_id: str, text: str) -> ReviewQueue:
    """Replace the instructions of a queue: Markdown, shown beside each review. The audit has a line with the text."""
    may_set_reviews(actor)
    queue = visible_or_404(ReviewQueue.objects.select_for_update(no_key=True), actor, queue_id)
    text = _instructions(text)
    if text != queue.instructions:
        queue.instructions = text
        queue.save(update_fields=["instructions"])
        record(actor, "queue.instructed", queue.pk, f"{queue.name}: {text}"[:INSTRUCTED])
    return queue


def _instructions(text: str) -> str:
    # PostgreSQL refuses U+0000 in a text
    text = text.replace("\r\n", "\n").replace("\x00", "").strip()
    if len(text) > INSTRUCTIONS_MAX:
        raise Invalid(f"Instructions can have at most {INSTRUCTIONS_MAX:,} characters, not {len(text):,}.")
    return text


def close_queue(actor: Actor, queue_id: str) -> None:
    """Close a queue: its slots become void and nothing is withheld for it any more."""
    may_set_reviews(actor)
    with transaction.atomic():
        # FOR UPDATE also waits for slots that are being added, because they refer to the queue
        queue = visible_or_404(ReviewQueue.objects.select_for_update(), actor, queue_id)
        queue.closed_at = queue.closed_at or timezone.now()
        queue.save(update_fields=["closed_at"])
        # given ones stay, for the figures
        ReviewSlot.objects.filter(queue=queue, state__in=OPEN).update(state=SlotState.VOID)
        # after the slots are void, so that no claim withholds them again
        withholding.open_to_everyone(queue.reviews.all())
        record(actor, "queue.closed", queue.pk, queue.name)


def fill(actor: Actor, queue_id: str, episodes: QuerySet[Episode], *, sample: int = 0, seed: int = 0) -> int:
    """Add episodes to a queue, ranked by the value of a review; with `sample`, only that many, drawn by the seed.

    Episodes that are already in it stay unchanged, so adding twice changes nothing. Those that can still change,
    still wait for their verifier, or never ran are left out. Return the number of added ones.

    """
    may_set_reviews(actor)
    if sample > FILL_MAX:
        raise Invalid(f"A sample can have at most {FILL_MAX:,} episodes, not {sample:,}.")
    queue = visible_or_404(ReviewQueue.objects.filter(closed_at__isnull=True), actor, queue_id)
    if queue.is_pairwise:
        pairs = pairing.rows_of(queue, scoped(episodes, actor.project), sample=sample, seed=seed)
        return add_pairs(actor, queue, pairs, f"sampled, seed {seed or queue.seed}" if sample else "chosen")
    mine = scoped(episodes, actor.project).exclude(reviews__queue=queue).exclude(worth.never_ran())
    # a sample draws among all, not among the newest
    if sample:
        ids = list(mine.values_list("pk", flat=True))
        # the lowest draws: another run with this seed and these episodes has the same sample
        chosen = sorted(ids, key=lambda pk: draw(seed or queue.seed, pk))[:sample]
    else:
        chosen = list(mine.order_by("-created_at", "-pk").values_list("pk", flat=True)[:FILL_MAX])
    # after the draw, so a sample can add fewer than it names
    reviewable = list(worth.reviewable().filter(pk__in=chosen))
    drawn = f"a sample of {sample:,}, seed {seed or queue.seed}" if sample else "chosen"
    return add(actor, queue, rows_of(queue, reviewable, in_sample=bool(sample)), drawn)


@transaction.atomic
def add(actor: Actor, queue: ReviewQueue, rows: Sequence[Review], drawn: str) -> int:
    """Add rows to an open queue, with their slots. Those that it has already stay as they are. Return the number of
    added ones."""
    _refuse_closed(queue)
    # another fill can add an episode after the caller read the queue
    made = Review.objects.bulk_create(rows, ignore_conflicts=True)
    # `bulk_create` returns ignored rows too, with IDs that are not stored
    kept = Review.objects.filter(pk__in=[one.pk for one in made]).select_related("queue", "rule")
    _add_slots(kept, queue)
    if queue.is_blind:
        withholding.from_everyone(kept)
    added = kept.count()
    if added:
        what = "pairs" if queue.is_pairwise else "episodes"
        record(actor, "queue.filled", queue.pk, f"{queue.name}: {added:,} {what}, {drawn}")
    return added


def add_pairs(actor: Actor, queue: ReviewQueue, pairs: pairing.DrawnPairs, drawn: str) -> int:
    """Add drawn pairs as `add` does, and keep how many this fill left out. Return the number of added ones."""
    # without new rows, neither a lock nor a line in the audit
    added = add(actor, queue, pairs.rows, drawn) if pairs.rows else 0
    ReviewQueue.objects.filter(pk=queue.pk).exclude(alike=pairs.alike).update(alike=pairs.alike)
    return added


def _refuse_closed(queue: ReviewQueue) -> None:
    """Raise if the queue was closed meanwhile, and lock it against closing in this transaction: outcomes that are
    withheld for it afterward would stay withheld."""
    if queue.is_blind:
        # before the queue, as a new label does: its project is locked anyway when outcomes are withheld
        withholding.locked(queue.project_id)
    # NO KEY, so that slots, which refer to the queue, can be added meanwhile
    if not ReviewQueue.objects.select_for_update(no_key=True).filter(pk=queue.pk, closed_at=None).exists():
        raise ReviewClosed("This queue is closed.")


def rows_of(
    queue: ReviewQueue, episodes: Sequence[Episode], *, in_sample: bool = False, rule: QueueRule | None = None
) -> list[Review]:
    """Return rows of single episodes. Sampled ones get a random rank: ranked by worth, the whole sample would come last
    or first."""
    # before the lock of a fill: it reads the outcomes and verdicts of up to 5,000 episodes
    ranked = worth.of_episodes(episodes)
    # from 0 to 3, the range of worth
    places = {one.pk: 3 * draw(queue.seed, f"place/{one.pk}") if in_sample else ranked[one.pk][0] for one in episodes}
    about: dict[str, Any] = {"queue": queue, "in_sample": in_sample, "rule": rule}
    return [Review(episode=one, worth=places[one.pk], reason=ranked[one.pk][1], **about) for one in episodes]


def _add_slots(reviews: Iterable[Review], queue: ReviewQueue) -> None:
    ReviewSlot.objects.bulk_create(
        [
            ReviewSlot(review=review, queue=queue, number=number, worth=review.worth)
            for review in reviews
            for number in range(1, review.required + 1)
        ]
    )


@transaction.atomic
def add_gold(actor: Actor, queue_id: str, episode_id: str, answer: str) -> Review:
    """Add an episode with a known answer to a queue. Each reviewer gets it once, in a slot of their own."""
    may_set_reviews(actor)
    if answer not in VerdictDecision.values:
        raise Invalid("A gold answer is accept or reject.")
    queue = visible_or_404(ReviewQueue.objects.filter(closed_at__isnull=True), actor, queue_id)
    if queue.is_pairwise:
        raise Invalid("A queue of pairs has no gold items.")
    episode = visible_or_404(Episode.every.all(), actor, episode_id)
    if not worth.is_settled(episode):
        raise NotSettled
    _refuse_closed(queue)
    # gold has no slots yet: each reviewer's is made when they claim it
    review, made = Review.objects.get_or_create(queue=queue, episode=episode, defaults={"gold": answer})
    if not made and review.gold != answer:
        raise Invalid("This episode is already in the queue.")
    if made:
        record(actor, "gold.added", episode.pk, f"{queue.name}: {answer}")
    if made and queue.is_blind:
        withholding.from_everyone([review])
    return review


def pull(actor: Actor, queue_id: str, first: str = "") -> ReviewClaim:
    """Claim the review that the actor already holds, or else the one of this queue that they were shown (`first`), or
    else the next one that is open to them."""
    may_review(actor)
    queue = visible_or_404(ReviewQueue.objects.all(), actor, queue_id)
    if first and not _held(actor, queue):
        with suppress(AppError):  # if it cannot be claimed any more, the next one is
            return claim(actor, first, queue)
    for review_id in _in_turn(actor, queue):
        # someone else claimed it between the query and the update, or its episode continues
        with suppress(ReviewClaimed, NotSettled):
            return claim(actor, review_id)
    _open_last(actor, queue)
    raise NothingToReview


def _open_last(actor: Actor, queue: ReviewQueue) -> None:
    """Open the newest answered pair to an actor for whom a queue has nothing more: no next answer would."""
    if queue.is_pairwise and not open_to(actor, queue, 1):
        withholding.open_answered_to(actor.key, queue)


def _in_turn(actor: Actor, queue: ReviewQueue) -> Iterator[str]:
    """Yield the reviews that an actor holds, then those that they can claim."""
    yield from _held(actor, queue)
    yield from _candidates(actor, queue, timezone.now())


def _held(actor: Actor, queue: ReviewQueue) -> list[str]:
    """Return the reviews that an actor holds, the longest held first."""
    held = ReviewSlot.objects.filter(queue=queue, holder=actor.key, state=SlotState.CLAIMED).order_by("claimed_at")
    return list(held.values_list("review_id", flat=True))


@contextmanager
def as_if_given(actor: Actor, review_id: str) -> Iterator[str]:
    """Provide the review that an actor would get after this one, in a transaction that is rolled back. In it this
    review is given, and outcomes that a claim of the next one withholds are withheld. No row of others is locked."""
    review = _mine(actor, review_id)
    with transaction.atomic():
        try:
            held = ReviewSlot.objects.filter(review=review, holder=actor.key, state=SlotState.CLAIMED)
            held.update(state=SlotState.SUBMITTED)
            ahead = list(_in_turn(actor, review.queue))
            # the same filter as in `claim`, where an episode that continues is refused
            open_pair = Q(other=None) | Q(other__in=settled.settled())
            rows = Review.objects.filter(open_pair, episode__in=settled.settled()).in_bulk(ahead)
            following = next((rows[pk] for pk in ahead if pk in rows), None)
            if following is None:
                raise NothingToReview
            if review.queue.is_blind:
                withholding.from_one(actor, following)
            # the page is rendered here, inside the transaction
            yield following.pk
        finally:
            # also after an error in the page: the review was not given
            transaction.set_rollback(True)


def _candidates(actor: Actor, queue: ReviewQueue, now: datetime) -> list[str]:
    """Return reviews that this actor can claim, the highest worth first; at the gold share's rate a gold one comes
    first."""
    seen = known_to(actor, queue)
    # a review with several free slots counts once
    free = ReviewSlot.objects.filter(is_free(now), queue=queue, is_gold=False).exclude(review__in=seen)
    ranked = list(dict.fromkeys(free.order_by("-worth", "pk").values_list("review_id", flat=True)[:200]))
    if not queue.gold_share:
        return ranked
    gold = list(queue.reviews.exclude(gold="").exclude(pk__in=seen).order_by("pk").values_list("pk", flat=True)[:50])
    # the count of given ones is in the draw, so each next review has its own chance and a reload has the same one
    done = ReviewSlot.objects.filter(queue=queue, holder=actor.key, state=SlotState.SUBMITTED).count()
    if gold and draw(queue.seed, f"{actor.key}/{done}") < queue.gold_share:
        # each reviewer gets the gold items in an order of their own
        picked = min(gold, key=lambda pk: draw(queue.seed, f"{actor.key}/{pk}"))
        return [picked, *ranked]
    return ranked


def open_to(actor: Actor, queue: ReviewQueue, limit: int) -> list[tuple[Review, bool]]:
    """Return the reviews that an actor holds, then those that they can claim in turn; each with whether they hold
    it."""
    mine = _held(actor, queue)
    ids = [*mine, *(_candidates(actor, queue, timezone.now()) if queue.closed_at is None else [])][:limit]
    # rows come by ID, the order is that of `ids`
    rows = queue.reviews.select_related("episode", "other", "queue").in_bulk(ids)
    return [(rows[pk], pk in mine) for pk in ids]


@transaction.atomic
def claim(actor: Actor, review_id: str, queue: ReviewQueue | None = None) -> ReviewClaim:
    """Claim a review: 1. raise if the actor declined or reviewed it, or it is not in `queue`, 2. claim a free slot by
    one conditional update, 3. in a blind queue, withhold the outcome from the reviewer."""
    may_review(actor)
    rows = Review.objects.select_related("queue", "episode", "other")
    review = visible_or_404(rows.filter(queue=queue) if queue else rows, actor, review_id, "queue__project")
    # one moment for the check and for the new lease
    now = timezone.now()
    _refuse_unfit(actor, review)
    until = now + timedelta(seconds=review.queue.lease_s)
    slot = _slot_for(actor, review, now)
    # the condition is checked again by the update, because `slot` was read before it
    taken = leasing.claim(ReviewSlot.objects.filter(pk=slot.pk), actor, now, until) if slot is not None else None
    if slot is None or taken is None:
        raise ReviewClaimed
    if review.queue.is_blind:
        # in the transaction of the claim: no moment in which they hold it and see the outcome
        withholding.from_one(actor, review)
    return ReviewClaim(review.pk, slot.pk, str(taken["lease_token"]), until)


def why_not(actor: Actor, review: Review) -> str:
    """Return why an actor who does not hold this review cannot claim it now; empty if they can."""
    try:
        _refuse_unfit(actor, review)
    except AppError as refused:
        return refused.message
    slots = ReviewSlot.objects.filter(review=review)
    # gold has a new slot for each reviewer, so none has to be free
    if review.gold or slots.filter(is_free(timezone.now())).exists():
        return ""
    claimed = slots.filter(state=SlotState.CLAIMED).exists()
    return ReviewClaimed().message if claimed else "Others have given all reviews of this episode."


def _refuse_unfit(actor: Actor, review: Review) -> None:
    if review.queue.closed_at is not None:
        raise ReviewClosed("This queue is closed.")
    same = Q(author_key=actor.key)  # one person gives one verdict, on pages or by any token of their own
    if ReviewDecline.objects.filter(same, review=review).exists():
        raise Declined
    if Verdict.objects.filter(same, review=review, is_late=False).exists():
        raise AlreadyReviewed
    if review.other_id is not None and Preference.objects.counted().filter(same, review=review).exists():
        raise AlreadyReviewed
    if not all(worth.is_settled(one) for one in (review.episode, review.other) if one is not None):
        raise NotSettled


def _slot_for(actor: Actor, review: Review, now: datetime) -> ReviewSlot | None:
    """Return the actor's own slot, or a free one that no one else is claiming; for gold, a new one of their own."""
    Review.objects.select_for_update(no_key=True).get(pk=review.pk)  # two concurrent claims of one person become one
    slots = list(ReviewSlot.objects.filter(review=review).order_by("number"))
    # one's own claim again, in another tab or after a lost reply, gets the same slot
    mine = next((one for one in slots if actor.owns(one.holder) and one.state in OPEN), None)
    if mine is not None:
        return mine
    if review.gold:
        # under the lock of the review, so that two reviewers get different numbers
        return ReviewSlot.objects.create(review=review, queue=review.queue, number=len(slots) + 1, is_gold=True)
    return next((one for one in slots if one.state in OPEN and not one.is_held(now)), None)


def slot_of(actor: Actor, review: Review) -> ReviewSlot | None:
    """Return the slot that this actor holds or has submitted."""
    return ReviewSlot.objects.filter(review=review, holder=actor.key).first()


@transaction.atomic
def renew(actor: Actor, review_id: str, lease_token: str) -> ReviewClaim:
    """Extend the lease. An expired lease that no one else took can be renewed."""
    review = _mine(actor, review_id)
    until = timezone.now() + timedelta(seconds=review.queue.lease_s)
    slots = ReviewSlot.objects.filter(review=review, holder=actor.key)
    if not leasing.renew(slots, lease_token, until):
        raise _why_lost(actor, review)
    return ReviewClaim(review.pk, slots.values_list("pk", flat=True)[0], lease_token, until)


@transaction.atomic
def release(actor: Actor, review_id: str, lease_token: str) -> None:
    """Return the slot to the queue. Withheld outcomes stay withheld, because the reviewer can claim again."""
    review = _mine(actor, review_id)
    if not leasing.release(ReviewSlot.objects.filter(review=review, holder=actor.key), lease_token):
        raise _why_lost(actor, review)


@transaction.atomic
def decline(actor: Actor, review_id: str, reason: str = "", lease_token: str = "") -> None:
    """Decline an episode, claimed or not; others can still claim it. The outcome opens, because for the decliner the
    review is over."""
    review = _mine(actor, review_id)
    slots = ReviewSlot.objects.filter(review=review, holder=actor.key)
    if slots.filter(state=SlotState.SUBMITTED).exists():
        raise AlreadyReviewed
    # a review can be declined without a claim, and so without a token
    if lease_token and not leasing.held_with(slots, lease_token).exists():
        raise _why_lost(actor, review)
    slots.filter(state=SlotState.CLAIMED).update(**FREED)
    # PostgreSQL refuses U+0000 in a text
    fields = {"author": actor.name, "reason": storable(reason, 1000)}
    ReviewDecline.objects.get_or_create(review=review, author_key=actor.key, defaults=fields)
    withholding.open_to(actor.key, review)
    _open_last(actor, review.queue)


@transaction.atomic
def leave(actor: Actor, queue_id: str) -> int:
    """Decline all reviews of a queue that this person has not given, and open their outcomes. Return their number."""
    may_review(actor)
    queue = visible_or_404(ReviewQueue.objects.all(), actor, queue_id)
    submitted = ReviewSlot.objects.filter(holder=actor.key, state=SlotState.SUBMITTED).values("review")
    declined = ReviewDecline.objects.filter(author_key=actor.key).values("review")
    left = list(queue.reviews.exclude(pk__in=submitted).exclude(pk__in=declined))
    ReviewSlot.objects.filter(review__in=left, holder=actor.key, state=SlotState.CLAIMED).update(**FREED)
    fields = {"author_key": actor.key, "author": actor.name, "reason": "left the queue"}
    # a decline in another tab at the same moment is the same decline
    ReviewDecline.objects.bulk_create((ReviewDecline(review=one, **fields) for one in left), ignore_conflicts=True)
    withholding.open_all_to(actor.key, queue)
    return len(left)


def _mine(actor: Actor, review_id: str) -> Review:
    may_review(actor)
    return visible_or_404(Review.objects.select_related("queue"), actor, review_id, "queue__project")


def _why_lost(actor: Actor, review: Review) -> ReviewLeaseLost | ReviewClosed:
    if review.queue.closed_at is not None:
        return ReviewClosed("This queue is closed.")
    slot = slot_of(actor, review)
    # no lost lease: the verdict was sent, for example in a second tab
    if slot is not None and slot.state == SlotState.SUBMITTED:
        return ReviewClosed("You already gave this review.")
    return ReviewLeaseLost("Your claim expired and someone else took over.")


def release_all_of(leaving: Actor) -> None:
    """Release the claims of a removed person. Registered with `members.on_leave`."""
    held = ReviewSlot.objects.filter(queue__project=leaving.project, holder=leaving.key, state=SlotState.CLAIMED)
    held.update(**FREED)
