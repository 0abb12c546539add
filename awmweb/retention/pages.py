"""The page Retention: rules, a preview of them, legal holds, and what the rules erased."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from awmweb.retention import passes, rules
from awmweb.retention.kinds import KINDS
from awmweb.retention.rule_pass import RetentionKind
from episodes.models import Episode
from episodes.record.saved_views import EPISODE_VIEWS
from people.access import MemberRequest, holds, may_manage_people, may_manage_projects, member_required, visible_or_404
from people.errors import AppError, Invalid
from people.models import Hold, Tombstone
from people.record import holding

SHOWN = 20
"""Batches that the page lists, the newest first."""
PREVIEW_S = 4.0
"""For so long a preview on the page counts."""


@require_http_methods(["GET", "POST"])
@member_required(may_manage_projects)
@never_cache
def retention_page(request: MemberRequest) -> HttpResponse:
    """Show and set what goes by age, and what is held."""
    problem = ""
    if request.method == "POST":
        try:
            _change(request)
        except AppError as refused:
            problem = refused.message
        else:
            return redirect("retention")
    context = _context(request) | {"problem": problem, "given": request.POST if problem else {}}
    return render(request, "awmweb/retention.html", context, status=422 if problem else 200)


def _context(request: MemberRequest) -> dict[str, Any]:
    project = request.project
    mine = rules.rules_of(project)
    previews = {one.rule.kind: one for one in passes.preview(project, PREVIEW_S)} if "preview" in request.GET else {}
    held = list(holding.in_force(project))
    stones = Tombstone.objects.filter(project=project, kind=Tombstone.Kind.RULE).order_by("-at")
    return {
        "headline": _headline(len(mine), held),
        "rules": [_shown(kind, mine.get(name), previews.get(name)) for name, kind in KINDS.items()],
        "holds": held,
        "views": list(EPISODE_VIEWS.of(request.actor)),
        "batches": [
            {"row": one, "size": len(one.about.get("ids", ())), "lost": one.datasets} for one in stones[:SHOWN]
        ],
        "previewed": "preview" in request.GET,
        "cut_short": any(not one.is_whole for one in previews.values()),
        "preview_s": round(PREVIEW_S),
        "any_rule": bool(mine),
        "may_set": holds(request.actor, may_manage_people),
    }


def _headline(number: int, held: list[Hold]) -> str:
    if any(one.place == Hold.Place.PROJECT for one in held):
        return "The project is on legal hold. Nothing is erased."
    said = f"{number} of {len(KINDS)} retention rules are set" if number else "Everything is kept"
    return f"{said}; {len(held)} legal {'hold is' if len(held) == 1 else 'holds are'} in force." if held else f"{said}."


def _shown(kind: RetentionKind, rule: Any, report: Any) -> dict[str, Any]:
    chosen = rule.states if rule is not None else kind.states
    return {
        "kind": kind.name,
        "label": kind.label,
        "erases": kind.erases,
        "days": rule.days if rule is not None else "",
        "states": [(state, state.replace("_", " "), state in chosen) for state in kind.states],
        "report": report,
        "would": kind.counted(report) if report is not None else "",
        "left": sorted(report.left.items()) if report is not None else [],
    }


def _change(request: MemberRequest) -> None:
    command, given = request.POST.get("do", ""), request.POST
    if command == "rule":
        kind, days = given.get("kind", ""), given.get("days", "").strip()
        if days and not (days.isascii() and days.isdecimal() and len(days) < 7):
            raise Invalid("Enter whole days, or none to keep everything.")
        rules.set_rule(request.actor, kind, int(days) if days else None, given.getlist("states"))
        messages.success(request, f"Saved: {KINDS[kind].label.lower()}.")
    elif command == "hold":
        messages.success(request, f"Legal hold placed on {_place(request)}.")
    elif command == "release":
        messages.success(request, f"Legal hold on {holding.release(request.actor, given.get('hold', ''))} released.")
    else:
        raise Invalid("Choose an action: rule, hold or release.")


def _place(request: MemberRequest) -> Hold:
    actor, where, reason = request.actor, request.POST.get("place", ""), request.POST.get("reason", "")
    may_manage_projects(actor)
    if where == Hold.Place.PROJECT:
        return holding.place(actor, Hold.Place.PROJECT, reason)
    if where == Hold.Place.EPISODE:
        episode = visible_or_404(Episode.every.all(), actor, request.POST.get("episode", "").strip())
        return holding.place(actor, Hold.Place.EPISODE, reason, subject=episode.pk)
    if where == Hold.Place.VIEW:
        view = visible_or_404(EPISODE_VIEWS.of(actor), actor, request.POST.get("view", ""))
        return holding.place(actor, Hold.Place.VIEW, reason, subject=view.pk, name=view.name, query=view.query)
    raise Invalid(f"Use one of {', '.join(Hold.Place.values)}.")
