"""Reads: the forks of an episode with their branches, and what a fork shows.

Owns which branches belong together and who sees their outcomes. Leaves the arithmetic and the sentence to
`runs.statistics.forked`. Called by the API and pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episodes.models import BranchArm, Episode, Fork
from episodes.stored.settled import settled
from episodes.visible import visibility
from people.access import Actor, may_see_asking, scoped, visible_or_404
from runs.statistics import forked
from runs.statistics.forked import ForkFinding

TREE_MAX = 1000
"""The most branches of a tree in one answer."""


def row_of(branch: Episode, outcome: str | None) -> dict[str, Any]:
    """Return an episode of a tree as the API returns it."""
    made = branch.fork
    about = {"id": branch.pk, "state": branch.state, "grade": branch.grade or None, "outcome": outcome}
    if made is None:
        return about
    place = {"parent": made.parent_id, "step": made.seq, "arm": branch.branch_arm}
    return {**about, **place, "change": made.change, "privilege": branch.knowledge}


def sees_ends(actor: Actor, episode: Episode) -> bool:
    """Return whether an actor sees how branches of an episode ended. A branch ends on the same task, so it shows a
    blind reviewer of that task too much."""
    return visibility.sees_outcome(actor, episode) and not visibility.judges_its_task(actor, episode)


def ends_of(actor: Actor, root: Episode, branches: Sequence[Episode]) -> dict[str, str]:
    """Return the reward types of ended branches that this actor sees, without those of a failed judge."""
    return visibility.verdict_types(actor, [one.pk for one in branches]) if sees_ends(actor, root) else {}


def root_of(episode: Episode) -> Episode:
    """Return the episode at the top of a branch's tree, or the episode itself."""
    while episode.fork is not None:
        episode = episode.fork.parent
    return episode


def tree(actor: Actor, episode_id: str) -> tuple[Episode, list[dict[str, Any]]]:
    """Return the root of an episode's tree, and all its episodes, parents first."""
    may_see_asking(actor)
    rows = Episode.every.select_related("fork__parent")
    root = root_of(visible_or_404(rows, actor, episode_id))
    found, level = [root], [root.pk]
    while level and len(found) < TREE_MAX:
        below = scoped(rows.filter(fork__parent__in=level), actor.project).order_by("created_at", "key")
        children = list(below[: TREE_MAX - len(found)])
        found += children
        level = [one.pk for one in children]
    ends = ends_of(actor, root, found)
    return root, [row_of(one, ends.get(one.pk)) for one in found]


def finding_of(actor: Actor, fork: Fork, branches: Sequence[Episode]) -> ForkFinding | None:
    """Return what the branches of a fork show; None for an actor who does not see how they ended."""
    if not sees_ends(actor, fork.parent):
        return None
    ends = ends_of(actor, fork.parent, branches)
    done = set(settled().filter(pk__in=[one.pk for one in branches]).values_list("pk", flat=True))

    def arm_of(arm: BranchArm) -> forked.ForkArm:
        mine = [one for one in branches if one.branch_arm == arm]
        types = [ends[one.pk] for one in mine if one.pk in ends]
        live = sum(one.pk not in done for one in mine)
        return forked.ForkArm(len(mine), len(types), types.count("complete"), live)

    changed, kept = forked.labels(fork.change)
    asked = Fork.objects.filter(parent=fork.parent, seq=fork.seq).count()
    fixed = fork.parent.policy_kind == "script"
    arms = (arm_of(BranchArm.TREATED), arm_of(BranchArm.CONTROL))
    return forked.finding(*arms, changed, kept, forks=asked, fixed=fixed)
