"""Reads: the tree of an episode as lanes: the episode itself, and one lane for each arm of each fork below it.

Owns the order of lanes and where their lines are. Leaves which branches there are, and who sees how they ended, to
`runs.show.forks`. Called by pages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from episodes.models import BranchArm, Episode, Fork
from episodes.show.wall import EpisodeRow
from people.access import Actor
from people.rates import wilson
from runs.show import forks
from runs.show.forks import ContinuedEpisode
from runs.statistics import forked
from runs.statistics.forked import ForkArm

BEFORE = 6
"""Steps before the first fork that are drawn: all branches have them in common."""


@dataclass(frozen=True)
class TreeLane:
    """The branches of an arm of a fork, the first of them drawn; or the episode itself, which has no fork. `place` is
    where its first mark is, `wires` the places of the lines of later lanes, `own_wires` of those that begin here."""

    rows: list[EpisodeRow]
    words: str
    arm: ForkArm
    fork: Fork | None = None
    is_treated: bool = False
    since: int = 1
    place: int = 0
    parent: int | None = None
    wires: list[int] = field(default_factory=list)
    own_wires: list[int] = field(default_factory=list)

    @property
    def first(self) -> EpisodeRow:
        return self.rows[0]

    @property
    def why(self) -> str:
        """The change of treated branches, in a line."""
        change = self.fork.change if self.fork is not None and self.is_treated else {}
        if call := change.get("call"):
            return f"{call['name']} {json.dumps(call.get('arguments') or {}, ensure_ascii=False)}"
        if asked := change.get("ask"):
            return str(asked["question"])
        return str(change.get("advice") or change.get("words") or change.get("policy") or "")

    @property
    def begins(self) -> int:
        """The number of the first step that is drawn."""
        return self.first.episode.branch_seq or 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the share of complete branches; None for too few to have one."""
        return wilson(self.arm.complete, self.arm.known) if self.arm.known > 1 else None

    @property
    def share(self) -> float:
        return self.arm.complete / self.arm.known if self.arm.known else 0.0


@dataclass(frozen=True)
class EpisodeTree:
    """The lanes of a tree, from the step `since` on."""

    root: Episode
    lanes: list[TreeLane]
    since: int
    sees_ends: bool
    continued: list[ContinuedEpisode] = field(default_factory=list)

    @property
    def branches(self) -> int:
        return sum(len(one.rows) for one in self.lanes if one.fork is not None)

    @property
    def live(self) -> int:
        return sum(one.arm.live for one in self.lanes)


def lanes_of(actor: Actor, episode_id: str) -> EpisodeTree:
    """Return the tree that an episode is in, each fork after the lane that it was made of."""
    root, episodes = forks.members(actor, episode_id)
    sees = forks.sees_ends(actor, root)
    shown = {row.episode.pk: row for row in forks.rows_of(actor, root, episodes)}
    ends, done = forks.ends_of(actor, root, episodes), forks.ended(episodes)
    cuts = [one.branch_seq for one in episodes if one.branch_seq is not None]
    since = max(1, min(cuts, default=1) - BEFORE)
    lanes: list[TreeLane] = []
    below: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.fork is not None:
            below.setdefault(episode.fork.parent_id, []).append(episode)
    # a list, because a tree can be deeper than calls may be
    left: list[tuple[Sequence[Episode], str, Fork | None, int | None]] = [([root], "The episode itself", None, None)]
    while left:
        members, words, fork, parent = left.pop()
        arm = forked.arm_of(fork.tries if fork is not None else 1, [one.pk for one in members], ends, done)
        begins = members[0].branch_seq or 1
        rows = [shown[one.pk] for one in members]
        treated = members[0].branch_arm == BranchArm.TREATED
        lanes.append(TreeLane(rows, words, arm, fork, treated, since, max(0, begins - since), parent))
        left += reversed(_arms_below([row for one in members for row in below.get(one.pk, ())], len(lanes) - 1))
    for number, lane in enumerate(lanes):
        if lane.parent is not None:
            lanes[lane.parent].own_wires.append(lane.place)
            for between in lanes[lane.parent + 1 : number]:
                between.wires.append(lane.place)
    return EpisodeTree(root, lanes, since, sees, forks.continued(actor, root, episodes))


def _arms_below(
    branches: Sequence[Episode], parent: int
) -> list[tuple[Sequence[Episode], str, Fork | None, int | None]]:
    """Return the arms of the forks that were made of one lane, oldest fork first, the control first."""
    of_fork: dict[Fork, list[Episode]] = {}
    for branch in sorted(branches, key=lambda episode: (episode.created_at, episode.key)):
        if branch.fork is not None:
            of_fork.setdefault(branch.fork, []).append(branch)
    arms: list[tuple[Sequence[Episode], str, Fork | None, int | None]] = []
    for made, mine in of_fork.items():
        changed, kept = forked.labels(made.change)
        for name, of in ((kept.capitalize(), BranchArm.CONTROL), (changed, BranchArm.TREATED)):
            if arm := [one for one in mine if one.branch_arm == of]:
                arms.append((arm, name, made, parent))
    return arms
