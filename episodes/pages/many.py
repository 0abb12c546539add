"""Pages about many episodes: the list with search, filters and saved views, and commands on a selection.

Owns HTTP status and template choice. Leaves the meaning of filters to `selection.py`, counts to `facets.py` and writes
to `recording.py` and `saved_views.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from episodes.find import facets, narrowing, search
from episodes.find.facets import COUNTED, Facet, ListQuery
from episodes.find.narrowing import SAID, matching
from episodes.find.selection import NOT_VERIFIED, newest
from episodes.models import Episode
from episodes.record import recording
from episodes.record.saved_views import EPISODE_VIEWS
from episodes.show import wall
from episodes.visible import visibility
from people.access import (
    MemberRequest,
    holds,
    may_annotate,
    may_export,
    may_launch,
    may_set_reviews,
    member_required,
    scoped,
)
from people.errors import Invalid

PAGE = 50
SELECTED = 200
NO_MATCH = "No episodes match."
LAG_S = 10
NOT_EXPORTED = ("q", "state", "tool", "asked", "error", "length", "briefed", "key", *SAID)
"""Filters of the list that exports do not have."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@require_GET
@member_required()
def episodes(request: MemberRequest) -> HttpResponse:
    """Show the list; search, filters and the place in it come from the query string."""
    actor = request.actor
    wish, refused = ListQuery.read(request.GET), ""
    found: list[Episode] = []
    counted, sieve, older = list[str](), list[Facet](), None
    try:
        counted, sieve = facets.counted(actor, wish)
        cursor = request.GET.get("cursor", "")
        # page 1 is the start of the counted episodes, so that the search runs once
        rows = matching(actor, wish.said) if cursor else Episode.objects.filter(pk__in=counted[: PAGE + 1])
        found, older = newest(rows.select_related("run"), cursor, PAGE)
    except Invalid as error:
        refused = error.message
    tally = {"total": wall.total_of(actor)} if wish.said else wall.tallies(actor)
    words, days = wish.first("q"), {name: _day(wish, name) for name in ("since", "until")}
    hits = search.hits(found, words)
    hits |= narrowing.hits(actor, [one.pk for one in found if one.pk not in hits], words)
    context = {
        "rows": [{"row": row, "hit": hits.get(row.episode.pk)} for row in wall.rows_with_outcomes(actor, found)],
        "older": f"{wish.query()}&{urlencode({'cursor': older})}" if older else "",
        "later": wish.query() if request.GET.get("cursor") else "",
        "wish": wish,
        "days": days,
        "has_days": any(days.values()),
        "hidden": [
            (name, value) for name, values in wish.without("q").items() for value in values if value != days.get(name)
        ],
        "facets": sieve,
        "chips": facets.chips(actor.project, wish),
        "refused": refused,
        "total": tally["total"],
        "withheld": visibility.withheld_here(actor),
        "lag": _lag() if words else "",
        "export_query": _export_query(wish),
        "not_exported": _not_exported(wish),
        "headline": _count_line(len(counted), tally["total"]) if wish.said else _headline(tally),
        "views": list(EPISODE_VIEWS.of(actor)),
        "me": actor.key,
        "may_export": holds(actor, may_export),
        "may_launch": holds(actor, may_launch),
        "may_label": holds(actor, may_annotate),
        "may_queue": holds(actor, may_set_reviews),
    }
    return render(request, "episodes/list.html", context)


def _day(wish: ListQuery, name: str) -> str:
    """Return the first plain date of a filter, for its field; times from the API are shown as chips only."""
    return next((value for value in wish.said.get(name, []) if _DAY.fullmatch(value)), "")


def _count_line(count: int, total: int) -> str:
    if count > COUNTED:
        return f"More than {COUNTED:,} episodes match."
    return f"{count:,} of {total:,} {'episode matches' if total == 1 else 'episodes match'}." if count else NO_MATCH


def _headline(tally: dict[str, int]) -> str:
    if not tally["total"]:
        return "No episodes yet."
    counts = f"{tally['total']} recorded, {tally['live']} live."
    if not tally["verified"]:
        return f"No verified episodes yet. {counts}"
    verified = "verified episode is" if tally["verified"] == 1 else "verified episodes are"
    return f"{tally['complete']} of {tally['verified']} {verified} complete. {counts}"


def _lag() -> str:
    """Return a sentence on which steps can be found."""
    until = search.read_until()
    behind = (timezone.now() - until).total_seconds() if until else None
    # the mark begins in the year 2000, see `indexing.py`
    if behind is None or behind > 10 * 365 * 86_400:
        return "No steps can be found yet: the worker has not read them."
    if behind < LAG_S:
        return "Steps can be found a few seconds after they are recorded."
    return f"Steps recorded in the last {behind:,.0f} s cannot be found yet."


def _export_query(wish: ListQuery) -> str:
    """Return the filters that exports have, too."""
    kept = {name: values for name, values in wish.said.items() if name not in NOT_EXPORTED}
    return urlencode(
        [(name, one) for name, values in kept.items() for one in values if (name, one) != ("outcome", NOT_VERIFIED)]
    )


def _not_exported(wish: ListQuery) -> list[str]:
    """Return the titles of the filters in use that exports do not have."""
    titles = [{**facets.TITLES, **facets.BESIDE}[name] for name in wish.said if name in NOT_EXPORTED]
    no_outcome = NOT_VERIFIED in wish.said.get("outcome", [])
    return [*titles, *([f"Outcome: {facets.WORDS['outcome'][NOT_VERIFIED]}"] if no_outcome else [])]


@require_POST
@member_required()
def save_view(request: MemberRequest) -> HttpResponse:
    """Save the filters of a query string under a name."""
    wish = ListQuery.of(request.POST.get("query", ""))
    shared = request.POST.get("shared") == "1"
    view = EPISODE_VIEWS.save(request.actor, request.POST.get("name", ""), wish.query(), shared=shared)
    messages.success(request, f"View {view.name} saved.")
    return redirect(f"{reverse('episodes')}{view.query}")


@require_POST
@member_required()
def remove_view(request: MemberRequest, pk: str) -> HttpResponse:
    EPISODE_VIEWS.remove(request.actor, pk)
    messages.success(request, "View removed.")
    return redirect("episodes")


@require_POST
@member_required()
def selected(request: MemberRequest) -> HttpResponse:
    """Run a command on the episodes that were selected in the list."""
    # PostgreSQL refuses U+0000 in a parameter
    ids = [one for one in request.POST.getlist("episode") if "\x00" not in one]
    if not 0 < len(ids) <= SELECTED:
        raise Invalid(f"Select 1 to {SELECTED} episodes.")
    # IDs come from a form: those of other projects drop out here
    chosen = list(scoped(Episode.objects.filter(pk__in=ids), request.project).values_list("pk", flat=True))
    act = ACTS.get(request.POST.get("act", ""))
    if act is None:
        raise Invalid(f"Unknown action. Use one of {', '.join(ACTS)}.")
    # in the order of the list, in which the page sent them
    return act(request, sorted(chosen, key=ids.index))


def _cancel(request: MemberRequest, ids: list[str]) -> HttpResponse:
    may_launch(request.actor)
    live = list(Episode.objects.live().filter(pk__in=ids).values_list("pk", flat=True))
    for pk in live:
        recording.cancel(request.actor, pk, request.POST.get("reason", "")[:500])
    messages.success(request, "1 live episode stopped." if len(live) == 1 else f"{len(live):,} live episodes stopped.")
    return redirect(f"{reverse('episodes')}{ListQuery.of(request.POST.get('query', '')).query()}")


def _export(request: MemberRequest, ids: list[str]) -> HttpResponse:
    """Show the page of exports with these episodes as its recipe."""
    may_export(request.actor)
    recipe = json.dumps({"filter": {"id": ids}})
    return redirect(f"{reverse('exports')}?{urlencode({'more': recipe})}")


def _compare(request: MemberRequest, ids: list[str]) -> HttpResponse:
    return redirect(f"{reverse('compare_episodes')}?{urlencode([('episode', pk) for pk in ids])}")


def _review(request: MemberRequest, ids: list[str]) -> HttpResponse:
    """Show the page of review queues, which asks for the queue to add these episodes to."""
    may_set_reviews(request.actor)
    return redirect(f"{reverse('reviews')}?{urlencode([('episode', pk) for pk in ids])}")


def _label(request: MemberRequest, ids: list[str]) -> HttpResponse:
    """Show the page that sets a label on these episodes."""
    may_annotate(request.actor)
    return redirect(f"{reverse('label_episodes')}?{urlencode([('episode', pk) for pk in ids])}")


ACTS: dict[str, Callable[[MemberRequest, list[str]], HttpResponse]] = {
    "cancel": _cancel,
    "export": _export,
    "compare": _compare,
    "review": _review,
    "label": _label,
}
