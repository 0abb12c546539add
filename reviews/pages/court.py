"""Pages about the court: the doubted tasks, one case with its rulings, and the rulings as a file.

Owns HTTP status and redirects. Leaves rulings to `court.py`. Raises for readers who still have to judge an episode of a
case.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from episodes.models import Episode, Fork, VerifierOutcome
from episodes.show.state_lines import DiffLine, diff_lines
from episodes.stored.packs import blockers_of, has_task, verifier_text
from episodes.stored.repairs import in_force
from episodes.stored.strip import last_call
from episodes.visible import visibility
from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_launch,
    may_see_reviews,
    may_set_reviews,
    member_required,
    visible_or_404,
)
from people.errors import AppError
from people.requests.forms import text_of
from people.text.plain_text import clean
from reviews.models import CourtCase, Word
from reviews.record import court
from reviews.visible import rulings

CASES, CHANGES = 200, 60
VERIFIER_WRONG = (Word.BROKEN, Word.TOO_STRICT, Word.TOO_LENIENT)


@require_GET
@member_required(may_see_reviews)
def court_page(request: MemberRequest) -> HttpResponse:
    """Show the doubted tasks."""
    cases = rulings.open_cases(request.actor)
    ruled = rulings.cases_of(request.actor).exclude(pk__in=cases).order_by("-ruled_at")
    n = cases.count()
    headline = f"{n or 'No'} {'task waits' if n == 1 else 'tasks wait'} for a ruling."
    context = {"headline": headline, "cases": rulings.with_doubts(cases[:CASES]), "ruled": ruled[:CASES]}
    return render(request, "reviews/court.html", context)


@require_http_methods(["GET", "POST"])
@member_required(may_see_reviews, rows=CourtCase.objects.all)
def case_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show everything about one doubted task, and rule on it. Raises for readers who still have to judge one of its
    episodes."""
    actor, problem = request.actor, ""
    case = visible_or_404(CourtCase.objects.select_related("project"), actor, pk)
    # before POST as well: a ruling is the answer of one who knows outcomes
    rulings.refuse_while_blind(actor, case)
    if request.method == "POST":
        try:
            ruling = court.rule(actor, pk, text_of(request.POST, "word"), text_of(request.POST, "reason"))
            messages.success(request, f"Ruling given: {ruling.get_word_display()}.")
            # who finds the verifier wrong goes on to repair it
            if ruling.word in VERIFIER_WRONG and has_task(case.scenario, case.task_idx):
                return redirect("verifier", case.scenario, case.task_idx)
            return redirect("case", pk)
        except AppError as refused:
            problem = refused.message
    episodes = visibility.with_open_outcome(actor, rulings.episodes_of(case))[:50]
    rows = list(episodes)
    outcomes = {one.episode_id: one for one in visibility.of_episodes(actor, [one.pk for one in rows])}
    verdicts = visibility.with_open_outcome(actor, rulings.verdicts_of(case), "episode_id")[:100]
    doubts = rulings.doubts_of(case).count()
    state = ", ruled" if case.ruled_at is not None and case.ruled_at >= case.doubted_at else ""
    context = {
        "case": case,
        "headline": f"{clean(case.task_key)}: {doubts or 'no'} {'doubt' if doubts == 1 else 'doubts'}{state}.",
        "task": rows[0].task if rows else "",
        **(_verifiers(case) if holds(actor, may_set_reviews) else {}),
        "episodes": [(one, outcomes.get(one.pk), _changes(outcomes.get(one.pk)), _fork_at(actor, one)) for one in rows],
        "forked": set(Fork.objects.filter(parent__in=rows).values_list("parent_id", flat=True)),
        "verdicts": verdicts,
        "rulings": case.rulings.order_by("-created_at"),
        "words": Word.choices,
        "may_set": holds(actor, may_set_reviews),
        "problem": problem,
        "given": request.POST,
    }
    return render(request, "reviews/case.html", context, status=422 if problem else 200)


def _verifiers(case: CourtCase) -> dict[str, Any]:
    """Return the verifier of the pack, the repaired one in force, and the registry of the task, for those who rule."""
    task = (case.scenario, case.task_idx)
    repaired = in_force(case.project, *task)
    return {
        "verifier": clean(verifier_text(*task)),
        "repaired": repaired,
        "repaired_code": clean(repaired.code) if repaired is not None else "",
        "may_repair": has_task(*task),
        "blockers": blockers_of(*task),
    }


def _fork_at(actor: Actor, episode: Episode) -> int:
    """Return the step at which a judge can fork an episode, to see whether its verifier accepts right ends alone; 0 if
    this actor cannot fork it."""
    return last_call(episode.strip) if holds(actor, may_launch) and episode.is_builtin and not episode.is_live else 0


def _changes(outcome: VerifierOutcome | None) -> list[DiffLine]:
    """Return the first lines of an episode's database changes, as its verifier saw them."""
    return list(islice(diff_lines(outcome.state_diff), CHANGES)) if outcome is not None else []


@require_GET
@member_required(may_see_reviews)
def court_report(request: MemberRequest) -> HttpResponse:
    """Return every ruling as a file, for the authors of the dataset."""
    text = json.dumps({"rulings": rulings.report(request.actor)}, indent=2)
    headers = {"Content-Disposition": 'attachment; filename="rulings.json"'}
    return HttpResponse(text, content_type="application/json", headers=headers)
