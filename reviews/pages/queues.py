"""Pages about review queues: the list, one queue, filling it and its gold items, label definitions, agreement.

Owns HTTP status, redirects and form texts, as `pages` does for one review. Every write is a function of a writes
module; every figure comes from `reports.py`. A refused form shows its reason above the same page, with the input.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Count, F
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from episodes.find.facets import ListQuery
from episodes.find.narrowing import matching
from episodes.models import SavedView
from episodes.record.saved_views import EPISODE_VIEWS
from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_review,
    may_see_reviews,
    may_set_reviews,
    member_required,
    scoped,
    visible_or_404,
)
from people.errors import AppError, Invalid, NotFound
from people.requests.forms import FormFields, Ticked, read, text_of, whole
from people.text.in_words import count
from people.text.plain_text import clean
from reviews.models import LabelSchema, QueueKind, ReviewQueue, SchemaKind, Verdict
from reviews.pages.adding import fill, selection_of
from reviews.record import assigning, mentions, rules, schemas
from reviews.statistics import filling, reports
from reviews.statistics.agreement import FEW_TASKS, FEWEST, RARE
from reviews.visible import rulings
from reviews.visible.own import OPEN, OwnReview, own_reviews

QUEUES = 100
OWN, AHEAD = 200, 50
OPEN_FIRST = (F("closed_at").asc(nulls_first=True), "-created_at")
queue_of = member_required(may_see_reviews, rows=ReviewQueue.objects.all)


class QueueForm(FormFields):
    """A new queue of reviews."""

    name: str = ""
    reviews_required: Annotated[int, whole()] = 1
    is_blind: Ticked = False
    gold_percent: Annotated[int, whole()] = 0
    rubric: str = ""
    kind: str = QueueKind.VERDICT


@require_http_methods(["GET", "POST"])
@member_required(may_see_reviews)
def reviews(request: MemberRequest) -> HttpResponse:
    """Show the queues, and create one."""
    actor, problem = request.actor, ""
    if request.method == "POST":
        try:
            form = read(request.POST, QueueForm)
            # a queue whose first episodes are refused is not created
            with transaction.atomic():
                made = assigning.create_queue(
                    actor,
                    form.name,
                    reviews_required=form.reviews_required,
                    is_blind=form.is_blind,
                    # whole percent in the form, a share from 0 to 0.5 in the row
                    gold_share=form.gold_percent / 100,
                    rubric=form.rubric.splitlines(),
                    kind=form.kind,
                )
                if (chosen := selection_of(request)).fields:
                    messages.success(request, fill(request, made.pk, chosen))
            return redirect("review_queue", made.pk)
        except AppError as refused:
            problem = refused.message
    return _queues_page(request, problem, 422 if problem else 200, given=request.POST)


def _queues_page(request: MemberRequest, problem: str, status: int, **given: Any) -> HttpResponse:
    """Show the queues; a refused form keeps its input: `given` of a new queue, `label_given` of a label."""
    actor = request.actor
    queues = list(scoped(ReviewQueue.objects.all(), actor.project).order_by(*OPEN_FIRST)[:QUEUES])
    progress = reports.progress_of(actor, queues)
    mine = {one.queue.pk: one.held + one.free for one in reports.waiting_for(actor, timezone.now())}
    rows = [(queue, progress[queue.pk], mine.get(queue.pk, 0)) for queue in queues]
    to_do = sum(one.total - one.done for queue, one, _ in rows if queue.closed_at is None)
    cases = rulings.open_cases(actor).count()
    may_set = holds(actor, may_set_reviews)
    context = {
        "headline": _headline(len(rows), to_do, cases, sum(mine.values()) if holds(actor, may_review) else None),
        "rows": rows,
        "cases": cases,
        "unread": mentions.unread(actor),
        "labels": schemas.of_project(actor.project),
        "kinds": SchemaKind.choices,
        "may_set": may_set,
        "chosen": selection_of(request) if may_set else None,
        "problem": problem,
        **given,
    }
    return render(request, "reviews/reviews.html", context, status=status)


def _headline(queues: int, to_do: int, cases: int, mine: int | None) -> str:
    if not queues:
        return "No review queues yet."
    doubted = f" {cases} {'task is' if cases == 1 else 'tasks are'} before the court." if cases else ""
    for_you = f", {mine or 'none'} for you" if mine is not None and to_do else ""
    return f"{to_do or 'No'} {'review is' if to_do == 1 else 'reviews are'} open{for_you}.{doubted}"


def _terms_of(queue: ReviewQueue) -> str:
    reviews = "review" if queue.reviews_required == 1 else "reviews"
    more = [", blind"] * queue.is_blind + [", with gold items"] * bool(queue.gold_share)
    item = "pair" if queue.is_pairwise else "episode"
    return f"{queue.reviews_required} {reviews} per {item}{''.join(more)}."


def _state_of(queue: ReviewQueue, left: int, total: int) -> str:
    if not total:
        return f"{queue.name} has no {'pairs' if queue.is_pairwise else 'episodes'} yet."
    reviews = "review" if total == 1 else "reviews"
    return f"{left or 'None'} of {total} {reviews} {'is' if left == 1 else 'are'} open in {queue.name}."


class DefinitionForm(FormFields):
    """A label, or its next version."""

    name: str = ""
    title: str = ""
    kind: str = ""
    options: str = ""
    back: str = ""


@require_POST
@member_required(may_set_reviews)
def define_label(request: MemberRequest) -> HttpResponse:
    """Add a label or its next version; one option per line."""
    form = read(request.POST, DefinitionForm)
    options: list[Any] = [line.strip() for line in form.options.splitlines() if line.strip()]
    if form.kind == SchemaKind.SCORE:  # the form has no bounds: those of the version before stay
        before = schemas.of_project(request.project).filter(name=form.name, kind=SchemaKind.SCORE).first()
        options = before.options if before else []
    try:
        made = schemas.define(request.actor, form.name, form.title, form.kind, options)
    except AppError as refused:
        return _queues_page(request, refused.message, refused.status, label_given=form)
    queues = len(schemas.asked_in(request.project).get(made.pk, []))
    there = f"New queues and {queues} open {'queue' if queues == 1 else 'queues'}" if queues else "New queues"
    messages.success(request, f"Label {made.title} is version {made.version}. {there} have it.")
    return redirect("labels" if form.back == "labels" else "reviews")


@require_GET
@queue_of
def queue_page(request: MemberRequest, pk: str) -> HttpResponse:
    return _queue_page(request, pk)


def _queue_page(request: MemberRequest, pk: str, problem: str = "", status: int = 200) -> HttpResponse:
    """Show the progress of a queue, why it is empty for this person, and the figures of its judges; with `problem`, the
    form keeps its input."""
    actor = request.actor
    queue = visible_or_404(ReviewQueue.objects.all(), actor, pk)
    progress, own = reports.progress(actor, queue), _rows_of(actor, queue)
    left = progress.total - progress.done
    context = {
        "queue": queue,
        "headline": _state_of(queue, left, progress.total),
        "terms": _terms_of(queue),
        "told": progress,
        "reasons": _why_empty(actor, queue, own),
        "own": own,
        "labels": LabelSchema.objects.filter(pk__in=queue.schemas).order_by("created_at", "pk"),
        "rule": queue.rules.filter(ended_at=None).annotate(added=Count("reviews")).first(),
        "gold": reports.gold_lines(queue),
        "sampled": reports.accepted_in_sample(actor, queue),
        "differing": reports.disagreeing(actor, queue)[:50],
        "declines": reports.declined_with_reason(actor, queue) if holds(actor, may_set_reviews) else [],
        "views": list(EPISODE_VIEWS.of(actor)),
        **(filling.sources(actor, queue) if holds(actor, may_set_reviews) else {}),
        "me": actor.key,
        "may_review": holds(actor, may_review),
        "may_set": holds(actor, may_set_reviews),
        "problem": problem,
        "given": request.POST,
    }
    return render(request, "reviews/queue.html", context, status=status)


def _why_empty(actor: Actor, queue: ReviewQueue, own: list[OwnReview]) -> list[str]:
    if queue.closed_at:
        return ["This queue is closed."]
    return [] if any(row.is_open for row in own) else reports.why_empty(actor, queue, timezone.now())


def _rows_of(actor: Actor, queue: ReviewQueue) -> list[OwnReview]:
    """Return what is open to a person in turn, then what they hold, gave or declined, as far as they can see it."""
    own = own_reviews(actor, queue, OWN)
    there = {one.review.pk for one in own}
    ahead = assigning.open_to(actor, queue, AHEAD) if holds(actor, may_review) else []
    return [*(OwnReview(one, OPEN) for one, _ in ahead if one.pk not in there), *own]


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def instruct(request: MemberRequest, pk: str) -> HttpResponse:
    """Save the instructions of a queue."""
    try:
        assigning.instruct(request.actor, pk, text_of(request.POST, "instructions"))
    except AppError as refused:
        return _queue_page(request, pk, refused.message, refused.status)
    messages.success(request, "Instructions saved.")
    return redirect("review_queue", pk)


@require_POST
@member_required(may_review, rows=ReviewQueue.objects.all)
def leave_queue(request: MemberRequest, pk: str) -> HttpResponse:
    """Decline all that the queue has for this person, so that its outcomes open to them."""
    count = assigning.leave(request.actor, pk)
    messages.success(request, f"You left the queue: {count} {'review' if count == 1 else 'reviews'} declined.")
    return redirect("review_queue", pk)


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def fill_queue(request: MemberRequest, pk: str) -> HttpResponse:
    """Add the episodes of a saved view and of a filter, or a seeded sample of them; or close the queue."""
    actor, view = request.actor, text_of(request.POST, "view")
    chosen = visible_or_404(EPISODE_VIEWS.of(actor), actor, view) if view else None
    try:
        with transaction.atomic():
            _fill(request, pk, chosen)
    except NotFound:  # only an open queue that this person can see is filled
        problem, status = "This queue is closed. Nothing was added.", 409
    except AppError as refused:
        problem, status = refused.message, refused.status
    else:
        return redirect("review_queue", pk)
    return _queue_page(request, pk, problem, status)


class FillForm(FormFields):
    """Which episodes come into a queue: all that match, or a seeded sample of them."""

    run: str = ""
    scenario: str = ""
    outcome: str = ""
    state: str = ""
    arm: str = ""
    sample: Annotated[int | None, whole()] = None
    seed: Annotated[int | None, whole()] = None


def _fill(request: MemberRequest, pk: str, view: SavedView | None) -> None:
    actor = request.actor
    if text_of(request.POST, "close") == "1":
        assigning.close_queue(actor, pk)
        messages.success(request, "Queue closed.")
        return
    form = read(request.POST, FillForm)
    names = ("run", "scenario", "outcome", "state", "arm")
    episodes = matching(actor, {name: [value] for name in names if (value := getattr(form, name))})
    if view is not None:
        view_filters = ListQuery.of(view.query).said
        # the view and the fields of the form narrow each other
        episodes = episodes.filter(pk__in=matching(actor, view_filters).values("pk"))
    seed = 1 if form.seed is None else form.seed
    added = assigning.fill(actor, pk, episodes, sample=form.sample or 0, seed=seed)
    is_pairwise = ReviewQueue.objects.filter(pk=pk, kind=QueueKind.PAIRWISE).exists()
    messages.success(request, f"Added {count(added, 'pair' if is_pairwise else 'episode')}.")


class RuleForm(FormFields):
    """A rule: a saved view, and which share of what matches it."""

    view: str = ""
    percent: str = ""
    annotators: Annotated[int | None, whole()] = None
    end: str = ""


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def queue_rule(request: MemberRequest, pk: str) -> HttpResponse:
    """Set the rule by which a queue fills itself, or end it."""
    actor = request.actor
    try:
        form = read(request.POST, RuleForm)
        if form.end:
            rules.end_rule(actor, pk)
            messages.success(request, "The rule ended. What it added stays.")
            return redirect("review_queue", pk)
        view = visible_or_404(EPISODE_VIEWS.of(actor), actor, form.view) if form.view else None
        filters = ListQuery.of(view.query).said if view is not None else {}
        rules.set_rule(actor, pk, filters, _share_in(form.percent), form.annotators, view.name if view else "")
    except AppError as refused:
        return _queue_page(request, pk, refused.message, refused.status)
    messages.success(request, "Rule set. It adds episodes within a minute.")
    return redirect("review_queue", pk)


def _share_in(percent: str) -> float:
    try:
        return float(percent) / 100
    except ValueError:
        raise Invalid("Give the share as a number of percent, such as 10.") from None


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def add_gold(request: MemberRequest, pk: str) -> HttpResponse:
    """Mix an episode with a known answer into the queue; its ID, or the address of its page."""
    # an address ends in the ID
    episode = text_of(request.POST, "episode").strip().rstrip("/").rpartition("/")[2]
    try:
        assigning.add_gold(request.actor, pk, episode, text_of(request.POST, "answer"))
        messages.success(request, "Gold item added. Each reviewer gets it once.")
    except NotFound:
        messages.error(request, f"There is no episode {clean(episode)[:60] or 'without an ID'} in this project.")
    except AppError as refused:
        messages.error(request, refused.message)
    return redirect("review_queue", pk)


@require_POST
@member_required(may_review, rows=ReviewQueue.objects.all)
def next_review(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        return redirect("review", assigning.pull(request.actor, pk).review_id)
    except AppError as refused:
        messages.error(request, refused.message)
        return redirect("review_queue", pk)


@require_GET
@member_required(may_see_reviews)
def agreement_page(request: MemberRequest) -> HttpResponse:
    """Show the agreement of judges, by queue."""
    actor = request.actor
    queues = list(scoped(ReviewQueue.objects.all(), actor.project).order_by("-created_at")[:QUEUES])
    queue_id = text_of(request.GET, "queue")
    # an unknown queue in the address shows the default one instead of an error
    chosen = next((one for one in queues if one.pk == queue_id), _judged(queues))
    only_sample = text_of(request.GET, "sample") == "1"
    lines = reports.lines(actor, chosen, only_sample=only_sample) if chosen else []
    context = {
        "queues": queues,
        "chosen": chosen,
        "only_sample": only_sample,
        "lines": lines,
        "headline": next((one.finding for one in lines if one.figures.items), "No episode has two judges yet."),
        "differing": reports.disagreeing(actor, chosen, only_sample=only_sample)[:100] if chosen else [],
        "fewest": FEWEST,
        "rare": RARE,
        "few_tasks": FEW_TASKS,
    }
    return render(request, "reviews/agreement.html", context)


def _judged(queues: list[ReviewQueue]) -> ReviewQueue | None:
    """Return the first of these queues with a verdict, or the first one if none has any."""
    judged = set(Verdict.objects.filter(review__queue__in=queues).values_list("review__queue", flat=True))
    return next((one for one in queues if one.pk in judged), queues[0] if queues else None)
