"""The next review: rendered while the reviewer works, claimed with their verdict, shown without a page load.

Owns the two requests for it. Leaves the page to `pages.py`, claims to `assigning.py` and verdicts to `deciding.py`.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from people.access import MemberRequest, visible_or_404
from people.requests.forms import is_named, text_of
from people.requests.parts import part_of
from reviews.errors import NothingToReview
from reviews.models import Review
from reviews.pages.one import SWAPPED, decide, explain, page_of, review_of, same, swapped
from reviews.record import assigning, deciding


@require_GET
@part_of("review")
@review_of
def ahead(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the page of the review that this person would get next, as if they had claimed it. Nothing is claimed, and
    everything that the claim would withhold is withheld."""
    try:
        # the page is rendered inside, while the withheld outcomes are withheld
        with assigning.as_if_given(request.actor, pk) as following:
            page = page_of(request, following, ahead=True, frame=SWAPPED).content.decode()
    except NothingToReview:
        return HttpResponse(status=204)
    return JsonResponse({"review": following, "page": page})


@require_POST
@review_of
def verdict_next(request: MemberRequest, pk: str) -> HttpResponse:
    """Give the verdict and claim the next review, the rendered one if it is still free. If the verdict differs from the
    verifier, this review is shown again first, because it asks for the reason."""
    # committed before the reply: the verdict counts even if the next claim fails
    queue_id = decide(request, pk).review.queue_id
    shown = deciding.reveal(request.actor, pk)
    if shown.differs:
        return JsonResponse({"differs": True, "page": same(request, pk)})
    reply = _next(request, queue_id)
    # an outcome that is still withheld must not be said to agree
    if "lease" in reply and shown.outcome is not None:
        reply["verifier"] = "agrees"
    return JsonResponse(reply)


@require_POST
@review_of
def go_on(request: MemberRequest, pk: str) -> HttpResponse:
    """Claim the next review after one that is given; with a reason for a verdict that differs, record it first."""
    if is_named(request.POST, "explanation"):
        explain(request, pk)
    queue_id = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project").queue_id
    return JsonResponse(_next(request, queue_id))


def _next(request: MemberRequest, queue_id: str) -> dict[str, Any]:
    """Claim the next review and return where it is, with its lease; its page, too, unless it is the rendered one."""
    drawn = text_of(request.POST, "ahead")
    try:
        claim = assigning.pull(request.actor, queue_id, first=drawn)
    # the queue's page says why it is empty
    except NothingToReview:
        return {"next": reverse("review_queue", args=[queue_id])}
    reply: dict[str, Any] = {
        "next": reverse("review", args=[claim.review_id]),
        "lease": {"token": claim.lease_token, "until": claim.lease_until.isoformat()},
    }
    # the page has rendered it already; a lost race gets another review, with its page
    if claim.review_id != drawn:
        reply["page"] = swapped(request, claim.review_id)
    return reply
