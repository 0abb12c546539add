"""Pages: the verifier of a task: its code in an editor, the episodes that it judged, its versions and passes.

Owns the form and HTTP status. Leaves judging again to `runs.play.reverifying`.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from episodes.errors import BlindReview
from episodes.models import Episode, RejudgedEpisode, Rejudging
from episodes.show import wall
from episodes.stored import repairs
from episodes.visible import visibility
from people.access import MemberRequest, may_repair, member_required, scoped
from people.errors import AppError
from people.requests.forms import text_of
from people.text.plain_text import clean
from runs.launch import launching
from runs.play import reverifying
from runs.show import errata

EPISODES, PASSES = 60, 12


@require_http_methods(["GET", "POST"])
@member_required(may_repair)
def verifier_page(request: MemberRequest, scenario: str, task_idx: int) -> HttpResponse:
    """Show the verifier of a task; a POST stores a repaired one, or judges again with the one in force."""
    actor, problem, status = request.actor, "", 200
    if visibility.judges_blind(actor, scenario, task_idx):
        raise BlindReview
    if request.method == "POST":
        try:
            action = text_of(request.POST, "action")
            code = text_of(request.POST, "code") if action != "again" else ""
            if action == "repair" and not code.strip():
                code = " "  # refused with the words for an empty verifier, and not taken for none
            reverifying.request(actor, scenario, task_idx, code, text_of(request.POST, "reason"))
            return redirect("verifier", scenario, task_idx)
        except AppError as refused:
            problem, status = refused.message, refused.status
    context = {"problem": problem, "given": request.POST, **_shown(request, scenario, task_idx)}
    return render(request, "runs/verifier.html", context, status=status)


def _shown(request: MemberRequest, scenario: str, task_idx: int) -> dict[str, Any]:
    actor = request.actor
    task = launching.task_text(scenario, task_idx)
    version = repairs.in_force(actor.project, scenario, task_idx)
    versions = list(repairs.versions_of(actor.project, scenario, task_idx).order_by("-number"))
    # the newest one, also if it had no effect: its author goes on with it
    newest = versions[0] if versions else None
    code = repairs.code_of(newest, scenario, task_idx)
    passes = list(repairs.passes_of(actor.project, scenario, task_idx)[:PASSES])
    counts = repairs.counts_of(passes)
    rows = scoped(Episode.every.all(), actor.project).filter(scenario=scenario, task_idx=task_idx)
    shown = wall.rows_with_outcomes(actor, rows.order_by("-created_at")[:EPISODES])
    judged = _last_judged(passes, [row.episode.pk for row in shown])
    return {
        "scenario": scenario,
        "task_idx": task_idx,
        "task": task,
        "version": version,
        "versions": versions,
        "newest": newest,
        "code": text_of(request.POST, "code") or code,
        "lines": min(40, max(12, code.count("\n") + 2)),
        "passes": [(one, counts[one.pk], errata.of_pass(actor, one)) for one in passes],
        "is_live": any(one.ended_at is None for one in passes),
        "rows": [(row, judged.get(row.episode.pk)) for row in shown],
        "count": rows.count(),
        "name": clean(f"{scenario}/{task_idx}"),
    }


def _last_judged(passes: list[Rejudging], episodes: list[str]) -> dict[str, RejudgedEpisode]:
    """Return what the newest pass found for each of these episodes."""
    rows = RejudgedEpisode.objects.filter(rejudging__in=passes[:1], episode__in=episodes)
    return {one.episode_id: one for one in rows}
