"""Pages about reviews: queues, one review, the court, agreement; and the forms on them.

Owns HTTP status, redirects and form words. Every write is a function of a writes module; every figure is of
`reports.py`. A refused form shows its reason above the same page, with what was typed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from episodes import saved_views, windows
from episodes.facets import Wish
from episodes.models import Episode, SavedView
from episodes.narrowing import matching
from episodes.step_cards import card_of
from episodes.strip import outcome_words
from people.access import (
    MemberRequest,
    holds,
    is_id,
    may_review,
    may_see_reviews,
    may_set_reviews,
    member_required,
    scoped,
    visible_or_404,
)
from people.errors import AppError, BadJson, Invalid, NotFound
from people.http import parse_json
from people.plain_text import clean
from reviews import annotating, assigning, correcting, court, deciding, mentions, reports, schemas
from reviews.annotated import current, seen_by
from reviews.correcting import Better
from reviews.deciding import Wanted
from reviews.label_forms import place_in, value_of, whole
from reviews.models import (
    COMMENT,
    Annotation,
    Confidence,
    Correction,
    CorrectionKind,
    Explanation,
    LabelSchema,
    Review,
    ReviewQueue,
    SchemaKind,
    Verdict,
)
from reviews.places import tell

QUEUES, CASES, RAIL, CHANGES, CHOSEN = 100, 200, 30, 60, 500
review_of = member_required(may_see_reviews, rows=Review.objects.all, path="queue__project_id")
queue_of = member_required(may_see_reviews, rows=ReviewQueue.objects.all)


@require_http_methods(["GET", "POST"])
@member_required(may_see_reviews)
def reviews(request: MemberRequest) -> HttpResponse:
    """Show the queues, and make one."""
    actor, problem, given = request.actor, "", request.POST
    if request.method == "POST":
        try:
            with transaction.atomic():
                made = assigning.create_queue(
                    actor,
                    given.get("name", ""),
                    reviews_required=whole(given.get("reviews_required", "1")),
                    is_blind=given.get("is_blind") == "1",
                    gold_share=whole(given.get("gold_percent", "0")) / 100,
                    rubric=given.get("rubric", "").splitlines(),
                )
                if ids := _ids(request):
                    _add(request, made.pk, ids)
            return redirect("review_queue", made.pk)
        except AppError as refused:
            problem = refused.message
    return _queues_page(request, problem, 422 if problem else 200, given=given)


def _queues_page(request: MemberRequest, problem: str, status: int, **given: Any) -> HttpResponse:
    """Show the queues; a refused form comes with what was typed: `given` of a new queue, `label_given` of a label."""
    actor = request.actor
    queues = scoped(ReviewQueue.objects.all(), actor.project).order_by("closed_at", "-created_at")[:QUEUES]
    rows = [(queue, reports.progress(actor, queue)) for queue in queues]
    to_do = sum(told.total - told.done for queue, told in rows if queue.closed_at is None)
    cases = court.open_cases(actor).count()
    context = {
        "headline": _headline(len(rows), to_do, cases),
        "rows": rows,
        "cases": cases,
        "unread": mentions.unread(actor),
        "labels": schemas.of_project(actor.project),
        "kinds": SchemaKind.choices,
        "may_set": holds(actor, may_set_reviews),
        "chosen": _ids(request),
        "problem": problem,
        **given,
    }
    return render(request, "reviews/reviews.html", context, status=status)


def _headline(queues: int, to_do: int, cases: int) -> str:
    if not queues:
        return "No review queues yet."
    doubted = f" {cases} {'task is' if cases == 1 else 'tasks are'} before the court." if cases else ""
    return f"{to_do or 'No'} {'review is' if to_do == 1 else 'reviews are'} open.{doubted}"


def _terms_of(queue: ReviewQueue) -> str:
    reviews = "review" if queue.reviews_required == 1 else "reviews"
    more = [", blind"] * queue.is_blind + [", with gold items"] * bool(queue.gold_share)
    return f"{queue.reviews_required} {reviews} per episode{''.join(more)}."


def _state_of(queue: str, left: int, total: int) -> str:
    if not total:
        return f"{queue} has no episodes yet."
    reviews = "review" if total == 1 else "reviews"
    return f"{left or 'None'} of {total} {reviews} {'is' if left == 1 else 'are'} open in {queue}."


def _ids(request: MemberRequest) -> list[str]:
    """Return the episodes that were selected in a list, given by the form or in the page's address."""
    given = request.POST if request.method == "POST" else request.GET
    return [one for one in given.getlist("episode") if is_id(one)][:CHOSEN]


def _add(request: MemberRequest, pk: str, ids: list[str]) -> None:
    added = assigning.fill(request.actor, pk, scoped(Episode.objects.filter(pk__in=ids), request.project))
    messages.success(request, f"Added {added} of {len(ids)} selected {'episode' if len(ids) == 1 else 'episodes'}.")


@require_POST
@member_required(may_set_reviews)
def define_label(request: MemberRequest) -> HttpResponse:
    """Add a label or its next version; an option per line."""
    given = request.POST
    options = [line.strip() for line in given.get("options", "").splitlines() if line.strip()]
    try:
        made = schemas.define(
            request.actor, given.get("name", ""), given.get("title", ""), given.get("kind", ""), options
        )
    except AppError as refused:
        return _queues_page(request, refused.message, refused.status, label_given=given)
    messages.success(request, f"Label {made.title} is version {made.version}. New queues use it.")
    return redirect("reviews")


@require_GET
@queue_of
def queue_page(request: MemberRequest, pk: str) -> HttpResponse:
    return _queue_page(request, pk)


def _queue_page(request: MemberRequest, pk: str, problem: str = "", status: int = 200) -> HttpResponse:
    """Show how far a queue is, why it is empty for this person, and the figures of its judges; with `problem`, what was
    typed comes back.
    """
    actor = request.actor
    queue = visible_or_404(ReviewQueue.objects.all(), actor, pk)
    told, reasons = reports.progress(actor, queue), reports.why_empty(actor, queue, timezone.now())
    left = told.total - told.done
    context = {
        "queue": queue,
        "headline": _state_of(queue.name, left, told.total),
        "terms": _terms_of(queue),
        "told": told,
        "reasons": ["This queue is closed."] if queue.closed_at else reasons,
        "gold": reports.gold_lines(queue),
        "sampled": reports.accepted_in_sample(actor, queue),
        "differing": reports.disagreeing(actor, queue)[:50],
        "views": list(saved_views.views_of(actor)),
        "me": actor.key,
        "may_review": holds(actor, may_review),
        "may_set": holds(actor, may_set_reviews),
        "problem": problem,
        "given": request.POST,
    }
    return render(request, "reviews/queue.html", context, status=status)


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def fill_queue(request: MemberRequest, pk: str) -> HttpResponse:
    """Add selected episodes, those of a saved view and of a filter, or a seeded sample of them; or close the queue."""
    actor, view = request.actor, request.POST.get("view")
    chosen = visible_or_404(saved_views.views_of(actor), actor, view) if view else None
    try:
        with transaction.atomic():
            _fill(request, pk, chosen)
    except NotFound:  # only an open queue is filled, and this person sees it
        problem, status = "This queue is closed. Nothing was added.", 409
    except AppError as refused:
        problem, status = refused.message, refused.status
    else:
        return redirect("review_queue", pk)
    if "episode" in request.POST:  # the page that has the selection
        return _queues_page(request, problem, status)
    return _queue_page(request, pk, problem, status)


def _fill(request: MemberRequest, pk: str, view: SavedView | None) -> None:
    actor, given = request.actor, request.POST
    if given.get("close") == "1":
        assigning.close_queue(actor, pk)
        messages.success(request, "Queue closed.")
        return
    if "episode" in given:  # a selection of nothing that exists is not the filter "all"
        return _add(request, pk, _ids(request))
    names = ("run", "scenario", "outcome", "state", "arm")
    filters = {name: [given[name]] for name in names if given.get(name)}
    episodes = matching(actor, filters)
    if view is not None:
        said = Wish.read(QueryDict(view.query.removeprefix("?"))).said
        episodes = episodes.filter(pk__in=matching(actor, said).values("pk"))
    sample, seed = whole(given.get("sample") or "0"), whole(given.get("seed") or "1")
    added = assigning.fill(actor, pk, episodes, sample=sample, seed=seed)
    messages.success(request, f"Added {added} {'episode' if added == 1 else 'episodes'}.")


@require_POST
@member_required(may_set_reviews, rows=ReviewQueue.objects.all)
def add_gold(request: MemberRequest, pk: str) -> HttpResponse:
    """Mix an episode with a known answer into the queue; its ID, or the address of its page."""
    given = request.POST
    episode = given.get("episode", "").strip().rstrip("/").rpartition("/")[2]
    try:
        assigning.add_gold(request.actor, pk, episode, given.get("answer", ""))
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
@review_of
def review_page(request: MemberRequest, pk: str) -> HttpResponse:
    return page_of(request, pk)


def page_of(request: MemberRequest, pk: str, problem: str = "", status: int = 200, **given: Any) -> HttpResponse:
    """Show the page of one review as it stands for this person; `problem` comes with what they had typed. With `ahead`
    it is drawn as its holder will see it.
    """
    actor = request.actor
    rows = Review.objects.select_related("queue", "episode", "episode__run", "episode__project")
    review = visible_or_404(rows, actor, pk, "queue__project")
    slot, now = assigning.slot_of(actor, review), timezone.now()
    ahead = bool(given.get("ahead"))
    mine = ahead or (slot is not None and slot.state == "claimed")
    submitted = slot is not None and slot.state == "submitted"
    shown = deciding.reveal(actor, pk) if submitted else None
    # anyone who looks before the claim could learn here what the claim would withhold
    last = review.episode.last_seq if review.queue.is_blind and not submitted else None
    late = None if shown else deciding.late_of(actor, review)
    context = {
        **replay_of(request, review.episode, last=last),
        **_said(request, review, shown is not None or not review.queue.is_blind),
        "review": review,
        "queue": review.queue,
        "rail": [(review, "Claimed")] * ahead + _rail(request, review),
        "told": reports.progress(actor, review.queue),
        "mine": mine,
        "lease_token": slot.lease_token if slot is not None and mine else "",
        "lease_until": slot.lease_until if slot is not None else None,
        "expired": slot is not None and mine and not slot.is_held(now),
        "revealed": shown,
        "late": late,
        "late_rubric": list(late.rubric.items()) if late is not None else [],
        "outcome_words": outcome_words(shown.outcome.reward_type) if shown and shown.outcome else "",
        "ruling": court.ruling_of(review.episode) if shown and not shown.is_withheld else None,
        "explanations": Explanation.choices,
        "confidences": Confidence.choices,
        "nonce": request.POST.get("nonce") or secrets.token_urlsafe(12),
        "given": request.POST,
        "met": request.POST.getlist("met"),
        "may_review": holds(actor, may_review),
        "why_not": "" if mine or shown else assigning.why_not(actor, review),
        "blind": review.queue.is_blind and not submitted,
        "problem": problem,
        **given,
    }
    return render(request, "reviews/review.html", context, status=status)


def replay_of(request: MemberRequest, one: Episode, step: int = 1, last: int | None = None) -> dict[str, Any]:
    """Return the steps of an episode around the one that the request names, or `step`, and its scrubber, as this person
    sees them, none after `last`.
    """
    at = max(windows.number(request.GET.get("step") or request.POST.get("seq")) or step, 1)
    steps = windows.around(request.actor, one, at, last=last)
    at, codes = min(at, max(steps.last, 1)), windows.letters(request.actor, one, steps.last)
    names = {row.seq: card_of(row.wire()).name for row in steps.rows} if steps.last <= windows.NAMED else {}
    ticks = windows.ticks(codes, at, names)
    return {"episode": one, "steps": steps, "at": at, "codes": codes, "ticks": ticks, "ended": True}


def _said(request: MemberRequest, review: Review, shown: bool) -> dict[str, Any]:
    """Return what this reviewer said, the comments of others that they may read, and the labels that they can set."""
    actor, episode = request.actor, review.episode
    said = seen_by(actor, episode) if shown else [one for one in seen_by(actor, episode) if one.author_key == actor.key]
    pinned = LabelSchema.objects.filter(pk__in=review.queue.schemas).order_by("created_at", "pk")
    fixes = [one for one in correcting.current(episode) if one.author_key == actor.key]
    notes = tell(episode, (one for one in said if one.author_key == actor.key or one.label == COMMENT))
    return {
        "labels": list(pinned),
        "notes": notes,
        "fixes": fixes,
        "seqs": numbers_of([*notes, *fixes]),
        "own_key": actor.key,
        "fix_kinds": CorrectionKind.choices,
    }


def numbers_of(said: Iterable[Annotation | Correction]) -> str:
    """Return the numbers of the steps of which something was said, as the scrubber reads them."""
    return " ".join(str(seq) for seq in sorted({one.seq for one in said if one.seq}))


def _rail(request: MemberRequest, review: Review) -> list[tuple[Review, str]]:
    """Return the reviews that this person gave or holds in the queue, the newest first, and how
    each stands for them."""
    slots = review.queue.slots.filter(holder=request.actor.key).select_related("review__episode")
    return [(one.review, one.get_state_display()) for one in slots.order_by("-claimed_at")[:RAIL]]


@require_POST
@review_of
def review_command(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Run one command on a review, as a form of its page or as a script's request."""
    act = COMMANDS.get(command)
    if act is None:
        raise NotFound
    try:
        said = act(request, pk)
    except AppError as refused:
        if _wants_json(request):
            raise
        return page_of(request, pk, refused.message, refused.status)
    if isinstance(said, HttpResponse):
        return said
    if _wants_json(request):
        return JsonResponse(said or {"ok": True, **(_redrawn(request, pk) if command in DRAWN else {})})
    step = windows.number(request.POST.get("seq"))
    return redirect(f"/reviews/{pk}/?step={step}" if step else f"/reviews/{pk}/")


def _redrawn(request: MemberRequest, pk: str) -> dict[str, str]:
    """Return the list of what this person said, for a page that stays open."""
    rows = Review.objects.select_related("queue", "episode")
    review = visible_or_404(rows, request.actor, pk, "queue__project")
    slot = assigning.slot_of(request.actor, review)
    is_told = not review.queue.is_blind or (slot is not None and slot.state == "submitted")
    context = {"review": review, "at": request.POST.get("seq", ""), **_said(request, review, is_told)}
    return {"said": render_to_string("reviews/_said_part.html", context, request)}


def _wants_json(request: MemberRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _claim(request: MemberRequest, pk: str) -> None:
    assigning.claim(request.actor, pk)


def _renew(request: MemberRequest, pk: str) -> dict[str, Any]:
    lease = assigning.renew(request.actor, pk, request.POST.get("lease_token", ""))
    return {"lease_until": lease.lease_until.isoformat()}


def _release(request: MemberRequest, pk: str) -> HttpResponse:
    assigning.release(request.actor, pk, request.POST.get("lease_token", ""))
    messages.success(request, "Released.")
    return _to_queue(request, pk)


def _decline(request: MemberRequest, pk: str) -> HttpResponse:
    assigning.decline(request.actor, pk, request.POST.get("reason", ""), request.POST.get("lease_token", ""))
    messages.success(request, "Declined. Others can still review this episode.")
    return _to_queue(request, pk)


def _to_queue(request: MemberRequest, pk: str) -> HttpResponse:
    review = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project")
    return redirect("review_queue", review.queue_id)


def decide(request: MemberRequest, pk: str) -> Verdict:
    """Give the verdict of a form."""
    given = request.POST
    met, asked = given.getlist("met"), given.getlist("asked")
    wanted = Wanted(
        decision=given.get("decision", ""),
        failure_type=given.get("failure_type", ""),
        rubric={name: name in met for name in asked},
        confidence=given.get("confidence", Confidence.HIGH),
        note=given.get("note", ""),
        nonce=given.get("nonce", "")[:200],
    )
    return deciding.decide(request.actor, pk, given.get("lease_token", ""), wanted)


def _decide(request: MemberRequest, pk: str) -> None:
    decide(request, pk)


def _explain(request: MemberRequest, pk: str) -> None:
    mine = deciding.reveal(request.actor, pk).mine
    deciding.explain(request.actor, mine.pk, request.POST.get("explanation", ""))


def _label(request: MemberRequest, pk: str) -> None:
    given = request.POST
    rows = Review.objects.select_related("queue", "episode")
    review = visible_or_404(rows, request.actor, pk, "queue__project")
    where, quote = place_in(given)
    schema = scoped(LabelSchema.objects.filter(pk=given.get("schema", "")), request.actor.project).first()
    label = schema.name if schema is not None else COMMENT
    value = value_of(given, schema.kind if schema is not None else "")
    annotating.annotate(
        request.actor, review.episode, where, label, value, schema=schema, queue=review.queue, quote=quote
    )


def _undo(request: MemberRequest, pk: str) -> None:
    """Withdraw the newest annotation of this person on the episode, or the named one."""
    review = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project")
    rows = Annotation.objects.filter(episode=review.episode_id, author_key=request.actor.key)
    found = max(current(rows), key=lambda one: (one.created_at, one.pk), default=None)
    wanted = request.POST.get("annotation") or (found.pk if found else "")
    if wanted:
        annotating.undo(request.actor, wanted)


def _correct(request: MemberRequest, pk: str) -> None:
    given = request.POST
    review = visible_or_404(Review.objects.select_related("episode"), request.actor, pk, "queue__project")
    try:
        arguments = parse_json((given.get("arguments") or "{}").encode("utf-8", "surrogatepass"))
    except BadJson as error:
        raise Invalid(f"The arguments are not JSON. {error.message}") from error
    if not isinstance(arguments, dict):
        raise Invalid("Arguments are a JSON object.")
    better = Better(
        given.get("kind", ""), given.get("name", ""), arguments, given.get("text", ""), given.get("why", "")
    )
    correcting.correct(request.actor, review.episode, whole(given.get("seq", "")), better)


def _withdraw(request: MemberRequest, pk: str) -> None:
    """Withdraw the named correction of this person."""
    correcting.withdraw(request.actor, request.POST.get("correction", ""))


DRAWN = ("label", "undo", "correct", "withdraw")
"""Commands after which an open page draws its list of labels, comments and corrections again."""
COMMANDS: dict[str, Any] = {
    "claim": _claim,
    "renew": _renew,
    "release": _release,
    "decline": _decline,
    "verdict": _decide,
    "explain": _explain,
    "label": _label,
    "undo": _undo,
    "correct": _correct,
    "withdraw": _withdraw,
}


@require_GET
@member_required(may_see_reviews)
def agreement_page(request: MemberRequest) -> HttpResponse:
    """Show how far judges agree, by queue."""
    actor = request.actor
    queues = list(scoped(ReviewQueue.objects.all(), actor.project).order_by("-created_at")[:QUEUES])
    chosen = next((one for one in queues if one.pk == request.GET.get("queue")), _judged(queues))
    only_sample = request.GET.get("sample") == "1"
    found = reports.lines(actor, chosen, only_sample=only_sample) if chosen else []
    context = {
        "queues": queues,
        "chosen": chosen,
        "only_sample": only_sample,
        "lines": found,
        "headline": found[0].finding if found else "No episode has two judges yet.",
        "differing": reports.disagreeing(actor, chosen, only_sample=only_sample)[:100] if chosen else [],
    }
    return render(request, "reviews/agreement.html", context)


def _judged(queues: list[ReviewQueue]) -> ReviewQueue | None:
    """Return the first of these queues that has a verdict, or the first where none has."""
    given = set(Verdict.objects.filter(review__queue__in=queues).values_list("review__queue", flat=True))
    return next((one for one in queues if one.pk in given), queues[0] if queues else None)
