"""The page Curriculum: phase, ratio and its cause, levels, next tasks, and people's decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from curriculum import next_tasks, snapshots
from curriculum.errors import NoRun
from curriculum.models import Decision
from curriculum.record import steering
from curriculum.rules.plan import CurriculumPlan
from curriculum.show import cockpit, generations, rounds, series
from episodes.models import Run
from episodes.visible import visibility
from people.access import Actor, MemberRequest, holds, may_launch, may_read, member_required
from people.errors import Invalid
from people.requests.forms import FormFields, Stripped, number_in, number_of, read, text_of
from runs.show import errata

DONE = {"override": "Phase held.", "pin": "Task pinned.", "skip": "Task skipped.", "freeze": "Curriculum frozen."}


@require_GET
@member_required(may_read)
def curriculum_page(request: MemberRequest) -> HttpResponse:
    """Show the curriculum of a run; by default, of the run that trained last."""
    try:
        run = snapshots.run_of(request.actor, text_of(request.GET, "run"))
    except NoRun:
        return render(request, "curriculum/page.html", {"frame": _frame(request), "runs": []})
    return _page(request, run, {}, "")


@require_GET
@member_required(may_read)
def series_file(request: MemberRequest) -> HttpResponse:
    """Return every series of a run as CSV."""
    run = _run_for_files(request)
    headers = {"Content-Disposition": f'attachment; filename="training-{run.pk}.csv"'}
    return HttpResponse(series.in_csv(series.of_run(run)), content_type="text/csv; charset=utf-8", headers=headers)


@require_GET
@member_required(may_read)
def events_file(request: MemberRequest) -> HttpResponse:
    """Return every series of a run as a TensorBoard event file."""
    run = _run_for_files(request)
    headers = {"Content-Disposition": f'attachment; filename="{series.events_name(run)}"'}
    file = series.in_events(run, series.of_run(run))
    return HttpResponse(file, content_type="application/octet-stream", headers=headers)


@require_GET
@member_required(may_read)
def turns_file(request: MemberRequest) -> HttpResponse:
    """Return the drawn turns of every step as JSON Lines."""
    run = _run_for_files(request)
    headers = {"Content-Disposition": f'attachment; filename="turns-{run.pk}.jsonl"'}
    return HttpResponse("".join(generations.in_lines(run)), content_type="application/x-ndjson", headers=headers)


def _run_for_files(request: MemberRequest) -> Run:
    run = snapshots.run_of(request.actor, text_of(request.GET, "run"))
    _refuse_while_blind(request.actor, run)
    return run


def _refuse_while_blind(actor: Actor, run: Run) -> None:
    # rewards and outcomes are what a reviewer with a blind queue still has to judge
    for run_id in next_tasks.counted_runs(run):
        visibility.refuse_while_blind(actor, run_id)


class DecisionFields(FormFields):
    """A decision about a run: `kind` also names the phase of an override."""

    run: str = ""
    kind: Stripped = ""
    task: Stripped = ""
    reason: Stripped = ""
    until: Stripped = ""
    until_step: Stripped = ""


@require_POST
@member_required(may_launch)
def decide(request: MemberRequest) -> HttpResponse:
    """Write a decision; if it is refused, show the form again with the input."""
    form = read(request.POST, DecisionFields)
    run = snapshots.run_of(request.actor, form.run)
    kind, _, phase = form.kind.partition(":")
    try:
        steering.decide(
            request.actor,
            run,
            kind,
            phase or form.task,
            form.reason,
            until=form.until if kind == Decision.Kind.OVERRIDE else Decision.Until.UNDONE,
            until_step=number_in(form.until_step),
        )
    except Invalid as refused:
        return _page(request, run, form.model_dump(), refused.message)
    messages.success(request, DONE[kind])
    return _back(run)


@require_POST
@member_required(may_launch)
def undo(request: MemberRequest, pk: str) -> HttpResponse:
    """End a decision."""
    decision = steering.undo(request.actor, pk)
    messages.success(request, "Undone.")
    return _back(decision.run)


def _back(run: Run) -> HttpResponse:
    return redirect(f"{reverse('curriculum')}?{urlencode({'run': run.pk})}")


def _frame(request: MemberRequest) -> str:
    return "experts/desk/_parts.html" if request.htmx else "base.html"  # type: ignore[attr-defined]


def _page(request: MemberRequest, run: Run, typed: Mapping[str, str], problem: str) -> HttpResponse:
    _refuse_while_blind(request.actor, run)
    plan, helps, seen = CurriculumPlan.of(run.metadata), next_tasks.help_of(run), snapshots.look(run)
    file = f"{reverse('training_csv')}?{urlencode({'run': run.pk})}"
    context: dict[str, Any] = {
        "frame": _frame(request),
        "run": run,
        "runs": cockpit.runs_of(request.project),
        "links": cockpit.links_of(run),
        "plan": plan,
        "snapshot": seen,
        "moving": cockpit.moving(plan, helps[-1]),
        "form": cockpit.DecisionForm(holds(request.actor, may_launch), typed, problem),
        "story": cockpit.story(run),
        "rounds": rounds.shown_to(request.actor, run),
        "charts": cockpit.charts_of(run, plan, helps, file),
        "generations": cockpit.generations_of(run, number_of(request.GET, "turns")),
        "errata": errata.of_run(request.actor, run.pk),
        "levels": cockpit.level_rows(seen.content),
        "tasks": cockpit.tasks_of(run, seen.content, text_of(request.GET, "show") or next_tasks.SERVED),
    }
    return render(request, "curriculum/page.html", context, status=422 if problem else 200)
