"""Saved views of the queue: list with counts, save, remove.

Owns HTTP status and form texts. What a view means is `filters.py`'s; writes are those of all saved views.
"""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpResponse, QueryDict
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from experts.find.filters import QueueQuery, matching
from experts.record.desk import QUEUE_VIEWS
from experts.who import eligibility
from people.access import MemberRequest, holds, may_see_queue, may_set_desk, member_required
from people.requests.forms import text_of
from people.requests.parts import part_of


@require_http_methods(["GET", "POST"])
@part_of("queue")
@member_required(may_see_queue)
def views(request: MemberRequest) -> HttpResponse:
    """Show the list; a POST saves the current query string under a name."""
    if request.method == "POST":
        shared = text_of(request.POST, "shared") == "1"
        QUEUE_VIEWS.save(request.actor, text_of(request.POST, "name"), _here(request).query(), shared=shared)
    return _list(request)


@require_POST
@member_required(may_see_queue)
def drop(request: MemberRequest, pk: str) -> HttpResponse:
    QUEUE_VIEWS.remove(request.actor, pk)
    return _list(request)


def _here(request: MemberRequest) -> QueueQuery:
    """Return the current query string without the page."""
    return replace(QueueQuery.read(request.GET), page=1)


def _list(request: MemberRequest) -> HttpResponse:
    actor, now, here = request.actor, timezone.now(), _here(request)
    spots, directs = eligibility.spots(actor, now), holds(actor, may_set_desk)
    rows = []
    for view in QUEUE_VIEWS.of(actor):
        wish = QueueQuery.read(QueryDict(view.query.removeprefix("?")))
        count, mine = len(matching(actor, spots, wish, now)), actor.owns(view.author_key)
        rows.append({"view": view, "count": count, "mine": mine, "may_drop": mine or directs, "here": wish == here})
    return HttpResponse(render_to_string("experts/queue/_views.html", {"rows": rows, "here": here.query()}))
