"""The page Retention: rules, a preview of them, legal holds, and what the rules erased."""

from __future__ import annotations

from typing import Annotated, Any

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
from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_manage_people,
    may_manage_projects,
    member_required,
    visible_or_404,
)
from people.errors import AppError, Invalid
from people.models import Hold, Tombstone
from people.record import holding
from people.requests.forms import FormFields, Stripped, is_named, read, whole

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
    mine, is_previewed = rules.rules_of(project), is_named(request.GET, "preview")
    previews = {one.rule.kind: one for one in passes.preview(project, PREVIEW_S)} if is_previewed else {}
    held = list(holding.in_force(project))
    stones = Tombstone.objects.filter(project=project, kind=Tombstone.Kind.RULE).order_by("-at")
    return {
        "headline": _headline(len(mine), held),
        "rules": [_shown(kind, mine.get(name), previews.get(name)) for name, kind in KINDS.items()],
        "holds": held,
        "views": list(EPISODE_VIEWS.of(request.actor)),
        "batches": [
            {"row": stone, "size": len(stone.about.get("ids", ())), "lost": stone.datasets} for stone in stones[:SHOWN]
        ],
        "previewed": is_previewed,
        "cut_short": any(not one.is_whole for one in previews.values()),
        "preview_s": round(PREVIEW_S),
        "any_rule": bool(mine),
        "may_set": holds(request.actor, may_manage_people),
    }


def _headline(number: int, held: list[Hold]) -> str:
    if any(one.place == Hold.Place.PROJECT for one in held):
        return "The project is on legal hold. Nothing is erased."
    summary = f"{number} of {len(KINDS)} retention rules are set" if number else "Everything is kept"
    return (
        f"{summary}; {len(held)} legal {'hold is' if len(held) == 1 else 'holds are'} in force."
        if held
        else f"{summary}."
    )


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


class RetentionForm(FormFields):
    """A rule, a new legal hold, or the release of one: `do` says which."""

    do: str = ""
    kind: str = ""
    days: Annotated[int | None, whole("Enter whole days, or none to keep everything.")] = None
    states: list[str] = []
    hold: str = ""
    place: str = ""
    reason: str = ""
    episode: Stripped = ""
    view: str = ""


def _change(request: MemberRequest) -> None:
    form = read(request.POST, RetentionForm)
    if form.do == "rule":
        rules.set_rule(request.actor, form.kind, form.days, form.states)
        messages.success(request, f"Saved: {KINDS[form.kind].label.lower()}.")
    elif form.do == "hold":
        messages.success(request, f"Legal hold placed on {_place(request.actor, form)}.")
    elif form.do == "release":
        messages.success(request, f"Legal hold on {holding.release(request.actor, form.hold)} released.")
    else:
        raise Invalid("Choose an action: rule, hold or release.")


def _place(actor: Actor, form: RetentionForm) -> Hold:
    may_manage_projects(actor)
    if form.place == Hold.Place.PROJECT:
        return holding.place(actor, Hold.Place.PROJECT, form.reason)
    if form.place == Hold.Place.EPISODE:
        episode = visible_or_404(Episode.every.all(), actor, form.episode)
        return holding.place(actor, Hold.Place.EPISODE, form.reason, subject=episode.pk)
    if form.place == Hold.Place.VIEW:
        view = visible_or_404(EPISODE_VIEWS.of(actor), actor, form.view)
        return holding.place(actor, Hold.Place.VIEW, form.reason, subject=view.pk, name=view.name, query=view.query)
    raise Invalid(f"Use one of {', '.join(Hold.Place.values)}.")
