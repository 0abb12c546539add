"""The pages Projects and Audit.

Owns HTTP status and form words. Every write is a function of `projects.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from people import audit_trail
from people.access import (
    SESSION_ENTRIES,
    SESSION_PROJECT,
    Actor,
    MemberRequest,
    holds,
    may_manage_projects,
    member_required,
    memberships,
    person,
)
from people.errors import AppError, Invalid, NotFound
from people.models import Membership, verb_in_words
from people.record import projects
from people.requests import addresses
from people.requests.forms import MAX_ID, AddressFields, FormFields, Named, read, whole
from people.text.zones import zone_name, zone_of

CLOCKS = {"real_clocks": True, "recorded_clocks": False}


class ProjectForm(FormFields):
    """A command about a project: `do` says which."""

    do: str = ""
    name: str = ""
    slug: str = ""
    project: str = ""


@require_http_methods(["GET", "POST"])
@member_required(in_project=False)
@never_cache
def projects_page(request: MemberRequest) -> HttpResponse:
    """Show one's own projects; admins create, rename, archive and restore them, and choose their clocks."""
    problem, form = "", read(request.POST, ProjectForm)
    if request.method == "POST":
        try:
            _change(request, form)
        except AppError as refused:
            problem = refused.message
        else:
            return redirect(addresses.without_project("projects"))
    mine = memberships(request).annotate(members=Count("project__memberships"))
    rows = sorted(mine, key=lambda row: (row.project.archived_at is not None, row.project.name.lower()))
    context = {
        "rows": [
            {
                "membership": row,
                "manages": holds(person(row), may_manage_projects),
                "url": addresses.in_project(row.project.slug, ""),
            }
            for row in rows
        ],
        "here": request.project.pk,
        "may_create": holds(request.actor, may_manage_projects),
        "headline": _headline(rows),
        "problem": problem,
        "given": form if problem else {},
    }
    return render(request, "people/projects.html", context, status=422 if problem else 200)


def _headline(rows: Sequence[Membership]) -> str:
    archived = sum(one.project.archived_at is not None for one in rows)
    active = len(rows) - archived
    words = f"You have {active} active {'project' if active == 1 else 'projects'}"
    return f"{words} and {archived} archived." if archived else f"{words}."


def _change(request: MemberRequest, form: ProjectForm) -> None:
    command, name = form.do, form.name
    if command == "create":
        return _create(request, form)
    actor = _actor_in(request, form.project)
    if command == "rename":
        messages.success(request, f"Renamed to {projects.rename(actor, name).name}.")
    elif command == "archive":
        messages.success(request, f"Archived {projects.archive(actor).name}. It is read-only until you restore it.")
    elif command == "restore":
        messages.success(request, f"Restored {projects.restore(actor).name}.")
    elif command in CLOCKS:
        project = projects.choose_clocks(actor, CLOCKS[command])
        messages.success(request, f"New episodes of {project.name} use {command.replace('_', ' ')}.")
    else:
        raise Invalid("Choose an action: create, rename, archive, restore, real_clocks or recorded_clocks.")
    return None


def _create(request: MemberRequest, form: ProjectForm) -> None:
    made = projects.create_own(request.actor, form.slug, form.name)
    # A session acts only by the entries it has: without this one the new project would need another sign-in.
    request.session[SESSION_ENTRIES] = [*request.session.get(SESSION_ENTRIES, []), made.entry]
    request.session[SESSION_PROJECT] = made.project.slug
    messages.success(request, f"Created {made.project.name}. You are working in it now.")


def _actor_in(request: HttpRequest, slug: str) -> Actor:
    """Return the person's actor in the project that a form names, whatever project is selected."""
    # PostgreSQL refuses to compare with U+0000.
    membership = None if "\x00" in slug else memberships(request).filter(project__slug=slug).first()
    if membership is None:
        raise NotFound
    return person(membership)


class AuditAddress(AddressFields):
    """Which entries of the audit log are shown, and from where."""

    actor: str = ""
    verb: str = ""
    since: str = ""
    until: str = ""
    csv: Named = False
    before: Annotated[int | None, whole(most=MAX_ID)] = None


@require_GET
@member_required(may_manage_projects)
@never_cache
def audit_page(request: MemberRequest) -> HttpResponse:
    """Show who did what in this project, as a page or as CSV."""
    filters, problem, asked_for = audit_trail.Filters(), "", read(request.GET, AuditAddress)
    asked = {name: value for name in ("actor", "verb", "since", "until") if (value := getattr(asked_for, name))}
    try:
        filters = audit_trail.Filters.read(asked, zone_of(request))
    except Invalid as refused:
        problem = refused.message
    rows = filters.rows(request.actor) if not problem else filters.rows(request.actor).none()
    if asked_for.csv and not problem:
        name = f"audit-{request.project.slug}.csv"
        answer = HttpResponse(audit_trail.in_csv(rows[: audit_trail.CSV_ROWS]), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer
    total = rows.count()
    if asked_for.before is not None:
        rows = rows.filter(pk__lt=asked_for.before)
    # One row more than is shown, to know whether an older page exists.
    shown = list(rows[: audit_trail.PAGE_ROWS + 1])
    older = shown[audit_trail.PAGE_ROWS - 1].pk if len(shown) > audit_trail.PAGE_ROWS else None
    context: dict[str, Any] = {
        "entries": shown[: audit_trail.PAGE_ROWS],
        "actors": audit_trail.choices(request.actor, "actor"),
        "verbs": [(one, verb_in_words(one)) for one in audit_trail.choices(request.actor, "verb")],
        "asked": asked,
        "csv": urlencode({**asked, "csv": 1}),
        "older": urlencode({**asked, "before": older}) if older else "",
        "headline": f"{total:,} {'entry' if total == 1 else 'entries'}{' match' if asked else ' in the audit log'}.",
        "csv_rows": audit_trail.CSV_ROWS if total > audit_trail.CSV_ROWS else 0,
        "problem": problem,
        "zone": zone_name(zone_of(request)),
    }
    return render(request, "people/audit.html", context, status=422 if problem else 200)
