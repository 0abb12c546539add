"""The page that compares episodes: two side by side, several as small multiples.

Owns HTTP status, which episodes, and which of their steps are read. The rules of the comparison are in `alignment.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from episodes.models import Episode, Step
from episodes.show import wall, windows
from episodes.show.alignment import acts_of, align, differences, divergence, headline, words_of
from episodes.visible import visibility
from episodes.visible.lens import lens_of
from people.access import Actor, MemberRequest, member_required, scoped, visible_or_404
from people.errors import Invalid
from people.requests.forms import text_of, texts_of
from people.text.plain_text import clean

STEPS = 2_000
"""The number of steps of each episode that are compared, large ones in their cut form."""
MULTIPLES = 24
DIFFERENCES = 200


@require_GET
@member_required()
def compare(request: MemberRequest) -> HttpResponse:
    """Compare the episodes of `episode=`; with `with=`, the newest of that episode's task and itself."""
    chosen = _chosen(request)
    rows = wall.rows_with_outcomes(request.actor, chosen)
    tasks = {(one.scenario, one.task_idx, one.task) for one in chosen}
    context: dict[str, Any] = {"rows": rows, "one_task": len(tasks) == 1, "first": chosen[0]}
    if len(chosen) == 2:
        context |= _side_by_side(request.actor, chosen)
    return render(request, "episodes/compare.html", context)


def _chosen(request: MemberRequest) -> list[Episode]:
    everything = scoped(Episode.every.select_related("run"), request.project)
    if pk := text_of(request.GET, "with"):
        base = visible_or_404(Episode.every.all(), request.actor, pk)
        same = everything.filter(scenario=base.scenario, task_idx=base.task_idx, task=base.task).exclude(pk=base.pk)
        return [base, *same.order_by("-created_at", "-pk")[: MULTIPLES - 1]]
    ids = list(dict.fromkeys(texts_of(request.GET, "episode")))
    if not 2 <= len(ids) <= MULTIPLES:
        raise Invalid(f"Select 2 to {MULTIPLES} episodes to compare.")
    return [visible_or_404(everything, request.actor, pk) for pk in ids]


def _side_by_side(actor: Actor, pair: Sequence[Episode]) -> dict[str, Any]:
    """Return the values of the page for two: aligned actions, the first divergence, answers, and the final
    databases."""
    steps = [_steps(actor, one) for one in pair]
    pairs = align(*(acts_of(side) for side in steps))
    first = divergence(pairs)
    names, heads = _names(pair)
    differing = differences(*_changes(actor, pair, steps))
    same = sum(line.kind == "same" for line in pairs)
    return {
        "lines": [(line, words_of(line, names)) for line in pairs],
        "diverges": first,
        "headline": headline(pairs[first], names) if first is not None else "",
        "heads": heads,
        "same": same,
        "cut": any(one.last_seq > STEPS for one in pair),
        "differences": differing[:DIFFERENCES],
        "more_differences": max(0, len(differing) - DIFFERENCES),
        "answers": list(zip(heads, (clean(one.final_answer or "") for one in pair), strict=True)),
    }


def _names(pair: Sequence[Episode]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the names of two episodes inside a sentence and as heads of columns: their arms, if these tell them
    apart, else the seeds of one task."""
    first, other = (clean(one.arm) for one in pair)
    if first and other and first != other:
        return (first, other), (first, other)
    seeds, tasks = [one.seed for one in pair], {(one.scenario, one.task_idx, one.arm) for one in pair}
    if None not in seeds and seeds[0] != seeds[1] and len(tasks) == 1:
        return (f"seed {seeds[0]}", f"seed {seeds[1]}"), (f"Seed {seeds[0]}", f"Seed {seeds[1]}")
    return ("the first", "the second"), ("First", "Second")


def _steps(actor: Actor, episode: Episode) -> list[dict[str, Any]]:
    rows = Step.objects.filter(episode=episode).exclude(kind="verification")
    return [row.wire() for row in windows.shown(lens_of(actor, episode), rows, STEPS)]


def _changes(
    actor: Actor, pair: Sequence[Episode], steps: Sequence[list[dict[str, Any]]]
) -> list[list[dict[str, Any]]]:
    """Return the changes from start to end: as the verifier saw them if it saw both, else as the steps recorded
    them."""
    seen = [visibility.of_episode(actor, one) for one in pair]
    whole = [one.state_diff for one in seen if one is not None and one.state_diff]
    # both or neither: a verifier's diff has rows that no step reported, which would show as differences
    return [[{"seq": 0, "state_diff": diff}] for diff in whole] if len(whole) == len(pair) else list(steps)
