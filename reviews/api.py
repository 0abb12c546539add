"""The JSON API of reviews: one thin function per call. People, programs and models use the same calls."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Status
from pydantic import BeforeValidator, Field

from awmclient.nouns.fields import MAX_INT, Line, Object, Shape, clean_text
from awmclient.schema import Claimed, Done, LeaseBody
from people.access import Actor, is_id, may_see_reviews, scoped, visible_or_404
from people.errors import NotFound
from people.http import REFUSALS, actor_of, answer_of
from reviews.models import LabelSchema, Review, ReviewQueue, Verdict
from reviews.record import annotating, assigning, correcting, deciding, preferring, rules
from reviews.record.assigning import ReviewClaim
from reviews.record.correcting import UNVERIFIED, Better
from reviews.record.deciding import Wanted
from reviews.visible.pairs import OVERALL, letter_of, sides
from reviews.visible.places import Place

router = Router(tags=["reviews"])
LISTED = 200
Short = Annotated[str, Field(max_length=200), BeforeValidator(clean_text)]
Words = Annotated[str, Field(max_length=20_000)]
Whole = Annotated[int, Field(le=MAX_INT)]
"""A number that a column holds; what it has to name is checked where it is read."""


class ReviewView(Shape):
    """A review that the caller can claim or holds, without outcome, rank or other reviewers. Of a pair, `episode` is A
    and `other` is B for this caller."""

    id: str
    queue: str
    episode: str
    other: str | None = None
    task: str
    held: bool


class ReviewList(Shape):
    reviews: list[ReviewView]


class RuleBody(Shape):
    """Filters as those of the page *Episodes*, the share of the matching episodes, and reviews of each."""

    filter: dict[str, str | list[str]] = Field(default_factory=dict)
    share: float
    annotators: Whole | None = None


class RuleView(Shape):
    id: str
    queue: str
    number: int
    filter: Object
    share: float
    annotators: int


class VerdictBody(Shape):
    lease_token: Line
    verdict: Line
    failure_type: Short = ""
    rubric: dict[str, bool] = Field(default_factory=dict)
    confidence: Short = ""
    note: Words = ""
    nonce: Short = ""
    model: Short = ""


class OtherVerdict(Shape):
    author: str
    kind: str
    verdict: str
    failure_type: str
    note: str


class VerdictView(Shape):
    """The caller's verdict with the outcome and the other verdicts."""

    id: str
    verdict: str
    blind: bool
    outcome: str | None
    reward: float | None
    differs: bool
    others: list[OtherVerdict]


class PreferenceBody(Shape):
    """`choice` on the whole and `answers` by question of the rubric: a, b, equal or neither."""

    lease_token: Line
    choice: Line
    answers: dict[str, Line] = Field(default_factory=dict)
    nonce: Short = ""
    model: Short = ""


class PreferenceView(Shape):
    id: str
    choice: str
    blind: bool


class ExplanationBody(Shape):
    explanation: Line


class AnnotationBody(Shape):
    """A label with the schema and version that the caller saw, or without them a comment or tag. `path`, `start` and
    `end` select characters of a text in the step, `quote` is the text that the caller read there."""

    label: Line
    value: Any = ""
    seq: Whole | None = None
    path: Annotated[str, Field(max_length=500)] = ""
    start: Whole | None = None
    end: Whole | None = None
    quote: Annotated[str, Field(max_length=100_000)] | None = None
    version: Whole | None = None
    review: Short = ""


class AnnotationView(Shape):
    id: str
    label: str
    value: Any
    seq: int | None
    path: str
    start: int | None
    end: int | None
    version: int | None
    withdrawn: bool
    created_at: datetime


class CorrectionBody(Shape):
    seq: Whole
    kind: Line
    name: Annotated[str, Field(max_length=200)] = ""
    arguments: Object = Field(default_factory=dict)
    text: Words = ""
    why: Words = ""


class CorrectionView(Shape):
    id: str
    seq: int
    kind: str
    state: str


def _claimed(lease: ReviewClaim) -> Claimed:
    return answer_of(Claimed, lease, assignment=lease.slot_id)


@router.get("/reviews", response={200: ReviewList, **REFUSALS})
def list_reviews(request: HttpRequest, queue: str) -> ReviewList:
    """List the reviews of a queue (by id or name) that the caller can claim or has, in the queue's order."""
    actor = actor_of(request)
    may_see_reviews(actor)
    # PostgreSQL answers U+0000 with an error; an ID wins over a queue with that name
    rows = scoped(ReviewQueue.objects.all(), actor.project) if is_id(queue) else ReviewQueue.objects.none()
    match = rows.filter(pk=queue).first() or rows.filter(name=queue).first()
    if match is None:
        raise NotFound
    return ReviewList(reviews=[_view(actor, one, held) for one, held in assigning.open_to(actor, match, LISTED)])


def _view(actor: Actor, review: Review, held: bool) -> ReviewView:
    first, other = sides(actor, review) if review.other_id is not None else (review.episode, None)
    return ReviewView(
        id=review.pk,
        queue=review.queue_id,
        episode=first.pk,
        other=other.pk if other is not None else None,
        task=first.task,
        held=held,
    )


@router.post("/queues/{queue_id}/rule", response={200: RuleView, **REFUSALS})
def rule(request: HttpRequest, queue_id: str, payload: RuleBody) -> RuleView:
    """Let a review queue fill itself with a share of the finished episodes that match; the rule before ends."""
    filters = {name: [one] if isinstance(one, str) else one for name, one in payload.filter.items()}
    made = rules.set_rule(actor_of(request), queue_id, filters, payload.share, payload.annotators)
    return answer_of(RuleView, made, queue=made.queue_id)


@router.post("/reviews/{review_id}/claim", response={200: Claimed, **REFUSALS})
def claim(request: HttpRequest, review_id: str) -> Claimed:
    return _claimed(assigning.claim(actor_of(request), review_id))


@router.post("/reviews/{review_id}/renew", response={200: Claimed, **REFUSALS})
def renew(request: HttpRequest, review_id: str, payload: LeaseBody) -> Claimed:
    return _claimed(assigning.renew(actor_of(request), review_id, payload.lease_token))


@router.post("/reviews/{review_id}/release", response={200: Done, **REFUSALS})
def release(request: HttpRequest, review_id: str, payload: LeaseBody) -> Done:
    assigning.release(actor_of(request), review_id, payload.lease_token)
    return Done()


@router.post("/reviews/{review_id}/decline", response={200: Done, **REFUSALS})
def decline(request: HttpRequest, review_id: str, payload: LeaseBody) -> Done:
    assigning.decline(actor_of(request), review_id, payload.reason or "", payload.lease_token)
    return Done()


@router.post("/reviews/{review_id}/verdict", response={200: VerdictView, **REFUSALS})
def verdict(request: HttpRequest, review_id: str, payload: VerdictBody) -> VerdictView:
    """Give the verdict of a claimed review; a program names the `model` whose judgment it submits."""
    actor = actor_of(request)
    fields = payload.model_dump(exclude={"lease_token", "verdict"})
    deciding.decide(actor, review_id, payload.lease_token, Wanted(payload.verdict, **fields))
    shown = deciding.reveal(actor, review_id)
    return VerdictView(
        id=shown.mine.pk,
        verdict=shown.mine.decision,
        blind=shown.mine.is_blind,
        outcome=shown.outcome.reward_type if shown.outcome else None,
        reward=shown.outcome.reward if shown.outcome else None,
        differs=shown.differs,
        others=[_other(one) for one in shown.others],
    )


def _other(row: Verdict) -> OtherVerdict:
    return OtherVerdict(
        author=row.author, kind=row.author_kind, verdict=row.decision, failure_type=row.failure_type, note=row.note
    )


@router.post("/reviews/{review_id}/preference", response={200: PreferenceView, **REFUSALS})
def preference(request: HttpRequest, review_id: str, payload: PreferenceBody) -> PreferenceView:
    """Say which episode of a claimed pair is better: a, b, equal or neither; the same for questions of the rubric."""
    answers = {OVERALL: payload.choice, **payload.answers}
    more = {"nonce": payload.nonce, "model": payload.model}
    row = preferring.prefer(actor_of(request), review_id, payload.lease_token, answers, **more)
    return PreferenceView(id=row.pk, choice=letter_of(row.choice, row.is_swapped), blind=row.is_blind)


@router.post("/reviews/{review_id}/explanation", response={200: Done, **REFUSALS})
def explanation(request: HttpRequest, review_id: str, payload: ExplanationBody) -> Done:
    """Say why the verdict differs from the verifier: verifier_wrong, i_was_wrong or task_ambiguous."""
    actor = actor_of(request)
    deciding.explain(actor, deciding.reveal(actor, review_id).mine.pk, payload.explanation)
    return Done()


@router.post("/episodes/{episode_id}/annotations", response={201: AnnotationView, **REFUSALS})
def annotate(request: HttpRequest, episode_id: str, payload: AnnotationBody) -> Status[AnnotationView]:
    actor = actor_of(request)
    episode = annotating.visible_episode(actor, episode_id)
    versions = LabelSchema.objects.filter(project=actor.project, name=payload.label)
    candidates = versions if payload.version is None else versions.filter(version=payload.version)
    schema = candidates.order_by("-version").first()  # a name without a schema is the sender's own label
    if schema is None and payload.version is not None:
        raise NotFound("This project has no such label in this version.")
    # a label of a review's queue is checked against the version that the queue pins, even after it ended
    pinned = None
    if payload.review:
        rows = Review.objects.select_related("queue").filter(episode=episode)
        pinned = visible_or_404(rows, actor, payload.review, "queue__project").queue
    where = Place(payload.seq, payload.path, payload.start, payload.end)
    annotation = annotating.annotate(
        actor, episode, where, payload.label, payload.value, schema=schema, queue=pinned, quote=payload.quote
    )
    return Status(
        201, answer_of(AnnotationView, annotation, value=annotation.text, version=schema.version if schema else None)
    )


@router.post("/annotations/{annotation_id}/undo", response={200: Done, **REFUSALS})
def undo(request: HttpRequest, annotation_id: str) -> Done:
    """Withdraw one's own annotation by a row that supersedes it."""
    annotating.undo(actor_of(request), annotation_id)
    return Done()


@router.post("/episodes/{episode_id}/corrections", response={201: CorrectionView, **REFUSALS})
def correct(request: HttpRequest, episode_id: str, payload: CorrectionBody) -> Status[CorrectionView]:
    """Say what the agent should have done: call, message, ask or no_ask. A call must fit its tool's schema."""
    actor = actor_of(request)
    better = Better(**payload.model_dump(exclude={"seq"}))
    correction = correcting.correct(actor, annotating.visible_episode(actor, episode_id), payload.seq, better)
    return Status(201, answer_of(CorrectionView, correction, state=UNVERIFIED))


@router.post("/corrections/{correction_id}/undo", response={200: Done, **REFUSALS})
def undo_correction(request: HttpRequest, correction_id: str) -> Done:
    """Withdraw one's own correction by a row that supersedes it."""
    correcting.withdraw(actor_of(request), correction_id)
    return Done()
