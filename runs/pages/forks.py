"""Pages: the form that forks an episode at a step, and a fork with its branches.

Owns the form and HTTP status. Leaves making a fork to `runs.play.forking`, and what it shows to `runs.show.forks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from episodes.models import Episode, Fork
from episodes.show import wall, windows
from episodes.show.alignment import AlignedPair, acts_of, align
from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from people.access import Actor, MemberRequest, holds, may_launch, may_read, member_required, visible_or_404
from people.errors import AppError, Invalid
from people.in_words import duration
from people.json_text import parse_typed
from people.plain_text import clean
from runs.play import forking
from runs.show import forks
from runs.statistics import forked

KINDS = {"call": "Another call", "advice": "Other advice", "words": "Words to the agent", "nothing": "Choose again"}
ABOUT = {
    "call": "against the recorded call, made again",
    "advice": "against the recorded advice, given again",
    "words": "against the agent that chooses again without them",
    "nothing": "against the recorded choice, made again",
}
SIZES = (4, 8, 16)
ALIGNED = 200
"""The most steps of a branch that are aligned."""


@require_http_methods(["GET", "POST"])
@member_required(may_launch, rows=Episode.every.all)
def fork_form(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the form for `?step=K`; a POST makes the fork and opens it, or shows the form again with the errors."""
    given: Mapping[str, str] = request.POST if request.method == "POST" else {}
    seq = windows.number(given.get("seq") or request.GET.get("step")) or 1
    problem, status = "", 200
    if request.method == "POST":
        try:
            tries, tokens = _whole(given, "tries", 4), _whole(given, "tokens", 0)
            made = forking.fork(request.actor, pk, seq, _change(given), tries=tries, tokens=tokens)
        except AppError as refused:
            problem, status = refused.message, refused.status
        else:
            messages.success(
                request, f"{len(made.branches)} branches queued. The world was restored: {made.fork.grade}."
            )
            return redirect("fork", made.fork.pk)
    context = {"problem": problem, "typed": given, **_form(request.actor, pk, seq, given)}
    return render(request, "runs/fork_form.html", context, status=status)


def _change(given: Mapping[str, str]) -> forking.ForkChange:
    kind = given.get("kind", "")
    if kind not in KINDS:
        raise Invalid(f"kind: use one of {', '.join(KINDS)}.")
    if kind == "nothing":
        return forking.ForkChange()
    if kind != "call":
        return forking.change_of({kind: given.get(kind, "")})
    arguments = parse_typed(given.get("arguments") or "{}", "The arguments")
    return forking.change_of({"call": {"name": given.get("name", ""), "arguments": arguments}})


def _whole(given: Mapping[str, str], name: str, standard: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return standard
    if not (text.isascii() and text.isdecimal() and len(text) <= 13):
        raise Invalid(f"{name}: use a whole number.")
    return int(text)


def _form(actor: Actor, pk: str, seq: int, given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the form shows of a step: its recorded choice, or why it cannot be forked there."""
    parent = visible_or_404(Episode.every.select_related("project"), actor, pk)
    context: dict[str, Any] = {"episode": parent, "seq": seq, "last": parent.last_seq, "tries_max": forking.TRIES_MAX}
    try:
        steps, point = forking.place_of(forking.parent_of(actor, pk), seq)
    except AppError as refused:
        return context | {"refused": refused.message}
    step = point.step
    kinds = [name for name in KINDS if _fits(name, point)]
    call = {"name": step.get("name", ""), "arguments": step.get("arguments") or {}}
    named = [tool for tool in parent.tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    likely = forking.estimate(steps, point)
    least = [(size, other) for size in SIZES if (other := forked.least_shown(size)) is not None]
    return context | {
        "seq": step["seq"],
        "step": step,
        "kinds": [(name, KINDS[name], ABOUT[name]) for name in kinds],
        "kind": given.get("kind") or ("advice" if step["kind"] == "ask" else kinds[0]),
        "tools": [tool["name"] for tool in named],
        "name": given.get("name") or call["name"],
        "arguments": given.get("arguments") or json.dumps(call["arguments"], indent=2),
        "recorded": {
            **call,
            "tools": [{"name": one["name"], "input_schema": one.get("input_schema")} for one in named],
        },
        "advice": given.get("advice", clean((step.get("advice") or {}).get("text", ""))),
        "estimate": likely,
        "took": duration(likely.seconds),
        "least": least,
        "is_script": parent.policy_kind == "script",
    }


def _fits(kind: str, point: forking.BranchPoint) -> bool:
    if kind == "advice":
        return point.step["kind"] == "ask" and point.step.get("typed") is None
    return point.first or kind == "call"


@require_GET
@member_required(may_read, rows=Fork.objects.all)
def fork_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show a fork: its sentence, its branches, and two of them side by side from the step on."""
    actor = request.actor
    rows = Fork.objects.select_related("parent__project", "parent__fork")
    made = visible_or_404(rows, actor, pk)
    branches = list(Episode.every.filter(fork=made).select_related("fork", "project").order_by("-branch_arm", "pk"))
    finding = forks.finding_of(actor, made, branches)
    shown = wall.rows_with_outcomes(actor, [made.parent, *branches])
    ends = forks.sees_ends(actor, made.parent)
    lanes = [(row, row.episode.strip[_first(row.episode, branches) - 1 :]) for row in shown]
    changed, kept = forked.labels(made.change)
    context = {
        "fork": made,
        "parent": made.parent,
        "lanes": lanes,
        "sees_ends": ends,
        "finding": finding,
        "arms": [(changed, finding.treated), (kept.capitalize(), finding.control)] if finding else [],
        "changed": changed,
        "kept": kept,
        "call": json.dumps(made.change["call"].get("arguments") or {}, ensure_ascii=False)
        if "call" in made.change
        else "",
        "is_live": any(one.is_live for one in branches)
        or bool(finding and (finding.treated.live or finding.control.live)),
        "pairs": _aligned(actor, made, branches),
        "other_forks": Fork.objects.filter(parent=made.parent).exclude(pk=made.pk).order_by("-created_at")[:12],
        "may_launch": holds(actor, may_launch),
    }
    return render(request, "runs/fork.html", context)


def _first(episode: Episode, branches: Sequence[Episode]) -> int:
    """Return the first step that a lane draws: branches have the copied ones in common with their parent."""
    return episode.branch_seq or 1 if episode in branches else 1


def _aligned(actor: Actor, made: Fork, branches: Sequence[Episode]) -> list[AlignedPair]:
    """Return the actions of the first branch of each arm from the step on, aligned; empty until both have some."""
    firsts = [next((one for one in branches if one.branch_arm == arm), None) for arm in ("treated", "control")]
    sides = [
        acts_of(trajectory.steps_of(one, (one.branch_seq or 1) - 1, ALIGNED, lens=lens_of(actor, one)))
        for one in firsts
        if one is not None
    ]
    return align(*sides) if len(sides) == 2 and all(sides) else []
