"""Pages of briefings: the tasks with people's briefings, and one task with the form for its next briefing.

Owns forms and HTTP status. Leaves writes to `briefings.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods
from pydantic import Field

from awmclient.schema import BRIEFING_MAX
from episodes.stored.packs import blockers_of, packs
from people.access import MemberRequest, holds, may_launch, may_read, may_set_reviews, member_required
from people.errors import AppError
from people.requests.forms import FormFields, read
from runs.launch import briefings, launching


@require_GET
@member_required(may_read)
def briefings_page(request: MemberRequest) -> HttpResponse:
    """List the tasks of the loaded packs, those without a briefing first."""
    tasks = [
        (scenario, idx, text)
        for pack in packs()
        for scenario in sorted(pack.scenarios)
        for idx, text in enumerate(pack.tasks(scenario))
    ]
    written = briefings.newest(request.project, [(scenario, idx) for scenario, idx, _ in tasks])
    rows = [(scenario, idx, text, written.get((scenario, idx))) for scenario, idx, text in tasks]
    context = {
        "lacking": [row for row in rows if row[3] is None],
        "written": [row for row in rows if row[3] is not None],
        "may_launch": holds(request.actor, may_launch),
    }
    return render(request, "runs/briefings.html", context)


class BriefingForm(FormFields):
    """The next briefing of a task, and the earlier answers that it was made from."""

    text: str = ""
    saw: str = ""
    sources: Annotated[list[str], Field(alias="source")] = []


@require_http_methods(["GET", "POST"])
@member_required(may_read)
def briefing_page(request: MemberRequest, scenario: str, task_idx: int) -> HttpResponse:
    """Show the briefings of a task; a POST writes one, or shows the form again with the errors."""
    task = launching.task_text(scenario, task_idx)
    problem, status, form = "", 200, read(request.POST, BriefingForm)
    if request.method == "POST":
        try:
            flags = {"saw_outcomes": form.saw == "yes"}
            briefings.write(request.actor, scenario, task_idx, form.text, form.sources, **flags)
        except AppError as refused:
            problem, status = refused.message, refused.status
        else:
            messages.success(request, "Briefing saved. Runs that start from now on use it.")
            return redirect("briefing", scenario, task_idx)
    seen = briefings.of_task(request.actor, scenario, task_idx)
    mine = next((one for one in seen if one.briefing.run_id is None), None)
    chosen = form.sources if request.method == "POST" else mine.briefing.sources if mine else []
    context: dict[str, Any] = {
        "scenario": scenario,
        "task_idx": task_idx,
        "task": task,
        "seen": seen,
        "current": mine,
        "typed": form.text if request.method == "POST" else mine.text if mine else "",
        "saw": form.saw == "yes" or bool(mine and mine.briefing.sees_verifier),
        "earlier": [(one, one.pk in chosen) for one in briefings.earlier(request.actor, scenario, task_idx)],
        "most": BRIEFING_MAX,
        # for those who can read the task's verifier in its court case
        "blockers": blockers_of(scenario, task_idx) if holds(request.actor, may_set_reviews) else [],
        "may_launch": holds(request.actor, may_launch),
        "problem": problem,
    }
    return render(request, "runs/briefing.html", context, status=status)
