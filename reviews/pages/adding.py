"""The page that adds episodes to a review queue: those selected in a list, or all that match its filters.

Owns HTTP status, redirects and words. The write is `assigning.fill`; the counts are of `filling.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from episodes.find.facets import ListQuery
from episodes.find.narrowing import matching
from episodes.models import Episode
from people.access import MemberRequest, may_set_reviews, member_required, scoped
from people.errors import AppError, NotFound
from people.requests.forms import ids_of, text_of
from people.text.in_words import count
from reviews.models import ReviewQueue
from reviews.record import assigning, pairing
from reviews.statistics import filling

CHOSEN = 500
NEW = "new"


@dataclass(frozen=True)
class Selection:
    """Episodes to add, and the fields that name them in forms and addresses."""

    rows: QuerySet[Episode]
    fields: list[tuple[str, str]]

    @property
    def query(self) -> str:
        return urlencode(self.fields)


def selection_of(request: MemberRequest) -> Selection:
    """Read the episodes that a form or an address names: by ID, or by the filters of the list."""
    sent = request.POST if request.method == "POST" else request.GET
    if address := text_of(sent, "matching"):
        return Selection(matching(request.actor, ListQuery.of(address).said), [("matching", address)])
    ids = ids_of(sent, "episode")[:CHOSEN]
    rows = scoped(Episode.objects.filter(pk__in=ids), request.project)
    return Selection(rows, [("episode", pk) for pk in ids])


@require_http_methods(["GET", "POST"])
@member_required(may_set_reviews)
def add_to_queue(request: MemberRequest) -> HttpResponse:
    """Show the open queues with what the selection has in each, and add it to the chosen one."""
    selection, problem, status = selection_of(request), "", 200
    queue_id = text_of(request.POST, "queue")
    if request.method == "POST":
        if queue_id == NEW:
            return redirect(f"{reverse('reviews')}?{selection.query}")
        try:
            messages.success(request, fill(request, queue_id, selection))
            return redirect("review_queue", queue_id)
        except NotFound:
            problem, status = "Choose an open queue. Nothing was added.", 409
        except AppError as refused:
            problem, status = refused.message, refused.status
    choices = filling.choices(request.actor, selection.rows, assigning.FILL_MAX)
    context = {
        "selection": selection,
        "told": choices,
        "chosen": queue_id or next((one.queue.pk for one in choices.queues), NEW),
        "limit": assigning.FILL_MAX,
        "problem": problem,
    }
    return render(request, "reviews/add.html", context, status=status)


def fill(request: MemberRequest, queue_id: str, selection: Selection) -> str:
    """Add a selection to a queue, and return what became of it."""
    before = filling.choices(request.actor, selection.rows, assigning.FILL_MAX)
    added = assigning.fill(request.actor, queue_id, selection.rows)
    queue = ReviewQueue.objects.get(pk=queue_id)
    if queue.is_pairwise:
        return f"Added {count(added, 'pair')} to {queue.name}. A task has at most {pairing.PAIRS} in a queue."
    there = next((one.there for one in before.queues if one.queue.pk == queue_id), 0)
    repeats = f" {count(there, 'episode')} {'was' if there == 1 else 'were'} already in it." if there else ""
    open_ones = before.total - before.ready
    waits = f" {count(open_ones, 'episode')} can't be reviewed yet." if open_ones else ""
    return f"Added {count(added, 'episode')} to {queue.name}.{repeats}{waits}"
