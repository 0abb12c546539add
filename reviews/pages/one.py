"""The page of one review, and the forms and keys on it.

Owns HTTP status, redirects and form texts. Every write is a function of a writes module. Figures come from
`reports.py`, the outcome and other verdicts from `deciding.py`, and the ruling from `court.py`. A refused form shows
its reason above the same page, with the input.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from episodes.models import Episode
from episodes.show import windows
from episodes.visible.lens import Lens, lens_of
from people.access import MemberRequest, holds, may_review, may_see_reviews, member_required, scoped, visible_or_404
from people.errors import AppError, Invalid, NotFound
from people.requests.forms import FormFields, cut, number_of, read, text_of, texts_of, whole
from people.text.json_text import parse_typed
from reviews.models import (
    COMMENT,
    Annotation,
    Confidence,
    Correction,
    CorrectionKind,
    Explanation,
    LabelSchema,
    Review,
    ReviewSlot,
    Verdict,
)
from reviews.pages.pair import pair_page, prefer, undo
from reviews.record import (
    annotating,
    assigning,
    correcting,
    deciding,
    mentions,
)
from reviews.record.correcting import Better
from reviews.record.deciding import Wanted
from reviews.statistics import reports
from reviews.visible import rulings
from reviews.visible.annotated import current, seen_by
from reviews.visible.label_forms import LabelForm, place_in, value_of
from reviews.visible.own import CLAIMED, OwnReview, own_reviews
from reviews.visible.places import tell

RAIL = 30
review_of = member_required(may_see_reviews, rows=Review.objects.all, path="queue__project_id")


@require_GET
@review_of
def review_page(request: MemberRequest, pk: str) -> HttpResponse:
    return page_of(request, pk)


def page_of(
    request: MemberRequest, pk: str, problem: str = "", status: int = 200, step: int = 1, **given: Any
) -> HttpResponse:
    """Show the page of one review as this person sees it; `problem` is shown with their input. With `ahead` it is
    rendered as its holder will see it."""
    actor = request.actor
    rows = Review.objects.select_related("queue", "episode", "episode__run", "episode__project", "other")
    review = visible_or_404(rows, actor, pk, "queue__project")
    slot, now = assigning.slot_of(actor, review), timezone.now()
    # nothing is claimed while a page is rendered ahead, yet it has the forms of the holder
    ahead = bool(given.get("ahead"))
    # an expired lease that no one took still counts, so the form stays
    mine = ahead or (slot is not None and slot.state == "claimed")
    submitted = slot is not None and slot.state == "submitted"
    if review.queue.is_pairwise:
        common = {
            **_lease_of(slot, mine, now),
            "review": review,
            "queue": review.queue,
            "told": reports.progress(actor, review.queue),
            "why_not": "" if mine or submitted else assigning.why_not(actor, review),
            "blind": review.queue.is_blind and not submitted,
            "problem": problem,
        }
        return pair_page(request, review, common, status=status)
    shown = deciding.reveal(actor, pk) if submitted else None
    lens = lens_of(actor, review.episode)
    # anyone who looks before the claim could learn here what the claim would withhold
    last = review.episode.last_seq if review.queue.is_blind and not submitted else None
    late = None if shown else deciding.late_of(actor, review)
    context = {
        **replay_of(request, lens, review.episode, step, last),
        **_entries_of(request, lens, review, shown is not None or not review.queue.is_blind),
        "review": review,
        "queue": review.queue,
        "rail": rail_of(request, review, ahead=ahead),
        "told": reports.progress(actor, review.queue),
        **_lease_of(slot, mine, now),
        "revealed": shown,
        "late": late,
        "late_rubric": list(late.rubric.items()) if late is not None else [],
        "ruling": rulings.ruling_of(review.episode) if shown and not shown.is_withheld else None,
        "explanations": Explanation.choices,
        "confidences": Confidence.choices,
        # a refused form keeps its nonce: what was sent twice stays one verdict
        "nonce": text_of(request.POST, "nonce") or secrets.token_urlsafe(12),
        "given": request.POST,
        "met": texts_of(request.POST, "met"),
        "may_review": holds(actor, may_review),
        "why_not": "" if mine or shown else assigning.why_not(actor, review),
        "blind": review.queue.is_blind and not submitted,
        "problem": problem,
        **given,
    }
    return render(request, "reviews/review.html", context, status=status)


def _lease_of(slot: ReviewSlot | None, mine: bool, now: datetime) -> dict[str, Any]:
    return {
        "mine": mine,
        "lease_token": slot.lease_token if slot is not None and mine else "",
        "lease_until": slot.lease_until if slot is not None else None,
        "expired": slot is not None and mine and not slot.is_held(now),
    }


def replay_of(
    request: MemberRequest, lens: Lens, episode: Episode, step: int = 1, last: int | None = None
) -> dict[str, Any]:
    """Return the steps of an episode around the one that the request names, or `step`, and its scrubber, seen
    through a lens, none after `last`.
    """
    # a form names its step in `seq`, a link in its address
    at = (number_of(request.GET, "step") or number_of(request.POST, "seq")) or step
    return {"episode": episode, "ended": True, **windows.replay(lens, episode, at, last)}


def _entries_of(request: MemberRequest, lens: Lens, review: Review, shown: bool) -> dict[str, Any]:
    """Return what this reviewer said, the comments of others that they may read, and the labels that they can set."""
    actor, episode = request.actor, review.episode
    # what others labeled could show how they judge
    rows = seen_by(actor, episode) if shown else [one for one in seen_by(actor, episode) if actor.owns(one.author_key)]
    # the versions that the queue pins, ended ones included
    pinned = LabelSchema.objects.filter(pk__in=review.queue.schemas).order_by("created_at", "pk")
    fixes = [one for one in correcting.current(episode) if actor.owns(one.author_key)]
    notes = tell(lens, episode, (one for one in rows if actor.owns(one.author_key) or one.label == COMMENT))
    return {
        "labels": list(pinned),
        "notes": notes,
        "fixes": fixes,
        "seqs": numbers_of([*notes, *fixes]),
        "own_key": actor.key,
        "fix_kinds": CorrectionKind.choices,
    }


def numbers_of(entries: Iterable[Annotation | Correction]) -> str:
    """Return the numbers of the steps with entries, in the form that the scrubber reads."""
    # entries about the whole episode have no step
    return " ".join(str(seq) for seq in sorted({one.seq for one in entries if one.seq}))


def rail_of(request: MemberRequest, review: Review, *, ahead: bool) -> list[OwnReview]:
    """Return the reviews that this person gave, holds or declined in the queue, newest first.

    A review that is rendered ahead counts as claimed, and the one that is answered meanwhile as given. It can be held
    already: who goes back holds two.
    """
    rows = own_reviews(request.actor, review.queue, RAIL)
    if ahead:
        is_answered = [row.words == CLAIMED and row.review != review for row in rows]
        rows = [
            replace(row, words="Given") if answered else row for row, answered in zip(rows, is_answered, strict=True)
        ]
    return rows if not ahead or any(one.review == review for one in rows) else [OwnReview(review, CLAIMED), *rows]


@require_POST
@review_of
def review_command(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Run one command on a review, as a form of its page or as a script's request."""
    act = COMMANDS.get(command)
    if act is None:
        raise NotFound
    try:
        answer = act(request, pk)
    except AppError as refused:
        # a script gets the refusal as JSON, from the edge
        if _wants_json(request):
            raise
        return page_of(request, pk, refused.message, refused.status)
    if isinstance(answer, HttpResponse):
        return answer
    if _wants_json(request):
        return JsonResponse(answer or {"ok": True, **_fresh(request, pk, command)})
    # the form's step stays in view after the reload
    step = number_of(request.POST, "seq")
    return redirect(f"/reviews/{pk}/?step={step}" if step else f"/reviews/{pk}/")


def _fresh(request: MemberRequest, pk: str, command: str) -> dict[str, str]:
    """Return what an open page draws again after a command."""
    if command in DRAWN:
        return _redrawn(request, pk)
    return {"page": same(request, pk)} if command in SHOWN else {}


def swapped(request: MemberRequest, pk: str, step: int = 1) -> str:
    """Return the page of a review without its shell, for a page that stays open, without the input of its forms."""
    # the input of the last form must not appear in the next review
    return page_of(request, pk, step=step, frame=SWAPPED, given={}, met=[]).content.decode()


def same(request: MemberRequest, pk: str) -> str:
    """Return the page of a review as `swapped` does, at the step in view."""
    return swapped(request, pk, number_of(request.POST, "at") or 1)


def _redrawn(request: MemberRequest, pk: str) -> dict[str, str]:
    """Return the list of this person's entries, for a page that stays open."""
    rows = Review.objects.select_related("queue", "episode")
    review = visible_or_404(rows, request.actor, pk, "queue__project")
    slot = assigning.slot_of(request.actor, review)
    # own entries alone until the verdict, as on the page
    is_told = not review.queue.is_blind or (slot is not None and slot.state == "submitted")
    entries = _entries_of(request, lens_of(request.actor, review.episode), review, is_told)
    context = {"review": review, "at": text_of(request.POST, "seq"), **entries}
    return {"said": render_to_string("reviews/_said_part.html", context, request)}


def _wants_json(request: MemberRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _claim(request: MemberRequest, pk: str) -> None:
    assigning.claim(request.actor, pk)


def _renew(request: MemberRequest, pk: str) -> dict[str, Any]:
    lease = assigning.renew(request.actor, pk, text_of(request.POST, "lease_token"))
    return {"lease_until": lease.lease_until.isoformat()}


def _release(request: MemberRequest, pk: str) -> HttpResponse:
    assigning.release(request.actor, pk, text_of(request.POST, "lease_token"))
    messages.success(request, "Released.")
    return _to_queue(request, pk)


def _decline(request: MemberRequest, pk: str) -> HttpResponse:
    assigning.decline(request.actor, pk, text_of(request.POST, "reason"), text_of(request.POST, "lease_token"))
    messages.success(request, "Declined. You can't claim it again.")
    return _to_queue(request, pk)


def _to_queue(request: MemberRequest, pk: str) -> HttpResponse:
    review = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project")
    return redirect("review_queue", review.queue_id)


def decide(request: MemberRequest, pk: str) -> Verdict:
    """Give the verdict of a form."""
    return deciding.decide(request.actor, pk, text_of(request.POST, "lease_token"), _verdict_in(request))


class VerdictForm(FormFields):
    """A verdict. A browser sends checked boxes of the rubric only, in `met`, so `asked` lists all of them."""

    decision: str = ""
    failure_type: str = ""
    met: list[str] = []
    asked: list[str] = []
    confidence: str = ""
    note: str = ""
    nonce: Annotated[str, cut(200)] = ""


def _verdict_in(request: MemberRequest) -> Wanted:
    form = read(request.POST, VerdictForm)
    return Wanted(**form.model_dump(exclude={"met", "asked"}), rubric={name: name in form.met for name in form.asked})


def _decide(request: MemberRequest, pk: str) -> None:
    decide(request, pk)


def _change(request: MemberRequest, pk: str) -> None:
    deciding.change(request.actor, pk, _verdict_in(request))


def explain(request: MemberRequest, pk: str) -> None:
    """Record the reason of a form."""
    mine = deciding.reveal(request.actor, pk).mine
    deciding.explain(request.actor, mine.pk, text_of(request.POST, "explanation"))


def _label(request: MemberRequest, pk: str) -> None:
    form = read(request.POST, LabelForm)
    rows = Review.objects.select_related("queue", "episode")
    review = visible_or_404(rows, request.actor, pk, "queue__project")
    where, quote = place_in(form)
    # without a schema it is a comment, whose form sends none
    schema = scoped(LabelSchema.objects.filter(pk=form.version), request.actor.project).first()
    label = schema.name if schema is not None else COMMENT
    value = value_of(form.values, schema.kind if schema is not None else "")
    # the same text sent again after the refusal is meant as it is
    if schema is None and value != form.as_text:
        mentions.refuse_unknown(request.actor, str(value))
    annotating.annotate(
        request.actor, review.episode, where, label, value, schema=schema, queue=review.queue, quote=quote
    )


def _undo(request: MemberRequest, pk: str) -> None:
    """Withdraw the newest annotation of this person on the episode, or the named one."""
    review = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project")
    rows = Annotation.objects.filter(episode=review.episode_id, author_key=request.actor.key)
    newest = max(current(rows), key=lambda row: (row.created_at, row.pk), default=None)
    # without a name, the newest: undo takes back the last entry
    if annotation_id := text_of(request.POST, "annotation") or (newest.pk if newest else ""):
        annotating.undo(request.actor, annotation_id)


class CorrectionForm(FormFields):
    """The better action for a step; `arguments` are JSON."""

    seq: Annotated[int, whole()]
    kind: str = ""
    name: str = ""
    arguments: str = ""
    text: str = ""
    why: str = ""


def _correct(request: MemberRequest, pk: str) -> None:
    form = read(request.POST, CorrectionForm)
    review = visible_or_404(Review.objects.select_related("episode"), request.actor, pk, "queue__project")
    arguments = parse_typed(form.arguments or "{}", "Arguments")
    if not isinstance(arguments, dict):
        raise Invalid("Arguments are a JSON object.")
    better = Better(form.kind, form.name, arguments, form.text, form.why)
    correcting.correct(request.actor, review.episode, form.seq, better)


def _withdraw(request: MemberRequest, pk: str) -> None:
    """Withdraw the named correction of this person."""
    correcting.withdraw(request.actor, text_of(request.POST, "correction"))


DRAWN = ("label", "undo", "correct", "withdraw")
"""Commands after which an open page reloads its list of labels, comments and corrections."""
SHOWN = ("verdict", "change", "explain")
"""Commands after which it shows the whole review again."""
SWAPPED = "_swapped.html"
COMMANDS: dict[str, Any] = {
    "claim": _claim,
    "renew": _renew,
    "release": _release,
    "decline": _decline,
    "verdict": _decide,
    "change": _change,
    "explain": explain,
    "label": _label,
    "undo": _undo,
    "correct": _correct,
    "withdraw": _withdraw,
    "prefer": prefer,
    "undo-answer": undo,
}
