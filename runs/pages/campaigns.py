"""Pages: the campaigns of a project with the form that launches one, and one campaign.

Owns the form and HTTP status. Leaves launching to `runs.play.campaigning`, and what one shows to `runs.show.campaigns`.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from episodes.find import facets
from episodes.find.facets import ListCounts, ListQuery
from episodes.find.selection import newest
from episodes.record.saved_views import EPISODE_VIEWS
from episodes.show.filter_form import filter_form, match_line
from people.access import MemberRequest, holds, may_launch, may_see_asking, member_required
from people.errors import AppError, Invalid
from people.requests.form_ids import form_id
from people.requests.forms import FormFields, labeled, number_in, read, text_of
from people.text.zones import zone_of
from runs.launch import launching
from runs.models import Campaign
from runs.play import campaigning, forking
from runs.show import campaigns, charts, errata, timing

LISTED, ROOTS = 10, 200
"""The most campaigns, and roots of one, on a page."""
LABELS = {
    "name": "What do you want to find out?", "most": "Most episodes", "points": "Times", "tries": "Branches per arm",
    "budget": "Most tokens", "change.words": "Words", "change.ask.question": "Question", "change.policy": "Model",
}  # fmt: skip


@require_http_methods(["GET", "POST"])
@member_required(may_see_asking)
def campaigns_page(request: MemberRequest) -> HttpResponse:
    """Show the campaigns; a POST estimates or launches one, or shows the form again with the errors."""
    problem, status, plan, form = "", 200, None, read(request.POST, CampaignForm)
    if request.method == "POST":
        may_launch(request.actor)
        try:
            start = campaigning.start_of(_start_in(form))
            if form.do == "launch":
                made = campaigning.launch(request.actor, start, form_id(request.POST))
                messages.success(request, "Campaign launched.")
                return redirect("campaign", made.pk)
            plan = campaigning.planned(request.actor, start)
        except AppError as refused:
            problem, status = labeled(refused.message, LABELS), refused.status
    page, older = newest(campaigns.of(request.actor), text_of(request.GET, "cursor"), LISTED)
    rows = [(one, campaigns.seen(request.actor, one)) for one in page]
    active = sum(found.state in ("forking", "running") for _, found in rows)
    context = {
        "rows": rows,
        "older": older,
        "headline": _headline(len(rows), active),
        "plan": plan,
        "problem": problem,
        "typed": request.POST,
        "form_id": form_id(request.POST),
        "policies": launching.model_names(),
        "places": Campaign.Place.choices,
        "kinds": Campaign.Kind.choices,
        "points": form.points or ", ".join(map(str, timing.SHARES)),
        "may_launch": holds(request.actor, may_launch),
        "most": campaigning.ROOTS,
        "roots_max": campaigning.ROOTS_MAX,
        "tries_max": forking.TRIES_MAX,
    }
    if context["may_launch"]:
        context |= _chosen(request, form.query)
    return render(request, "runs/campaigns.html", context, status=status)


def _chosen(request: MemberRequest, typed: str) -> dict[str, Any]:
    """Return the form of *Episodes* for those that a campaign forks, with how many match."""
    wish = ListQuery.of(typed) if typed else ListQuery.read(request.GET)
    wish = ListQuery(wish.said) if wish.said else ListQuery.of(campaigning.FAILED)
    refused, counted = "", ListCounts([], [])
    try:
        counted = facets.counted(request.actor, wish)
    except Invalid as error:
        refused = error.message
    return {
        "wish": wish,
        "filters": filter_form(request.actor, wish, counted.facets, zone_of(request)),
        "matching": refused or match_line(counted),
        "total": bool(counted.facets),
        "views": list(EPISODE_VIEWS.of(request.actor)),
    }


def _headline(some: int, active: int) -> str:
    if not some:
        return "No campaigns yet."
    return f"{active or 'No'} {'campaign is' if active < 2 else 'campaigns are'} active."


class CampaignForm(FormFields):
    """A campaign: where it forks, with which change, and how often. Numbers that are empty are the usual ones."""

    do: str = ""
    name: str = ""
    query: str = ""
    at: str = ""
    kind: str = "words"
    words: str = ""
    ask: str = ""
    policy: str = ""
    points: str = ""
    tries: str = ""
    budget: str = ""
    most: str = ""


def _start_in(form: CampaignForm) -> dict[str, Any]:
    text = getattr(form, form.kind).strip() if form.kind in Campaign.Kind.values else ""
    change = {form.kind: {"question": text} if form.kind == "ask" else text}
    points = [_whole(part, "points") for part in form.points.replace(",", " ").split()]
    numbers = {"tries": "4", "budget": "0", "most": f"{campaigning.ROOTS}"}
    texts = form.model_dump()
    return {
        **{name: texts[name] for name in ("name", "query", "at") if texts[name]},
        **{name: _whole(texts[name].strip() or standard, name) for name, standard in numbers.items()},
        **({"points": points} if points else {}),
        "change": change,
    }


def _whole(text: str, name: str) -> int:
    if (number := number_in(text, 10**13)) is None:
        raise Invalid(f"{name}: use whole numbers.")
    return number


@require_GET
@member_required(may_see_asking, rows=Campaign.objects.all)
def campaign_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show a campaign: its sentence, its curve, and its roots with their forks."""
    actor = request.actor
    campaign = campaigns.visible(actor, pk)
    report = campaigns.seen(actor, campaign)
    shown = report.finding
    context = {
        "campaign": campaign,
        "found": report,
        "progress": report.progress,
        "percent": round(100 * report.progress.share),
        "is_live": report.state in ("forking", "running"),
        "charts": charts.demand(shown) if shown is not None and campaign.points else [],
        "cells": shown.cells if shown is not None else [],
        "kinds": shown.sentences[1:] if shown is not None else [],
        "points": report.points[:ROOTS],
        "more": max(0, len(report.points) - ROOTS),
        "labels": campaigns.labels(campaign),
        "change": next(iter(campaign.change.values()), ""),
        "may_launch": holds(actor, may_launch),
        "errata": errata.of_campaign(report),
    }
    return render(request, "runs/campaign.html", context)


@require_POST
@member_required(may_launch, rows=Campaign.objects.all)
def cancel(request: MemberRequest, pk: str) -> HttpResponse:
    """Cancel a campaign with its live branches."""
    try:
        campaigning.cancel(request.actor, pk)
        messages.success(request, "Campaign cancelled.")
    except AppError as refused:
        messages.error(request, refused.message)
    return redirect("campaign", pk)
