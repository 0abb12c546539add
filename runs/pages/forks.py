"""Pages: the form that forks an episode at a step, and a fork with its branches.

Owns the form and HTTP status. Leaves making a fork to `runs.play.forking`, and what it shows to `runs.show.forks`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from awmclient.nouns.kinds import is_ask
from episodes.models import Episode, Fork
from episodes.show.alignment import AlignedPair, acts_of, align, words_of
from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from people.access import Actor, MemberRequest, holds, may_launch, may_read, member_required, visible_or_404
from people.errors import AppError, Invalid
from people.requests.form_ids import form_id
from people.requests.forms import FormFields, is_named, labeled, number_in, number_of, read, text_of, whole
from people.requests.parts import part_of
from people.text.in_words import duration
from people.text.json_text import parse_typed
from people.text.plain_text import clean
from runs.errors import NotForkable
from runs.launch import launching
from runs.play import forking, prompting
from runs.show import campaigns, forks, lanes
from runs.statistics import forked

CHANGES = {
    "call": ("Another call", "against the recorded call, made again"),
    "advice": ("Other advice", "against the recorded advice, given again"),
    "words": ("Words to the agent", "against the agent that chooses again without them"),
    "ask": ("Ask here", "a question to the experts, against the recorded choice"),
    "policy": ("Another model", "against the agent that chooses again"),
    "nothing": ("Choose again", "against the recorded choice, made again"),
}
"""What a fork can change, each with its label and what it is compared with."""
LABELS = {
    "change.call.name": "Tool", "change.call.arguments": "Arguments", "change.advice": "Advice that the agent gets",
    "change.words": "Words to the agent", "change.ask.question": "Question to the experts", "change.policy": "Model",
    "tries": "Branches per arm", "tokens": "Tokens of all branches",
}  # fmt: skip
SIZES = (4, 8, 16)
PROOF_TRIES = 8
"""The branches per arm that the form suggests for the proof of a correction."""
ALIGNED = 200
"""The most steps of a branch that are aligned."""


class ForkForm(FormFields):
    """A fork: the step, and what is different from it on. `arguments` are JSON."""

    seq: str = ""
    kind: str = ""
    correction: str = ""
    name: str = ""
    arguments: str = ""
    advice: str = ""
    words: str = ""
    ask: str = ""
    policy: str = ""
    tries: str = ""
    tokens: str = ""


class ForkSize(FormFields):
    """How many branches a fork has in each arm, and their tokens together."""

    tries: Annotated[int | None, whole("tries: use a whole number.", 10**13)] = None
    tokens: Annotated[int | None, whole("tokens: use a whole number.", 10**13)] = None


@require_http_methods(["GET", "POST"])
@member_required(may_launch, rows=Episode.every.all)
def fork_form(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the form for `?step=K`; a POST makes the fork and opens it, or shows the form again with the errors. With
    `prompt=1` return the prompt to continue from the step, as a file."""
    if request.method == "GET" and is_named(request.GET, "prompt"):
        return _prompt(request.actor, pk, number_of(request.GET, "step") or 1)
    form, problem, status = read(request.POST, ForkForm), "", 200
    seq = number_in(form.seq or text_of(request.GET, "step")) or 1
    if request.method == "POST":
        try:
            size = read(request.POST, ForkSize)
            tries = _tries(form.correction, "") if size.tries is None else size.tries
            change, made_as = _change(form), form_id(request.POST)
            made = forking.fork_with(
                request.actor, pk, seq, change, form.correction, tries=tries, tokens=size.tokens or 0, pk=made_as
            )
        except AppError as refused:
            problem, status = labeled(refused.message, LABELS), refused.status
        else:
            messages.success(
                request, f"{len(made.branches)} branches queued. The world was restored: {made.fork.grade}."
            )
            return redirect("fork", made.fork.pk)
    context = {
        "problem": problem,
        "typed": form,
        "form_id": form_id(request.POST),
        **_form(request.actor, pk, seq, form, form.correction or text_of(request.GET, "correction")),
    }
    # such as a world that was not restored
    if status == NotForkable.status:
        context["can_continue"] = _can_continue(request.actor, pk, seq)
    return render(request, "runs/fork_form.html", context, status=status)


def _prompt(actor: Actor, pk: str, seq: int) -> HttpResponse:
    text = json.dumps(asdict(prompting.prompt_at(actor, pk, seq)), indent=2)
    headers = {"Content-Disposition": f'attachment; filename="prompt-{seq}.json"'}
    return HttpResponse(text, content_type="application/json", headers=headers)


def _tries(correction: str, kind: str) -> int:
    """Return how many branches per arm the form suggests. A script makes the same choices in each, so one is all."""
    return 1 if kind == "script" else PROOF_TRIES if correction else 4


def _change(form: ForkForm) -> dict[str, Any]:
    kind = form.kind
    # the action is the correction's own
    if form.correction:
        return {}
    if kind not in CHANGES:
        raise Invalid(f"kind: use one of {', '.join(CHANGES)}.")
    if kind == "nothing":
        return {}
    if kind == "ask":
        return {"ask": {"question": form.ask}}
    if kind != "call":
        return {kind: getattr(form, kind)}
    arguments = parse_typed(form.arguments or "{}", "The arguments")
    return {"call": {"name": form.name, "arguments": arguments}}


def _form(actor: Actor, pk: str, seq: int, form: ForkForm, correction: str = "") -> dict[str, Any]:
    """Return what the form shows of a step: its recorded choice, or why it cannot be forked there."""
    parent = visible_or_404(Episode.every.select_related("project"), actor, pk)
    context: dict[str, Any] = {"episode": parent, "seq": seq, "last": parent.last_seq, "tries_max": forking.TRIES_MAX}
    try:
        if correction:
            context["correction"], action = forking.corrected(actor, correction)
            context["action"] = action.model_dump(exclude_none=True)
            context["corrected"] = json.dumps(context["correction"].arguments, ensure_ascii=False)
        steps, point = forking.place_of(forking.parent_of(actor, pk), seq)
    except AppError as refused:
        return context | {"refused": refused.message, "can_continue": _can_continue(actor, pk, seq)}
    step = point.step
    policies = launching.model_names()
    kinds = [name for name in CHANGES if _fits(name, point, parent) and (policies or name != "policy")]
    call = {"name": step.get("name", ""), "arguments": step.get("arguments") or {}}
    named = [tool for tool in parent.tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    is_offered = call["name"] in [tool["name"] for tool in named]
    likely = forking.estimate(steps, point)
    tries = _tries(correction, parent.policy_kind)
    branches = 2 * (number_in(form.tries) or tries)
    each = {"branches": 1, "turns": likely.turns, "tokens": likely.tokens, "questions": likely.asks}
    # with this one, all forks of the tree share the error
    recorded = clean((step.get("advice") or {}).get("text", ""))
    asked = [(each.made_at, each.read_at) for each in forks.asked_in([parent.pk])[parent.pk]]
    share = forked.shares([*asked, (timezone.now(), None)])[-1]
    least = [(size, other) for size in SIZES if (other := forked.least_shown(size, share)) is not None]
    return context | {
        "seq": step["seq"],
        "step": step,
        "kinds": [(name, *CHANGES[name]) for name in kinds],
        # a call that no tool takes, as a question without an expert, is none to make again with other values
        "kind": form.kind or ("advice" if is_ask(step) else _first_of(kinds, is_offered or not call["name"])),
        "tools": [tool["name"] for tool in named],
        "name": form.name or call["name"],
        "arguments": form.arguments or json.dumps(call["arguments"] if is_offered else {}, indent=2),
        "recorded": {
            **call,
            "tools": [{"name": one["name"], "input_schema": one.get("input_schema")} for one in named],
        },
        "advice": form.advice if "advice" in form.model_fields_set else recorded,
        "estimate": likely,
        "tries": tries,
        "took": duration(likely.seconds),
        "takes": duration(branches * likely.seconds),
        "cost": [(one, branches * one, noun) for noun, one in each.items() if one],
        "policies": policies,
        "least": least,
        "is_script": parent.policy_kind == "script",
    }


def _first_of(kinds: Sequence[str], can_repeat: bool) -> str:
    """Return the change with which the form begins."""
    return "words" if "words" in kinds and not can_repeat else kinds[0]


def _can_continue(actor: Actor, pk: str, seq: int) -> bool:
    """Return whether there is a prompt to continue from a step that cannot be forked."""
    try:
        prompting.prompt_at(actor, pk, seq)
    except AppError:
        return False
    return True


def _fits(kind: str, point: forking.BranchPoint, parent: Episode) -> bool:
    if kind == "advice":
        return is_ask(point.step) and point.step.get("typed") is None
    if kind == "ask":
        return not is_ask(point.step) and forking.asks_freely(parent)
    return point.first or kind == "call"


@require_GET
@part_of("replay")
@member_required(may_read, rows=Episode.every.all)
def proof(request: MemberRequest, pk: str) -> HttpResponse:
    """Return what the newest fork with the correction `?correction=ID` shows, or the offer to make one."""
    actor = request.actor
    episode = visible_or_404(Episode.every.select_related("project"), actor, pk)
    evidence = forks.proof_of(actor, episode, text_of(request.GET, "correction"))
    provable = not evidence.fork and evidence.correction.kind in forking.PROVABLE
    shown = {"proof": evidence, "episode": episode, "provable": provable, "may_prove": holds(actor, may_launch)}
    return render(request, "runs/_proof.html", shown)


@require_GET
@member_required(may_read, rows=Episode.every.all)
def tree_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the tree of an episode and its branches: one lane for each arm of each fork."""
    tree = lanes.lanes_of(request.actor, pk)
    forks_made = {one.fork.pk: one.fork for one in tree.lanes if one.fork is not None}
    of_root = [one for one in forks_made.values() if one.parent_id == tree.root.pk]
    last = max(of_root, key=lambda made_fork: made_fork.created_at, default=None)
    context = {
        "tree": tree,
        "at": last.seq if last is not None else max(1, tree.root.last_seq),
        "forks_count": len(forks_made),
        "may_launch": holds(request.actor, may_launch) and tree.root.is_builtin and not tree.root.is_live,
    }
    return render(request, "runs/tree.html", context)


@require_GET
@member_required(may_read, rows=Fork.objects.all)
def fork_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show a fork: its sentence, its branches, and two of them side by side from the step on."""
    actor = request.actor
    rows = Fork.objects.select_related("parent__project", "parent__fork")
    made = visible_or_404(rows, actor, pk)
    branches = list(Episode.every.filter(fork=made).select_related("fork", "project").order_by("-branch_arm", "pk"))
    finding = forks.finding_of(actor, made, branches)
    shown = forks.rows_of(actor, made.parent, [made.parent, *branches])
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
        "lines": [
            (pair, words_of(pair, (f"“{changed}”", f"“{kept.capitalize()}”")))
            for pair in _aligned(actor, made, branches)
        ],
        "other_forks": Fork.objects.filter(parent=made.parent).exclude(pk=made.pk).order_by("-created_at")[:12],
        "campaign": campaigns.of_fork(made),
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
        acts_of(trajectory.steps_of(branch, (branch.branch_seq or 1) - 1, ALIGNED, lens=lens_of(actor, branch)))
        for branch in firsts
        if branch is not None
    ]
    return align(*sides) if len(sides) == 2 and all(sides) else []
