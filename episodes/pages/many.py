"""Pages about many episodes: the list with search, filters and saved views, and commands on a selection.

Owns HTTP status and template choice. Leaves the meaning of filters to `selection.py`, counts to `facets.py` and writes
to `recording.py` and `saved_views.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from pydantic import Field

from episodes.find import columns as columns_of_apps
from episodes.find import facets, narrowing, recent, search, sorting
from episodes.find.facets import COUNTED, ListCounts, ListQuery
from episodes.find.narrowing import SAID, matching
from episodes.find.selection import NOT_VERIFIED, among, moment_of
from episodes.models import Episode
from episodes.pages.comparing import MULTIPLES
from episodes.record import ending
from episodes.record.saved_views import EPISODE_VIEWS
from episodes.show import wall
from episodes.show.filter_form import DAY, filter_form, match_line
from people.access import (
    Actor,
    MemberRequest,
    holds,
    is_id,
    may_annotate,
    may_export,
    may_launch,
    may_set_reviews,
    member_required,
    scoped,
)
from people.errors import AppError, Invalid
from people.requests.addresses import is_visit
from people.requests.forms import FormFields, Ticked, cut, read, text_of
from people.requests.selections import keep, take
from people.text.zones import zone_of

PAGE = 50
SELECTED = 200
PAGE_NAME = "episodes"
COLUMNS = {
    **{"steps": "Steps", "arm": "Arm", "length": "Actions", "asks": "Asks", "duration": "Duration"},
    **{"started": "Started", "ended": "Ended", **columns_of_apps.COLUMNS, "run": "Run", "policy": "Policy"},
}
"""Columns of the list beside outcome and task."""
COLUMNS_MAX = 8
"""More do not fit beside each other."""
NUMBERS = ("length", "asks", "duration", "started", "ended", "waited", "tokens")
SHOWN = ("steps", "arm", "length", "asks", "duration", "started")
LAG_S = 10
NOT_EXPORTED = ("q", "state", "tool", "asked", "error", "length", "briefed", "key", *SAID)
"""ListFilters of the list that exports do not have."""


@require_GET
@member_required()
def episodes(request: MemberRequest) -> HttpResponse:
    """Show the list; search, filters and the place in it come from the query string."""
    actor, wish, cursor = request.actor, ListQuery.read(request.GET), text_of(request.GET, "cursor")
    look, rows, refused = _look(wish), ListRows([], "", "", 0), ""
    counted = facets.ListCounts([], [])
    try:
        counted = facets.counted(actor, wish)
        rows = _rows(actor, wish, look, counted.ids, cursor)
    except Invalid as error:
        refused = error.message
    tally = wall.Tallies(wall.total_of(actor)) if wish.said else wall.tallies(actor)
    context = {
        "headline": _count_line(counted, tally) if wish.said else _headline(tally),
        "total": tally.total,
        "total_words": tally.total_words,
        "reach": _reach(wish, counted),
        "refused": refused,
        "lag": _lag() if wish.first("q") else "",
        "wish": wish,
        "filters": filter_form(actor, wish, counted.facets, zone_of(request)),
        "export_query": _export_query(wish),
        "not_exported": _not_exported(wish),
        "found": rows,
        "look": look,
        "cursor": cursor,
        "selection": ListSelection(
            take(request, PAGE_NAME) if is_visit(request) else "",
            _live_of(counted.ids) if holds(actor, may_launch) else 0,
        ),
        "views": list(EPISODE_VIEWS.of(actor)),
        "me": actor.key,
        "may": {name: holds(actor, right) for name, right in RIGHTS.items()},
    }
    return render(request, "episodes/list.html", context)


@dataclass(frozen=True)
class ListReach:
    """How far the list looked: at the newest `looked` episodes, or at the words of those before. `whole` is the address
    of the list that looks at all, or empty."""

    looked: int
    is_narrow: bool
    by_words: bool
    whole: str


def _reach(wish: ListQuery, counted: ListCounts) -> ListReach:
    is_part = counted.window is not None or counted.by_index
    whole = replace(wish, looks={**wish.looks, facets.WHOLE: ["1"]}).query() if is_part else ""
    return ListReach(recent.LOOKED, counted.is_narrow and not counted.by_index, counted.by_index, whole)


@dataclass(frozen=True)
class ListRows:
    """A page of the list, the addresses of the pages beside it, and how many match."""

    rows: list[dict[str, Any]]
    before: str
    after: str
    count: int

    @property
    def counted_max(self) -> int:
        return COUNTED

    @property
    def is_uncounted(self) -> bool:
        return self.count > self.counted_max


def _rows(actor: Actor, wish: ListQuery, look: ListLook, counted: list[str], cursor: str) -> ListRows:
    page = _page(actor, wish, counted, look.order, cursor)
    rows_by_id = Episode.every.select_related("run").in_bulk(page.ids)
    listed = [rows_by_id[pk] for pk in page.ids if pk in rows_by_id]
    words = wish.first("q")
    hits = search.hits(listed, words)
    hits |= narrowing.hits(actor, [one.pk for one in listed if one.pk not in hits], words)
    cells = columns_of_apps.cells(actor, look.columns, page.ids)
    rows = [
        {"row": row, "hit": hits.get(row.episode.pk), "cells": cells[row.episode.pk]}
        for row in wall.rows_with_outcomes(actor, listed)
    ]
    return ListRows(rows, _address(wish, page.before), _address(wish, page.after), len(counted))


@dataclass(frozen=True)
class ListLook:
    """The order and the columns of the list, and the choices for both. Another choice of columns keeps `kept`."""

    order: str
    columns: tuple[str, ...]
    orders: list[tuple[str, str, bool]]
    heads: list[Head]
    choices: list[tuple[str, str, bool]]
    kept: list[tuple[str, str]]

    columns_max = COLUMNS_MAX

    @property
    def order_words(self) -> str:
        return sorting.ORDERS.get(self.order, sorting.ORDERS[sorting.NEWEST])


def _look(wish: ListQuery) -> ListLook:
    order, columns = wish.looks.get("sort", [sorting.NEWEST])[0], _columns(wish)
    kept = {**wish.said, **wish.looks, "columns": []}
    return ListLook(
        order,
        columns,
        [(wish.query(sort=[name]), words, name == order) for name, words in sorting.ORDERS.items()],
        [_head(wish, name, order) for name in columns],
        [(name, words, name in columns) for name, words in COLUMNS.items()],
        [(name, one) for name, values in kept.items() for one in values],
    )


@dataclass(frozen=True)
class ListSelection:
    """What the bar below the list needs. `kept`: the episodes of a refused form; `live`: how many can be stopped."""

    kept: str
    live: int

    most, compared = SELECTED, MULTIPLES


RIGHTS = {"export": may_export, "launch": may_launch, "label": may_annotate, "queue": may_set_reviews}
"""What a person may do with the episodes of the list."""


def _live_of(counted: list[str]) -> int:
    """Return how many of all that match are live; no command takes more than `SELECTED`."""
    return Episode.every.live().filter(pk__in=counted).count() if len(counted) <= SELECTED else 0


def _columns(wish: ListQuery) -> tuple[str, ...]:
    """Return the columns that an address names, in the order of the list; the first of too many."""
    chosen = wish.looks.get("columns")
    named = chosen[0].split(",") if chosen else SHOWN
    return tuple(name for name in COLUMNS if name in named)[:COLUMNS_MAX]


def _page(actor: Actor, wish: ListQuery, counted: list[str], order: str, cursor: str) -> sorting.ListPage:
    """Return one page. The counted episodes are a list's first ones, and often all of it, so the search runs once."""
    is_first = not cursor and order == sorting.NEWEST
    rows: QuerySet[Episode] = Episode.every.filter(pk__in=counted[: PAGE + 1] if is_first else among(counted))
    if len(counted) > COUNTED and order != sorting.NEWEST:
        rows = matching(actor, wish.said)
    page = sorting.page(actor, rows, order, cursor, PAGE)
    # beside or past those that were counted; matches are then so frequent that a page of them is near
    if len(counted) > COUNTED and cursor and (sorting.place_of(cursor) not in counted or not page.after):
        return sorting.page(actor, matching(actor, wish.said), order, cursor, PAGE)
    return page


def _address(wish: ListQuery, cursor: str) -> str:
    query = wish.query()
    return f"{query}{'&' * (query != '?')}{urlencode({'cursor': cursor})}" if cursor else ""


@dataclass(frozen=True)
class Head:
    """The head of a column; `query` is the address that sorts by it or turns its order, `now` its order now."""

    name: str
    words: str
    css: str
    query: str
    now: str


def _head(wish: ListQuery, name: str, order: str) -> Head:
    css = "n" if name in NUMBERS else ""
    if name not in sorting.ORDERS:
        return Head(name, COLUMNS[name], css, "", "")
    now = {name: "ascending", f"-{name}": "descending"}.get(order, "")
    return Head(name, COLUMNS[name], css, wish.query(sort=[name if order == f"-{name}" else f"-{name}"]), now)


def _count_line(counted: ListCounts, tally: wall.Tallies) -> str:
    return match_line(counted, (tally.total_words, "episode matches" if tally.total == 1 else "episodes match"))


def _headline(tally: wall.Tallies) -> str:
    if not tally.total:
        return "No episodes yet."
    total = tally.total_words
    counts = f"{total[0].upper()}{total[1:]} recorded, {tally.live:,} live."
    if not tally.verified:
        return f"No outcomes yet. {counts}"
    verified = "outcome is" if tally.verified == 1 else "outcomes are"
    newest = "the newest " * tally.is_newest
    return f"{tally.complete:,} of {newest}{tally.verified:,} {verified} complete. {counts}"


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
    # a recipe has no reader, so days become moments
    kept |= {name: list(map(_moment_of, kept[name])) for name in ("since", "until") if name in kept}
    return urlencode(
        [(name, one) for name, values in kept.items() for one in values if (name, one) != ("outcome", NOT_VERIFIED)]
    )


def _moment_of(text: str) -> str:
    try:
        return moment_of(text).isoformat() if DAY.fullmatch(text) else text
    except Invalid:  # February 30; the list says so
        return text


def _not_exported(wish: ListQuery) -> list[str]:
    """Return the titles of the filters in use that exports do not have."""
    titles = [{**facets.TITLES, **facets.BESIDE}[name] for name in wish.said if name in NOT_EXPORTED]
    no_outcome = NOT_VERIFIED in wish.said.get("outcome", [])
    return [*titles, *([f"Outcome: {facets.WORDS['outcome'][NOT_VERIFIED]}"] if no_outcome else [])]


class ListForm(FormFields):
    """A command of the list: the query string that it has, and the episodes that were selected in it."""

    query: str = ""
    cursor: Annotated[str, cut(400)] = ""
    name: str = ""
    shared: Ticked = False
    act: str = ""
    ids: Annotated[list[str], Field(alias="episode")] = []
    is_all: Annotated[Ticked, Field(alias="all")] = False

    @property
    def wish(self) -> ListQuery:
        return ListQuery.of(self.query)


@require_POST
@member_required()
def save_view(request: MemberRequest) -> HttpResponse:
    """Save the filters and the look of a query string under a name."""
    form = read(request.POST, ListForm)
    try:
        view = EPISODE_VIEWS.save(request.actor, form.name, form.wish.query(), shared=form.shared)
    except Invalid as refused:
        return _refused(request, refused, form)
    messages.success(request, f"View {view.name} saved.")
    return redirect(f"{reverse('episodes')}{view.query}")


@require_POST
@member_required()
def remove_view(request: MemberRequest, pk: str) -> HttpResponse:
    EPISODE_VIEWS.remove(request.actor, pk)
    messages.success(request, "View removed.")
    return redirect("episodes")


@dataclass(frozen=True)
class Chosen:
    """The episodes of a command: those that were selected, or with `is_all` the first of all that match."""

    wish: ListQuery
    ids: list[str]
    is_all: bool


def _refused(request: MemberRequest, refused: AppError, form: ListForm) -> HttpResponse:
    """Show why a form of the list was refused, above the same page of the list."""
    messages.error(request, refused.message)
    return redirect(f"{reverse('episodes')}{_address(form.wish, form.cursor) or form.wish.query()}")


@require_POST
@member_required()
def selected(request: MemberRequest) -> HttpResponse:
    """Run a command on the episodes that were selected in the list, or on all that match its filters."""
    form = read(request.POST, ListForm)
    try:
        act = ACTS.get(form.act)
        if act is None:
            raise Invalid(f"Unknown action. Use one of {', '.join(ACTS)}.")
        return act(request, _chosen(request, form))
    except Invalid as refused:
        keep(request, PAGE_NAME, [*filter(is_id, form.ids)], is_all=form.is_all)
        return _refused(request, refused, form)


def _chosen(request: MemberRequest, form: ListForm) -> Chosen:
    wish, ids = form.wish, [*filter(is_id, form.ids)]
    if form.is_all:
        # those that the list has: it can look at the newest episodes alone
        return Chosen(wish, facets.counted(request.actor, wish).ids[: SELECTED + 1], is_all=True)
    if not 0 < len(ids) <= SELECTED:
        raise Invalid(f"Select 1 to {SELECTED} episodes.")
    # IDs come from a form: those of other projects drop out here
    here = set(scoped(Episode.every.filter(pk__in=ids), request.project).values_list("pk", flat=True))
    # in the order of the list, in which the page sent them
    return Chosen(wish, [pk for pk in ids if pk in here], is_all=False)


def _ids(chosen: Chosen, least: int = 1, most: int | None = None) -> list[str]:
    """Return the episodes of a command that takes this many."""
    most = SELECTED if most is None else most
    if not least <= len(chosen.ids) <= most:
        raise Invalid(f"Select {least} to {most} episodes. Nothing was changed.")
    return chosen.ids


def _cancel(request: MemberRequest, chosen: Chosen) -> HttpResponse:
    may_launch(request.actor)
    reason = text_of(request.POST, "reason", 500)
    live = list(Episode.every.live().filter(pk__in=_ids(chosen)).values_list("pk", flat=True))
    for pk in live:
        ending.cancel(request.actor, pk, reason)
    messages.success(request, "1 live episode stopped." if len(live) == 1 else f"{len(live):,} live episodes stopped.")
    return redirect(f"{reverse('episodes')}{chosen.wish.query()}")


def _export(request: MemberRequest, chosen: Chosen) -> HttpResponse:
    """Show the page of exports with these episodes as its recipe; with the filters, if more match than it can name."""
    may_export(request.actor)
    if chosen.is_all and len(chosen.ids) > SELECTED:
        if missing := _not_exported(chosen.wish):
            raise Invalid(f"Exports can't filter by {', '.join(missing)}. Select up to {SELECTED} episodes instead.")
        return redirect(f"{reverse('exports')}?{_export_query(chosen.wish)}")
    recipe = json.dumps({"filter": {"id": _ids(chosen)}})
    return redirect(f"{reverse('exports')}?{urlencode({'more': recipe})}")


def _compare(request: MemberRequest, chosen: Chosen) -> HttpResponse:
    ids = _ids(chosen, 2, MULTIPLES)
    return redirect(f"{reverse('compare_episodes')}?{urlencode([('episode', pk) for pk in ids])}")


def _review(request: MemberRequest, chosen: Chosen) -> HttpResponse:
    """Show the page that asks for the queue to add these episodes to."""
    may_set_reviews(request.actor)
    if chosen.is_all and len(chosen.ids) > SELECTED:
        return redirect(f"{reverse('add_to_queue')}?{urlencode({'matching': chosen.wish.query()})}")
    return redirect(f"{reverse('add_to_queue')}?{urlencode([('episode', pk) for pk in _ids(chosen)])}")


def _label(request: MemberRequest, chosen: Chosen) -> HttpResponse:
    """Show the page that sets a label on these episodes."""
    may_annotate(request.actor)
    return redirect(f"{reverse('label_episodes')}?{urlencode([('episode', pk) for pk in _ids(chosen)])}")


ACTS: dict[str, Callable[[MemberRequest, Chosen], HttpResponse]] = {
    "cancel": _cancel,
    "export": _export,
    "compare": _compare,
    "review": _review,
    "label": _label,
}
