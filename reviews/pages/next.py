"""The next review: rendered while the reviewer works, claimed with their verdict, shown without a page load.

Owns the two requests for it. Leaves the page to `pages.py`, claims to `assigning.py` and verdicts to `deciding.py`.
"""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from people.access import MemberRequest
from people.parts import part_of
from reviews.errors import NothingToReview
from reviews.pages.one import decide, page_of, review_of
from reviews.record import assigning, deciding

SWAPPED = "_swapped.html"


@require_GET
@part_of("review")
@review_of
def ahead(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the page of the review that this person would get next, as if they had claimed it. Nothing is claimed, and
    everything that the claim would withhold is withheld."""
    try:
        with assigning.as_if_given(request.actor, pk) as following:
            page = page_of(request, following, ahead=True, frame=SWAPPED).content.decode()
    except NothingToReview:
        return HttpResponse(status=204)
    return JsonResponse({"review": following, "page": page})


@require_POST
@review_of
def verdict_next(request: MemberRequest, pk: str) -> HttpResponse:
    """Give the verdict and claim the next review, the rendered one if it is still free. If the verdict differs from the
    verifier, the page of this review comes first, because it asks for the reason."""
    actor = request.actor
    queue_id = decide(request, pk).review.queue_id
    shown = deciding.reveal(actor, pk)
    if shown.differs:
        return JsonResponse({"next": reverse("review", args=[pk]), "differs": True})
    drawn = request.POST.get("ahead", "")
    try:
        claim = assigning.pull(actor, queue_id, first=drawn)
    except NothingToReview:
        return JsonResponse({"next": reverse("review_queue", args=[queue_id])})
    reply = {
        "next": reverse("review", args=[claim.review_id]),
        "lease": {"token": claim.lease_token, "until": claim.lease_until.isoformat()},
        "verifier": "agrees" if shown.outcome is not None else "",
    }
    if claim.review_id != drawn:
        reply["page"] = page_of(request, claim.review_id, frame=SWAPPED).content.decode()
    return JsonResponse(reply)
